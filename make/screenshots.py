"""`make screenshots`: docs/images/*.svg, what the real program prints on this machine.

A small real trainer is deployed here, in a folder and a tmux server of its own. Nothing is
drawn by hand: the pictures are the program's own output, colours included.
"""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
COLUMNS = 88
# Rich's own picture, without the font that it would fetch from elsewhere.
PICTURE = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: monospace; font-size: {char_height}px;
  line-height: {line_height}px; font-variant-east-asian: full-width; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def main() -> None:
    """Deploy, look, deploy anew, and keep what was printed."""
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="dflash-", dir="/tmp") as name:
        folder = Path(name)
        write_files(folder)
        try:
            run(folder, "deploy")
            time.sleep(12)
            pictured(folder, "status", "status")
            pictured(folder, "deploy", "deploy --restart --clear-checkpoints")
        finally:
            run(folder, "stop")


def write_files(folder: Path) -> None:
    """An inventory of this machine, and the demo's playbook with all its paths in the folder."""
    (folder / "inventory.yml").write_text(
        f"version: 1\nhosts:\n  gpu-box:\n    connection: local\n    python: {sys.executable}\n"
        f"    state_dir: {folder}/state\n    tmux_socket: {folder}/tmux\n"
    )
    playbook = (ROOT / "playbooks" / "demo.yml").read_text(encoding="utf-8")
    playbook = playbook.replace("/tmp/dflashctl-demo", str(folder))
    playbook = playbook.replace("source: demo/", f"source: {ROOT}/playbooks/demo/")
    playbook = playbook.replace("PYTHON: python3", f"PYTHON: {sys.executable}")
    playbook = playbook.replace("python: python3", f"python: {sys.executable}")
    (folder / "playbook.yml").write_text(playbook, encoding="utf-8")


def run(folder: Path, *words: str) -> str:
    """What a command prints, both streams as a terminal would show them."""
    done = subprocess.run(
        [sys.executable, "-m", "dflashctl", "--color", "always", *words],
        env={
            **os.environ,
            "DFLASHCTL_INVENTORY": str(folder / "inventory.yml"),
            "DFLASHCTL_PLAYBOOK": str(folder / "playbook.yml"),
            "COLUMNS": str(COLUMNS),
            "PYTHONPATH": str(ROOT),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=120,
    )
    # The folder's name is of no interest to anybody.
    return done.stdout.replace(str(folder), "/root")


def pictured(folder: Path, name: str, command: str) -> None:
    """Run a command and keep its picture."""
    printed = run(folder, *command.split())
    with contextlib.redirect_stdout(io.StringIO()):
        console = Console(record=True, width=COLUMNS, force_terminal=True, color_system="standard")
        console.print(Text.assemble(("$ ", "bold"), f"dflashctl {command}"))
        console.print(Text.from_ansi(printed.rstrip()))
        console.save_svg(
            str(IMAGES / f"{name}.svg"), title="dflashctl", code_format=PICTURE, unique_id=name
        )


if __name__ == "__main__":
    main()
