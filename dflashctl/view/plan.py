"""A plan: each step with its reason, then what else is worth knowing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dflashctl.agent.protocol import PlaceFiles
from dflashctl.view.console import ACCENT
from dflashctl.view.diff import show_diffs
from dflashctl.view.sanitize import one_line

if TYPE_CHECKING:
    from rich.console import Console

    from dflashctl.plan.model import Plan
    from dflashctl.view.console import Screen


def show_plan(
    screen: Screen, console: Console, target: str, plan: Plan, *, whole: bool = False
) -> None:
    """The whole plan on one of the screen's consoles. Refusals are shown as an error, later.

    ``whole``: the changes of files, too, however long they are.
    """
    from rich.text import Text

    # Where all files are new, the step has said so.
    diffs = () if all(diff.change == "new" for diff in plan.diffs) else plan.diffs
    if plan.steps:
        console.print(Text.assemble("Plan for ", (one_line(target), f"bold {ACCENT}")))
    elif not plan.refusals:
        console.print(Text(f"Nothing to do on {one_line(target)}"))
    for number, step in enumerate(plan.steps, start=1):
        body = Text(one_line(step.what))
        if step.why:
            body.append(f" - {one_line(step.why)}", style="dim")
        screen.flow(console, Text(f"{number:3}. "), body)
        if isinstance(step.action, PlaceFiles):
            show_diffs(console, diffs, whole=whole)
            diffs = ()
    for note in plan.notes:
        text = screen.again().repeated_in(one_line(note))
        screen.flow(console, Text("  note: "), Text(text, style="dim"))
