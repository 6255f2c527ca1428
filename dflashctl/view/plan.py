"""A plan: each step with its reason, then what else is worth knowing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dflashctl.view.console import ACCENT
from dflashctl.view.sanitize import one_line

if TYPE_CHECKING:
    from rich.console import Console

    from dflashctl.plan.model import Plan
    from dflashctl.view.console import Screen


def show_plan(screen: Screen, console: Console, target: str, plan: Plan) -> None:
    """The whole plan on one of the screen's consoles. Refusals are shown as an error, later."""
    from rich.text import Text

    if plan.steps:
        console.print(Text.assemble("Plan for ", (one_line(target), f"bold {ACCENT}")))
    elif not plan.refusals:
        console.print(Text(f"Nothing to do on {one_line(target)}"))
    for number, step in enumerate(plan.steps, start=1):
        body = Text(one_line(step.what))
        if step.why:
            body.append(f" - {one_line(step.why)}", style="dim")
        screen.flow(console, Text(f"{number:3}. "), body)
    for note in plan.notes:
        screen.flow(console, Text("  note: "), Text(one_line(note), style="dim"))
