"""What a transaction did to checkpoints, and how to go back on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dflashctl.agent.keeping import (
    ArchiveCheckpoints,
    ClearCheckpoints,
    PruneCheckpoints,
    PurgeCleared,
    RestoreCheckpoints,
    RestoreCleared,
    VerifyArchive,
)
from dflashctl.plan.words import counted
from dflashctl.view import figures

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dflashctl.agent.protocol import StepDone
    from dflashctl.plan.model import Plan
    from dflashctl.view.again import Again

Line = tuple[str, str]


def store_lines(  # noqa: PLR0912 - one a kind of step
    again: Again, plan: Plan, done: Mapping[int, StepDone]
) -> Iterator[Line]:
    """A label and a line for each step on checkpoints that was done."""
    purged = any(
        isinstance(step.action, PurgeCleared) and step.action.own and number in done
        for number, step in enumerate(plan.steps)
    )
    undo = again.typed("checkpoints", "restore", "--last-cleared")
    if plan.run_id is not None:
        undo = f"stop the run, then: {undo}"
    for number, step in enumerate(plan.steps):
        if number not in done:
            continue
        facts = done[number].facts
        match step.action:
            case ClearCheckpoints():
                if not purged:
                    yield from _cleared(step.action.real_path, facts, undo)
            case ArchiveCheckpoints():
                yield "archived", done[number].result
                if facts.get("count"):
                    name = str(facts.get("name"))
                    yield "back", again.typed("checkpoints", "restore", name)
            case RestoreCheckpoints() | RestoreCleared():
                yield "restored", done[number].result
                if facts.get("moved_to"):
                    yield "undo", undo
            case PruneCheckpoints():
                size = facts.get("bytes")
                room = f" ({figures.size(size)})" if isinstance(size, int) else ""
                yield "deleted", f"{counted(_int(facts.get('count')), 'checkpoint')}{room}"
            case PurgeCleared():
                yield "deleted", f"{counted(_int(facts.get('count')), 'clearing')} for good"
            case VerifyArchive():
                yield "verified", f"{step.action.name}: {done[number].result}"
            case _:
                pass


def _cleared(path: str, facts: Mapping[str, object], undo: str) -> Iterator[Line]:
    moved_to, count = facts.get("moved_to"), _int(facts.get("count"))
    if not isinstance(moved_to, str) or not count:
        yield "cleared", "nothing: the folder was empty"
        return
    entries = f"{count} {'entry' if count == 1 else 'entries'}"
    yield "cleared", f"{entries} of {path}, kept in {moved_to}"
    yield "undo", undo


def _int(value: object) -> int:
    return value if isinstance(value, int) else 0
