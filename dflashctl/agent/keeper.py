"""Performs one action on checkpoints, within a transaction."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dflashctl.agent import archive, aside, restore, store
from dflashctl.agent.failures import AgentError
from dflashctl.agent.keeping import (
    ArchiveCheckpoints,
    CheckpointAction,
    ClearCheckpoints,
    PruneCheckpoints,
    PurgeCleared,
    RestoreCheckpoints,
    RestoreCleared,
    VerifyArchive,
)

TELL_EVERY_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """What an action needs to know of its transaction, and where it reports to.

    ``starts``: when the job's runs began.
    """

    transaction: str
    starts: list[float]
    progress: archive.Progress
    note: Callable[[str], None]


def moves(action: CheckpointAction) -> bool:
    """Whether it takes checkpoints away from where a run that lives may use them."""
    match action:
        case ClearCheckpoints() | RestoreCleared():
            return True
        case ArchiveCheckpoints():
            return action.then_remove
        case RestoreCheckpoints():
            return action.to is None
        case PruneCheckpoints() | PurgeCleared() | VerifyArchive():
            return False


def seldom(tell: archive.Progress) -> archive.Progress:
    """The same, but not more often than twice a second."""
    last = time.monotonic()

    def progress(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last >= TELL_EVERY_S:
            last = time.monotonic()
            tell(done, total)

    return progress


def perform(action: CheckpointAction, desk: Desk) -> tuple[str, dict[str, Any]]:
    """Do it. Returns one phrase for people and facts for programs. Raises AgentError."""
    match action:
        case ClearCheckpoints():
            return _clear(action, desk)
        case ArchiveCheckpoints():
            return archive.archive(action, desk.starts, desk.progress, desk.note)
        case RestoreCheckpoints():
            return restore.restore(action, desk.transaction, desk.progress)
        case RestoreCleared():
            count, moved = aside.restore(action.path, action.real_path, action.id, desk.transaction)
            facts = {"count": count, "path": action.real_path, "id": action.id}
            there = f"; what was there is in {moved}" if moved else ""
            return f"{count} back in {action.real_path}{there}", {
                **facts,
                "moved_to": None if moved is None else str(moved),
            }
        case PruneCheckpoints():
            return _prune(action, desk.starts)
        case PurgeCleared():
            ids = (*action.ids, desk.transaction) if action.own else action.ids
            count = aside.purge(action.path, action.real_path, ids)
            return f"{count} deleted", {"count": count, "path": action.real_path}
        case VerifyArchive():
            return archive.verify(action.store, action.name, desk.progress)


def _clear(action: ClearCheckpoints, desk: Desk) -> tuple[str, dict[str, Any]]:
    count, aside_to = aside.clear(action.path, action.real_path, desk.transaction)
    if aside_to is None:
        return "nothing was there", {"count": 0, "path": action.real_path}
    moved = {"moved_to": str(aside_to), "count": count, "path": action.real_path}
    return f"{count} moved to {aside_to}", moved


def _prune(action: PruneCheckpoints, starts: list[float]) -> tuple[str, dict[str, Any]]:
    """Delete checkpoints.

    Raises:
        AgentError: ``newest`` when the newest complete one is among them; none has gone then.
    """
    real = aside.check_same(action.store.path, action.real_path)
    with aside.renames(real):
        aside.settle(real)
        found = sorted(store.entries(action.store, str(real), starts), key=lambda one: one.order)
        now = time.time()
        whole = [one.name for one in found if store.incomplete(one, action.store, now) is None]
        doomed = [one for one in found if one.name in action.names]
        if whole and whole[-1] in action.names:
            raise AgentError("newest", path=str(real / whole[-1]))
        amount = store.measure((one.path for one in doomed), None)
        for one in doomed:
            aside.discard(real, Path(one.path), one.name)
    facts = {
        "count": len(doomed),
        "bytes": amount.size if amount else None,
        "names": [one.name for one in doomed],
    }
    return f"{len(doomed)} deleted", facts
