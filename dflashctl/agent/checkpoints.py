"""The checkpoint folder: what it holds, whether it may be cleared, and moving all aside."""

from __future__ import annotations

import errno
import os
import re
import shutil
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from dflashctl.agent.failures import AgentError, from_os_error
from dflashctl.agent.records import StateFolder, sync_folder
from dflashctl.agent.seen import CheckpointsSeen

TRASH = ".dflashctl-trash"
COUNT_S = 2.0


def see(path: str, state: StateFolder, dests: Iterable[str]) -> CheckpointsSeen:
    """One look at the folder. ``dests``: places of pushed files, which it may not hold."""
    real = Path(os.path.realpath(path))
    exists = real.is_dir()
    entries = _entries(real) if exists else []
    shown = [entry for entry in entries if not entry.name.startswith(".")]
    newest = max(shown, key=_modified, default=None)
    numbers = re.findall(r"\d+", newest.name) if newest else []
    return CheckpointsSeen(
        path=path,
        real_path=str(real),
        exists=exists,
        problem=_problem(real, state, dests),
        mount_point=exists and is_mount_point(real),
        entries=len(entries),
        count=len(shown),
        latest=newest.name if newest else None,
        latest_step=int(numbers[-1]) if numbers else None,
        latest_at=_modified(newest) if newest else None,
        size=_size(entries),
    )


def newest(path: str | None) -> str | None:
    """The name of the newest checkpoint that is there now, if any."""
    found = _entries(Path(path)) if path else []
    shown = [entry for entry in found if not entry.name.startswith(".")]
    entry = max(shown, key=_modified, default=None)
    return entry.name if entry else None


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return [entry for entry in entries if entry.name != TRASH]
    except OSError:
        return []


def _modified(entry: os.DirEntry[str]) -> float:
    with suppress(OSError):
        return entry.stat(follow_symlinks=False).st_mtime
    return 0.0


def _size(entries: Iterable[os.DirEntry[str]]) -> int | None:
    """Bytes in all, links not followed; None when it takes too long to count."""
    deadline = time.monotonic() + COUNT_S
    total, todo = 0, list(entries)
    while todo:
        if time.monotonic() > deadline:
            return None
        entry = todo.pop()
        with suppress(OSError):
            if entry.is_dir(follow_symlinks=False):
                with os.scandir(entry.path) as inner:
                    todo += inner
            else:
                total += entry.stat(follow_symlinks=False).st_size
    return total


def _problem(real: Path, state: StateFolder, dests: Iterable[str]) -> str | None:
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
    if real.exists() and not real.is_dir():
        return "not_a_directory"
    where = real if is_mount_point(real) else real.parent
    if real.exists() and not os.access(where, os.W_OK | os.X_OK):
        return "unwritable"
    return None


def _holds(folder: Path, inside: Path) -> bool:
    real = Path(os.path.realpath(inside))
    return folder == real or folder in real.parents


def is_mount_point(path: Path) -> bool:
    """Whether something is mounted right here, bind mounts included."""
    escaped = str(path).replace("\\", "\\134").replace(" ", "\\040").replace("\t", "\\011")
    escaped = escaped.replace("\n", "\\012")
    with (
        suppress(OSError),
        open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file,
    ):
        return any(line.split(" ")[4] == escaped for line in file)
    return path.is_mount()


def clear(path: str, real_path: str, transaction: str) -> tuple[int, Path | None]:
    """Move all that the folder holds aside; nothing is deleted.

    An ordinary folder is renamed to ``<parent>/.<name>.dflashctl-trash/<transaction>``
    and made anew with the same owner, mode and access lists. The entries of a mount point
    go to ``<path>/.dflashctl-trash/<transaction>``.

    Returns how many entries moved, and where to (None: there is no such folder). Raises:
        AgentError: ``guarded`` when the path leads elsewhere than it did,
            ``cannot_rename`` when the filesystem refuses; nothing has moved then.
    """
    real = Path(os.path.realpath(path))
    if str(real) != real_path:
        raise AgentError("guarded", path=str(real), problem="moved")
    if not real.exists():
        return 0, None
    count = len(_entries(real))
    try:
        if is_mount_point(real):
            return count, _clear_within(real, transaction)
        return count, _clear_by_rename(real, transaction)
    except OSError as error:
        if error.errno == errno.EXDEV:
            raise AgentError(
                "cannot_rename", path=str(real), reason=os.strerror(errno.EXDEV)
            ) from error
        raise from_os_error(error, real) from error


def _clear_by_rename(real: Path, transaction: str) -> Path:
    trash = real.parent / f".{real.name}{TRASH}"
    trash.mkdir(mode=0o700, exist_ok=True)
    fresh = trash / f".fresh-{transaction}"
    aside = trash / transaction
    # The new folder is made ready before the old one goes, so that the gap is two renames.
    fresh.mkdir(mode=0o700)
    try:
        _look_alike(real, fresh)
        real.rename(aside)
        try:
            fresh.rename(real)
        except OSError:
            aside.rename(real)
            raise
    except OSError:
        with suppress(OSError):
            fresh.rmdir()
        raise
    sync_folder(real.parent)
    return aside


def _look_alike(old: Path, new: Path) -> None:
    """Owner, mode, times aside: extended attributes carry the access lists."""
    about = old.stat()
    with suppress(PermissionError):
        os.chown(new, about.st_uid, about.st_gid)
    shutil.copymode(old, new)
    with suppress(OSError):
        for name in os.listxattr(old):
            with suppress(OSError):
                os.setxattr(new, name, os.getxattr(old, name))


def _clear_within(real: Path, transaction: str) -> Path:
    aside = real / TRASH / transaction
    aside.mkdir(parents=True, mode=0o700)
    moved: list[str] = []
    try:
        for entry in _entries(real):
            os.rename(entry.path, aside / entry.name)
            moved.append(entry.name)
    except OSError:
        for name in moved:
            os.rename(aside / name, real / name)
        aside.rmdir()
        raise
    sync_folder(real)
    return aside
