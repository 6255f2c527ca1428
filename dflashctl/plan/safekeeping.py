"""Why checkpoints must not be touched: a run uses them, the path is none, room is short."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dflashctl.agent.keeping import (
    ArchiveCheckpoints,
    PruneCheckpoints,
    PurgeCleared,
    RestoreCheckpoints,
    VerifyArchive,
)
from dflashctl.agent.protocol import StopRun
from dflashctl.errors import Refusal
from dflashctl.plan import words
from dflashctl.plan.steps import lives, what_lives

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dflashctl.agent.keeping import CheckpointAction
    from dflashctl.agent.seen import Observed
    from dflashctl.plan.model import Step

RESERVE = 16 << 20
_PROBLEMS = {
    "root": "it is the root of the filesystem",
    "home": "it is a home directory",
    "short": "it has fewer than two components",
    "holds_state": "it holds dflashctl's own records",
    "holds_files": "it holds files that the playbook puts in place",
    "holds_archives": "it holds the archives (checkpoints.archive_to)",
    "not_a_directory": "it is not a directory",
    "unwritable": "no permission to move what is in it",
}


def store_refusals(
    action: CheckpointAction, seen: Observed, steps: tuple[Step, ...]
) -> Iterator[Refusal]:
    """What is against one action on checkpoints."""
    match action:
        case VerifyArchive():
            yield from _archive_there(action.name, seen)
            return
        case ArchiveCheckpoints():
            yield from _guarded(seen)
            yield from _archivable(action, seen)
            moves = action.then_remove
        case RestoreCheckpoints():
            if action.to is None:
                yield from _guarded(seen)
            yield from _archive_there(action.name, seen)
            yield from _restorable(action, seen)
            moves = action.to is None
        case _:
            yield from _guarded(seen)
            # What is deleted is named, and chosen with regard to the run.
            moves = not isinstance(action, PruneCheckpoints | PurgeCleared)
    if moves and lives(seen) and not any(isinstance(step.action, StopRun) for step in steps):
        yield Refusal(
            code="checkpoints_in_use",
            message=f"{what_lives(seen)} is using the checkpoints",
            remedy="stop it first: dflashctl stop; or do both in one: deploy --restart with "
            "--archive-checkpoints or --clear-checkpoints",
        )


def _guarded(seen: Observed) -> Iterator[Refusal]:
    there = seen.checkpoints
    if there is None or there.problem is None:
        return
    reason = _PROBLEMS.get(there.problem, there.problem)
    really = "" if there.real_path == there.path else f", really {there.real_path},"
    yield Refusal(
        code="guarded",
        message=f"{there.path}{really} is not cleared: {reason}",
        remedy="set checkpoints.path to a folder that holds nothing but checkpoints",
    )


def _archivable(action: ArchiveCheckpoints, seen: Observed) -> Iterator[Refusal]:
    store = seen.store
    if store is None:
        return
    place = f"{action.store.archive_to}/{action.name}"
    if any(one.name == action.name and one.whole for one in store.archives):
        yield Refusal(
            code="archive_exists",
            message=f"there is an archive {place} already",
            remedy="choose another name, or leave it out: the time is one",
        )
    needed, free = store.allocated, store.archive_free
    renamed = action.then_remove and store.same_disk
    if not renamed and needed is not None and free is not None and needed + RESERVE > free:
        yield Refusal(
            code="no_room",
            message=f"the archive takes up to {words.size(needed + RESERVE)}, and the disk of "
            f"{action.store.archive_to} has {words.size(free)} free",
            remedy="make room: dflashctl checkpoints prune --keep-last 1 --trash --dry-run shows "
            "what could go; or let checkpoints.archive_to be on another disk",
        )


def _archive_there(name: str, seen: Observed) -> Iterator[Refusal]:
    archives = seen.store.archives if seen.store else ()
    if any(one.name == name and one.whole for one in archives):
        return
    if any(one.name == name for one in archives):
        yield Refusal(
            code="archive_cut",
            message=f"the archive {name} was cut short while it was made",
            remedy="put it in order with: dflashctl checkpoints archive",
        )
        return
    there = words.listed(tuple(one.name for one in reversed(archives))) or "none at all"
    yield Refusal(
        code="no_such_archive",
        message=f"there is no archive {name}; there are: {there}",
        remedy="all of them: dflashctl checkpoints list",
    )


def _restorable(action: RestoreCheckpoints, seen: Observed) -> Iterator[Refusal]:
    found = [one for one in (seen.store.archives if seen.store else ()) if one.name == action.name]
    disk = next((one for one in seen.disks if one.path == action.store.path), None)
    if not found or disk is None or action.to is not None:
        return
    needed = found[0].allocated + RESERVE
    if needed > disk.free:
        yield Refusal(
            code="no_room",
            message=f"the checkpoints of {action.name} take {words.size(needed)}, and the disk of "
            f"{action.store.path} has {words.size(disk.free)} free",
            remedy="make room: dflashctl checkpoints prune --trash deletes what was cleared",
        )
