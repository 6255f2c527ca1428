"""What ``init`` wrote, and what to do next."""

from __future__ import annotations

import os
from shlex import join
from typing import TYPE_CHECKING, Any

from dflashctl.view.console import ACCENT
from dflashctl.view.sanitize import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from dflashctl.inventory.found import Found
    from dflashctl.view.console import Screen


def file_object(path: Path, written: bool) -> dict[str, Any]:
    """One file of ``init --json``."""
    return {"path": str(path), "state": "written" if written else "kept"}


def show_beginning(
    screen: Screen,
    cwd: Path,
    place: Path,
    files: Sequence[tuple[Path, bool]],
    found: Found | None,
    options: tuple[str, ...] = (),
) -> None:
    """A line for each file, then the commands that lead on.

    ``options``: what was said about the way to the host.
    """
    from rich.text import Text

    for path, written in files:
        mark = ("wrote", "green") if written else ("is there", "dim")
        line = Text.assemble((f"{mark[0]:10}", mark[1]), one_line(os.path.relpath(path, cwd)))
        screen.out.print(line, soft_wrap=True)
    inventory, wrote_inventory = files[0]
    if not all(written for _, written in files):
        screen.say("What is there was left as it is.", style="dim")
    if found is not None and not wrote_inventory:
        typed = join(("dflashctl", "inventory", "discover", found.said, *options, "--write"))
        screen.say(f"What is new goes into the inventory with: {typed}")
    screen.say("")
    for label, command, why in _next(cwd, place, inventory, found, wrote_inventory):
        line = Text.assemble((f"{label:6}", "dim"), (f"{command:32}", ACCENT), "  ", why)
        line.rstrip()
        screen.err.print(line, soft_wrap=True)


def _next(
    cwd: Path, place: Path, inventory: Path, found: Found | None, wrote_inventory: bool
) -> list[tuple[str, str, str]]:
    """The commands to type now, each with what it does."""
    steps = []
    if place.resolve() != cwd.resolve():
        steps.append((join(("cd", os.path.relpath(place, cwd))), "they are looked for there"))
    if found is None and wrote_inventory:
        path = os.path.relpath(inventory, place)
        steps.append((f"$EDITOR {path}", "say where your machine is, and the vmid"))
    steps += [
        ("dflashctl inventory check", "reach it, and compare"),
        ("dflashctl deploy --dry-run", "what a deploy would do"),
        ("dflashctl deploy", "do it"),
        ("dflashctl status", "how it stands"),
    ]
    return [("next" if n == 0 else "", command, why) for n, (command, why) in enumerate(steps)]
