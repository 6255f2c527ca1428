"""Plans: each step with its reason, then what else is worth knowing."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from dflashctl.agent.protocol import PlaceFiles
from dflashctl.view.console import ACCENT
from dflashctl.view.diff import show_diffs
from dflashctl.view.sanitize import one_line

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from rich.console import Console

    from dflashctl.plan.model import Plan
    from dflashctl.view.console import Screen

# A run by its id, with its process if that is told.
_RUN = re.compile(r"\b\d{4}-\d\d-\d\dT\d{4}Z-[a-z0-9-]+-\w{4}\b(?: \(pid \d+\))?")


def show_plans(
    screen: Screen, console: Console, plans: Mapping[str, Plan], *, whole: bool = False
) -> None:
    """Every plan on one of the screen's consoles; those that say the same are shown once.

    Refusals are shown as errors, later.

    Args:
        screen: where.
        console: which of its streams.
        plans: by the targets' names.
        whole: the changes of files, too, however long they are.
    """
    alike: dict[Hashable, list[str]] = {}
    for target, plan in plans.items():
        alike.setdefault(_reads(_of_any_run(plan)), []).append(target)
    for targets in alike.values():
        plan = plans[targets[0]]
        if len({_reads(plans[target]) for target in targets}) > 1:
            plan = _of_any_run(plan)
        _show_plan(screen, console, ", ".join(targets), plan, whole=whole)


def _reads(plan: Plan) -> Hashable:
    """All of a plan that is shown."""
    steps = tuple((step.what, step.why) for step in plan.steps)
    return steps, plan.notes, plan.diffs, bool(plan.refusals)


def _of_any_run(plan: Plan) -> Plan:
    """The plan, each run in it as a mere star: where several are shown as one, each has its own."""

    def starred(text: str) -> str:
        return _RUN.sub("*", text)

    steps = tuple(replace(step, what=starred(step.what)) for step in plan.steps)
    return replace(plan, steps=steps, notes=tuple(map(starred, plan.notes)))


def _show_plan(screen: Screen, console: Console, target: str, plan: Plan, *, whole: bool) -> None:
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
