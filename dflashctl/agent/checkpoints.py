"""The checkpoint folder: what it holds, and whether it may be cleared."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from dflashctl.agent import store
from dflashctl.agent.aside import Cleared, cleared, is_mount_point, listed
from dflashctl.agent.failures import existing_parent, free_space
from dflashctl.agent.keeping import CheckpointSeen, ClearedSeen, StoreSeen, StoreSpec
from dflashctl.agent.manifest import archives
from dflashctl.agent.metric import metric_of
from dflashctl.agent.records import StateFolder
from dflashctl.agent.seen import CheckpointsSeen, RunSeen

COUNT_S = 2.0
LIST_S = 5.0
LISTED_AT_MOST = 5000


def see(
    spec: StoreSpec, state: StateFolder, dests: Iterable[str], starts: list[float]
) -> CheckpointsSeen:
    """One look at the folder.

    Args:
        spec: which of its entries are checkpoints.
        state: our own folder, which it may not hold.
        dests: places of pushed files, which it may not hold, either.
        starts: when the job's runs began.
    """
    real = Path(os.path.realpath(spec.path))
    exists = real.is_dir()
    now, count, complete = time.time(), 0, 0
    newest: store.Entry | None = None
    for entry in store.entries(spec, str(real), starts):
        count += 1
        if newest is not None and entry.order < newest.order and spec.complete_when is None:
            complete += 1
        elif store.incomplete(entry, spec, now) is None:
            complete += 1
            newest = entry if newest is None else max(newest, entry, key=lambda one: one.order)
    return CheckpointsSeen(
        path=spec.path,
        real_path=str(real),
        exists=exists,
        problem=_problem(real, state, dests, spec),
        mount_point=exists and is_mount_point(real),
        entries=sum(1 for _ in _entries(real)) if exists else 0,
        count=count,
        complete=complete,
        latest=newest.name if newest else None,
        latest_step=newest.step if newest else None,
        latest_at=newest.at if newest else None,
        size=_size((one.path for one in _entries(real)), time.monotonic() + COUNT_S),
    )


def _size(paths: Iterable[str], deadline: float) -> int | None:
    amount = store.measure(paths, deadline)
    return amount.size if amount else None


def newest(spec: StoreSpec | None, starts: list[float]) -> str | None:
    """The name of the newest complete checkpoint that is there now, if any."""
    if spec is None:
        return None
    real, now = os.path.realpath(spec.path), time.time()
    for entry in sorted(store.entries(spec, real, starts), key=lambda one: one.order)[::-1]:
        if store.incomplete(entry, spec, now) is None:
            return entry.name
    return None


def _entries(folder: Path) -> Iterable[os.DirEntry[str]]:
    with suppress(OSError):
        yield from listed(folder)


def see_all(
    spec: StoreSpec, starts: list[float], live: RunSeen | None, metric: str | None
) -> StoreSeen:
    """Every checkpoint, archive and clearing. ``live``: the run that is alive, if one is."""
    real = Path(os.path.realpath(spec.path))
    now, deadline = time.time(), time.monotonic() + LIST_S
    found = sorted(store.entries(spec, str(real), starts), key=lambda one: one.order)
    shown = found[-LISTED_AT_MOST:]
    checkpoints = []
    taken: list[int | None] = []
    resumed: str | None = None
    for entry in shown:
        why = store.incomplete(entry, spec, now)
        if why is None and live is not None and entry.at <= live.started_at:
            resumed = entry.name
        amount = store.measure([entry.path], deadline)
        if why is None:
            taken.append(amount.allocated if amount else None)
        checkpoints.append(
            CheckpointSeen(
                name=entry.name,
                step=entry.step,
                at=entry.at,
                size=amount.size if amount else None,
                complete=why is None,
                why=why,
                metric=metric_of(entry, metric) if metric else None,
            )
        )
    return StoreSeen(
        checkpoints=tuple(checkpoints),
        left_out=len(found) - len(shown),
        archives=archives(spec),
        cleared=tuple(_cleared(one, spec, deadline) for one in cleared(real)),
        allocated=None if None in taken else sum(one or 0 for one in taken),
        archive_free=free_space(Path(spec.archive_to)) if spec.archive_to else None,
        same_disk=_same_disk(real, spec),
        resumed_from=resumed,
    )


def kept_since(spec: StoreSpec | None) -> tuple[float, ...]:
    """When what can still be brought back was cleared or archived."""
    if spec is None:
        return ()
    moved = [one.at for one in cleared(Path(os.path.realpath(spec.path)))]
    return (*moved, *(one.at for one in archives(spec)))


def _same_disk(real: Path, spec: StoreSpec) -> bool:
    if spec.archive_to is None:
        return False
    there = existing_parent(Path(spec.archive_to))
    return existing_parent(real).stat().st_dev == there.stat().st_dev


def _cleared(one: Cleared, spec: StoreSpec, deadline: float) -> ClearedSeen:
    found, now = store.entries(spec, str(one.folder), []), time.time()
    steps = [e.step for e in found if e.step is not None and not store.incomplete(e, spec, now)]
    return ClearedSeen(
        id=one.id,
        at=one.at,
        count=sum(1 for _ in _entries(one.folder)),
        latest_step=max(steps, default=None),
        size=_size([str(one.folder)], deadline),
    )


def _problem(  # noqa: PLR0911 - one a danger
    real: Path, state: StateFolder, dests: Iterable[str], spec: StoreSpec
) -> str | None:
    """Why this path may never be cleared, if so."""
    homes = {Path.home(), Path("/root")}
    if real == Path("/"):
        return "root"
    if len(real.parts) < 3:
        return "short"
    if real in homes or any(real in home.parents for home in homes) or real.parent == Path("/home"):
        return "home"
    if _holds(real, state.path):
        return "holds_state"
    if any(_holds(real, Path(dest)) for dest in dests):
        return "holds_files"
    if spec.archive_to is not None and _holds(real, Path(spec.archive_to)):
        return "holds_archives"
    if real.exists() and not real.is_dir():
        return "not_a_directory"
    where = real if is_mount_point(real) else real.parent
    if real.exists() and not os.access(where, os.W_OK | os.X_OK):
        return "unwritable"
    return None


def _holds(folder: Path, inside: Path) -> bool:
    real = Path(os.path.realpath(inside))
    return folder == real or folder in real.parents
