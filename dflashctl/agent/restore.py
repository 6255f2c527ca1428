"""Bringing an archive's checkpoints back: verified before anything is replaced."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from dflashctl.agent import aside, stream
from dflashctl.agent.archive import RESERVE, Meter, Progress, Result
from dflashctl.agent.failures import AgentError, existing_parent, free_space
from dflashctl.agent.keeping import RestoreCheckpoints
from dflashctl.agent.manifest import Archive, check_files, whole_archive
from dflashctl.agent.records import sync_folder


def restore(action: RestoreCheckpoints, transaction: str, progress: Progress) -> Result:
    """Bring an archive's checkpoints back; the archive stays.

    Raises:
        AgentError: ``no_such_archive``, ``disk_full``, ``damaged``, ``not_empty`` (``to``);
            what is there now stays as it is then.
    """
    if action.to is None:
        real = aside.check_same(action.store.path, action.real_path)
    else:
        real = Path(os.path.realpath(action.to))
    found, about = whole_archive(action.store, action.name)
    with aside.renames(real):
        aside.settle(real)
        if action.to is not None and any(True for _ in aside.listed(real)):
            raise AgentError("not_empty", path=str(real))
        free, needed = free_space(existing_parent(real)), int(about["allocated"]) + RESERVE
        if free < needed:
            raise AgentError("disk_full", path=str(real), free=free, needed=needed)
        trash = aside.trash_of(real)
        trash.mkdir(mode=0o700, parents=True, exist_ok=True)
        staging = trash / f"{aside.PURGING}restore-{transaction}"
        staging.mkdir(mode=0o700)
        try:
            _lay_out(found, about, staging, Meter(total=int(about["size"]), progress=progress))
        except BaseException:
            aside.remove_tree(staging)
            raise
        moved = _swap_in(real, staging, transaction)
        if action.to is not None:
            with suppress(OSError):  # of something that was cleared there before
                trash.rmdir()
    count = len(about["names"])
    facts = {"name": action.name, "path": str(real), "count": count, "moved_to": moved}
    return f"{count} checkpoints in {real}, verified", facts


def _lay_out(found: Archive, about: dict[str, Any], staging: Path, meter: Meter) -> None:
    if about["form"] == "files":
        stream.copy(found.files, staging)
    else:
        stream.unpack(found, about["form"], staging)
    check_files(found, str(staging), meter.tick)


def _swap_in(real: Path, staging: Path, transaction: str) -> str | None:
    """What was verified takes the place of what was there, which is moved aside."""
    moved: Path | None = None
    if aside.is_mount_point(real):
        if any(True for _ in aside.listed(real)):
            moved = aside.move_aside(real, transaction)[1]
        aside.move_entries(staging, real)
        staging.rmdir()
        return None if moved is None else str(moved)
    if real.exists():
        aside.look_alike(real, staging)
    else:
        staging.chmod(0o755)
    moved = aside.empty(real, transaction)
    os.rename(staging, real)
    sync_folder(real.parent)
    return None if moved is None else str(moved)
