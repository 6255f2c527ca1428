"""How a command ended: in success, or with an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dflashctl.agent.protocol import StopRun
from dflashctl.plan.words import counted
from dflashctl.view.console import ACCENT
from dflashctl.view.sanitize import one_line
from dflashctl.view.store_outcome import store_lines
from dflashctl.view.words import words_for

if TYPE_CHECKING:
    from dflashctl.agent.protocol import LogEnd
    from dflashctl.agent.seen import Observed
    from dflashctl.errors import DflashError
    from dflashctl.view.again import Again
    from dflashctl.view.console import Screen
    from dflashctl.view.course import Course

# So many further targets of an error are named; a dead host may have a hundred.
_NAMED = 3


def show_error(
    screen: Screen, error: DflashError, others: tuple[str, ...] = (), again: Again | None = None
) -> None:
    """What happened, the particulars, and the next thing to do, on standard error.

    Args:
        screen: where.
        error: what is told.
        others: further targets where it is the same.
        again: what a command that is to be typed next repeats, if not what was typed.
    """
    from rich.text import Text

    from dflashctl.view.sanitize import clean

    words = words_for(error)
    again = again or screen.again()
    screen.flow(screen.err, Text("error: ", style="bold red"), Text(one_line(words.message)))
    for detail in words.details:
        indent = len(detail) - len(detail.lstrip())
        text = clean(detail).replace("\n", " ").rstrip()
        if not text.lstrip().startswith("|"):  # what a run printed is left as it is
            text = again.repeated_in(text)
        screen.flow(screen.err, Text("  " + " " * indent), Text(text.lstrip()))
    if others:
        some = ", ".join(map(one_line, others[:_NAMED])) + (", ..." * (len(others) > _NAMED))
        screen.flow(screen.err, Text("  "), Text(f"the same on {len(others)} more: {some}"))
    screen.flow(screen.err, Text("  "), Text(again.repeated_in(one_line(words.next)), style=ACCENT))


def show_usage(screen: Screen, message: str, help_words: str) -> None:
    """A mistake in the command line."""
    from rich.text import Text

    screen.flow(screen.err, Text("error: ", style="bold red"), Text(one_line(message)))
    screen.flow(screen.err, Text("  "), Text(f"See: {help_words}", style=ACCENT))


def show_traceback(screen: Screen, error: BaseException) -> None:
    """The error, as Python tells it."""
    import traceback

    from dflashctl.view.sanitize import clean

    screen.err.print(clean("".join(traceback.format_exception(error))), soft_wrap=True)


def ending(seen: Observed, end: LogEnd) -> str:
    """How the followed run ended, in a few words: ``finished (exit code 0)``."""
    run = seen.run
    if run is None or run.id != end.run_id or run.ended_at is None:
        return end.state.lower()
    facts = [f"exit code {run.exit_code}"] if run.exit_code is not None else []
    if run.signal:
        facts.append(f"signal {run.signal}")
    if run.oom:
        facts.append("out of memory")
    return f"{run.state.lower()} ({', '.join(facts)})" if facts else run.state.lower()


def show_done(screen: Screen, again: Again, course: Course) -> None:
    """The summary of a transaction that went through, as the answer.

    ``again``: how to type a command for the same job on this target.
    """
    from rich.text import Text

    plan, seen, done, target = course.plan, course.seen, course.done, course.target
    assert plan is not None, "it was performed"
    assert seen is not None, "it was performed"
    lines: list[tuple[str, str]] = []
    if plan.run_id is not None:
        lines.append(("run", f"{plan.run_id} {seen.state.lower()} on {target}"))
        if seen.run is not None and seen.run.id == plan.run_id:
            lines.append(("session", f"{seen.run.session}{_pid(seen)}"))
            lines.append(("release", seen.run.release))
    elif any(isinstance(step.action, StopRun) for step in plan.steps):
        lines.append(("stopped", f"on {target}; nothing of it runs any more"))
    lines += store_lines(again, plan, done)
    if not lines:
        lines.append(("done", f"{counted(len(done), 'step')} on {target}"))
    if plan.run_id is not None:
        lines.append(("look", again.typed("status")))
        lines.append(("", again.typed("logs", "-f")))
        lines.append(("", again.typed("attach")))
    for label, line in lines:
        text = Text.assemble((f"{label:9}", "dim"), one_line(line))
        text.highlight_words([plan.run_id or target], style=f"bold {ACCENT}")
        # Not wrapped by us: what is a command stays one that can be copied.
        screen.out.print(text, soft_wrap=True)


def _pid(seen: Observed) -> str:
    return f", pid {seen.run.pid}" if seen.run is not None and seen.run.pid is not None else ""
