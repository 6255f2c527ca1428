"""How a verb ended on its targets: the errors, and what is where now."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dflashctl import errors as e
from dflashctl.agent.protocol import StopRun
from dflashctl.plan.words import counted
from dflashctl.view import json
from dflashctl.view.console import ACCENT
from dflashctl.view.outcome import show_done, show_error, show_traceback
from dflashctl.view.sanitize import one_line
from dflashctl.view.status import style_of
from dflashctl.view.store_outcome import store_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dflashctl.view.again import Again
    from dflashctl.view.console import Screen
    from dflashctl.view.course import Course

CHANGES = 10


def exit_code(courses: tuple[Course, ...], *, dry_run: bool = False) -> int:
    """The gravest of the targets' codes; of a dry run 10 where there is something to do."""
    codes = [0]
    for course in courses:
        # Those that were held back add nothing to what held them back.
        if course.error is not None and not isinstance(course.error, e.HeldBack):
            codes.append(course.error.exit_code)
        elif dry_run and course.plan is not None and course.plan.steps:
            codes.append(CHANGES)
        if course.after is not None:
            codes.append(exit_code((course.after,)))
    return e.worst(codes)


def show_errors(screen: Screen, courses: tuple[Course, ...], *, debug: bool) -> None:
    """Every error of its own target; where several have the same one, it is told once."""
    errors = [one.error for one in courses if one.error is not None]
    held = [error for error in errors if isinstance(error, e.HeldBack)]
    others = [error for error in errors if not isinstance(error, e.HeldBack)]
    others += [one.after.error for one in courses if one.after and one.after.error]
    # What is held back is named in each of them.
    for error, *same in (*_alike(others), *([held[:1]] if held else ())):
        for one in (error, *same) if debug else ():
            show_traceback(screen, one)
        named = getattr(error, "target", "")
        again = screen.again()
        if len(courses) > 1 and named and not isinstance(error, e.HeldBack):
            again = replace(again, targets=(named,), everything=False)
        show_error(screen, error, tuple(str(getattr(one, "target", "")) for one in same), again)


def _alike(errors: list[e.DflashError]) -> list[list[e.DflashError]]:
    """Those that say the same of several targets: a dead host has many."""
    found: dict[tuple[str, str], list[e.DflashError]] = {}
    for error in errors:
        said = {name: value for name, value in vars(error).items() if name != "target"}
        found.setdefault((error.code, repr(said)), []).append(error)
    return list(found.values())


def answer(command: str, courses: tuple[Course, ...], code: int, again: Again) -> str:
    """The one object of the command."""
    shapes = {one.target: json.course_object(one) for one in courses}
    return json.envelope(command, code, shapes, again=again)


def show_ends(screen: Screen, courses: tuple[Course, ...]) -> None:
    """What is where, once it is over: of one target in full, of several a row each."""
    again = screen.again()
    if len(courses) == 1:
        (course,) = courses
        if course.error is None and course.outcome is not None:
            show_done(screen, replace(again, targets=(course.target,)), course)
        return
    if not any(one.error is not None or one.outcome is not None for one in courses):
        return  # that there is nothing to do was said with the plans
    _table(screen, courses)
    for course in courses:
        if course.plan is None:
            continue
        here = replace(again, targets=(course.target,), everything=False)
        for label, line in store_lines(here, course.plan, course.done):
            _line(screen, label, f"{course.target}: {line}" if label != "undo" else line)
    if any(_started(one) for one in courses):
        _line(screen, "look", again.typed("status"))


def _line(screen: Screen, label: str, line: str) -> None:
    from rich.text import Text

    screen.out.print(Text.assemble((f"{label:9}", "dim"), one_line(line)), soft_wrap=True)


def _started(course: Course) -> bool:
    return course.plan is not None and course.plan.run_id is not None and bool(course.outcome)


def _table(screen: Screen, courses: tuple[Course, ...]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("TARGET", no_wrap=True)
    table.add_column("STATE", no_wrap=True)
    table.add_column("OUTCOME", overflow="fold")
    for course in courses:
        state: str = course.seen.state if course.seen is not None else "-"
        if isinstance(course.error, e.Unreachable):
            state = "UNREACHABLE"
        table.add_row(
            Text(one_line(course.target), style=f"bold {ACCENT}"),
            Text(state, style=style_of(state)),
            Text(one_line("".join(_became(course)))),
        )
    screen.show(table)


def _became(course: Course) -> Iterator[str]:
    yield _first(course)
    after = course.after
    if after is None:
        return
    rule = f"on_partial: {course.rule}"
    if after.error is not None:
        yield f"; then, with {rule}, an error: {after.error.code}"
    elif after.plan is not None and after.plan.run_id is not None:
        repeated = after.sight.desired.repeats if after.sight is not None else None
        yield f"; then back to run {repeated}, as {after.plan.run_id} ({rule})"
    elif after.plan is not None and after.plan.steps:
        yield f"; then stopped again ({rule})"


def _first(course: Course) -> str:
    """What became of it in the verb's own transaction."""
    plan, error = course.plan, course.error
    if error is not None:
        return _failed(course, error)
    if plan is None or not plan.steps:
        return "nothing to do"
    if plan.run_id is not None:
        return f"run {plan.run_id} started"
    if any(isinstance(step.action, StopRun) for step in plan.steps):
        return "stopped"
    return f"{counted(len(course.done), 'step')} done"


def _failed(course: Course, error: e.DflashError) -> str:
    match error:
        case e.HeldBack():
            return "ready, and not touched"
        case e.Unverified():
            steps = course.plan.steps if course.plan is not None else ()
            run = f"run {course.plan.run_id}: " if course.plan and course.plan.run_id else ""
            number = f"step {len(error.done) + 1} of {len(steps)}"
            return f"{run}{number} failed: {error.step}"
        case e.LinkLost() if error.transaction is not None:
            return f"transaction {error.transaction} goes on there, unwatched"
        case e.Interrupted():
            return f"transaction {course.transaction} goes on there, unwatched"
        case e.Refused():
            return "refused, and not touched"
        case e.LockHeld():
            return f"locked by {error.holder}; not touched"
        case e.Stale():
            return "changed meanwhile; not touched"
        case _:
            return f"not touched: {error.code}"
