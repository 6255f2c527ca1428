"""The files of a first day: the repository's own examples, with a host or a script in them."""

from __future__ import annotations

import os
import re
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from dflashctl.inventory.write import hosts_block, scalar

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from dflashctl.inventory.found import Found

INVENTORY = "inventory/hosts.yml"
PLAYBOOK = "playbooks/deploy.yml"
BUCKETS = "playbooks/optimize-buckets.yml"
PAYLOAD = ("playbooks/demo/train.py", "playbooks/demo/start_training.sh")
# Editors find them from the first line of inventory and playbook.
SCHEMAS = ("schemas/inventory.json", "schemas/playbook.json")
_CHECKPOINTS = "/workspace/checkpoints"
_ABOUT_HOSTS = """\
  # What ~/.ssh/config says about the address holds, unless a line here says otherwise.
"""
_ABOUT_CONTAINERS = """\
      # Entered through the host with `pct exec`: they need no sshd of their own.
"""


def example(name: str) -> str:
    """The text of an example, which an installed package carries along."""
    place: Traversable = files("dflashctl") / "examples"
    if not place.is_dir():
        # Run from the repository: there they are.
        place = Path(__file__).parents[2]
    return (place / name).read_text(encoding="utf-8")


def inventory_of(found: Found | None) -> str:
    """The example inventory; with a host that was asked, that one in the place of its hosts."""
    text = example(INVENTORY)
    if found is None:
        return text
    head, _, _ = text.partition("\nhosts:\n")
    default = f"default_target: {scalar(found.best)}"
    head = re.sub(r"(?m)^default_target: .*$", default, head)
    hosts = hosts_block(found.name, found.body)
    hosts = hosts.replace("hosts:\n", f"hosts:\n{_ABOUT_HOSTS}", 1)
    hosts = hosts.replace("    containers:\n", f"    containers:\n{_ABOUT_CONTAINERS}", 1)
    return f"{head}\n{hosts}"


def playbook_of(script: Path | None, folder: Path, found: Found | None) -> str:
    """The example playbook; with a script of one's own, that one instead of the example's.

    Args:
        script: what to push and run.
        folder: where the playbook will be; it names the script from there.
        found: the host, whose user may have no way into /root.
    """
    text = example(PLAYBOOK)
    if script is not None:
        text = _with_script(text, script, folder)
    # Into a container we come as root; on a host as whom it lets in.
    home = found.seen.home if found is not None and not found.seen.containers else "/root"
    if home != "/root" and re.fullmatch(r"/[\w./-]+", home):
        text = re.sub(r"(?<=[ :/\[])/root(?=[/\n,\]])", home, text)
        text = text.replace(_CHECKPOINTS, f"{home}/checkpoints")
    return text


def _with_script(text: str, script: Path, folder: Path) -> str:
    dest = f"/root/{script.name}"
    source = scalar(os.path.relpath(script.absolute(), folder.absolute()))
    mode = "" if script.suffix == ".py" else ', mode: "0755"'
    words = {".py": "python3, -u, ", ".sh": "bash, "}.get(script.suffix, "")
    push = f"files:\n  - {{source: {source}, dest: {scalar(dest)}{mode}}}\n"
    for pattern, new in (
        (r"^files:\n(?:  - .*\n)+", push),
        (r"^  command: .*\n", f"  command: [{words}{scalar(dest)}]\n"),
        (r"^(    CHECKPOINTS: \S+).*\n", ""),
        (r"^  python: python3\n  imports: .*\n", "  # python: python3\n  # imports: [torch]\n"),
    ):
        text, changed = re.subn(pattern, lambda _, new=new: new, text, flags=re.MULTILINE)  # type: ignore[misc] # mypy infers no lambda with a default
        assert changed == 1, f"the example playbook has no {pattern}"
    return text
