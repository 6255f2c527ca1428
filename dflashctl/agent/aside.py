"""Moving checkpoints aside and back: by renames alone, so that a cut loses nothing.

An ordinary folder is cleared by a rename to ``<parent>/.<name>.dflashctl-trash/<id>`` and
made anew; the entries of a mount point go to ``<path>/.dflashctl-trash/<id>``. Beside each
``<id>`` lies ``<id>.json``, written before the first rename. What is to be deleted is first
renamed to ``.purging-*``, so that half of a checkpoint never looks like one.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from dflashctl.agent.failures import AgentError, from_os_error
from dflashctl.agent.records import read_json, sync_folder, write_json

TRASH = ".dflashctl-trash"
PURGING, FRESH = ".purging-", ".fresh-"
BATCH = 1000


def trash_of(real: Path) -> Path:
    """The folder that what is cleared goes to: on the same filesystem."""
    return real / TRASH if is_mount_point(real) else real.parent / f".{real.name}{TRASH}"


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


def listed(folder: Path) -> Iterator[os.DirEntry[str]]:
    """All that a clearing would move; nothing where there is no folder."""
    with suppress(FileNotFoundError), os.scandir(folder) as found:
        for item in found:
            if item.name != TRASH:
                yield item


def how_many(folder: Path) -> int:
    """The number of entries that a clearing would move; quicker than looking at each."""
    return sum(name != TRASH for name in os.listdir(folder))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleared:
    """What one clearing moved aside, and how far its undoing came (``None``, "aside", "back")."""

    id: str
    folder: Path
    at: float
    moving: bool
    restoring: str | None


def cleared(real: Path) -> list[Cleared]:
    """All clearings of a folder that can be undone; the last is the first to be."""
    trash, found = trash_of(real), []
    for item in listed(trash):
        if item.name.startswith(".") or not item.is_dir(follow_symlinks=False):
            continue
        record = read_json(trash / f"{item.name}.json") or {}
        found.append(
            Cleared(
                id=item.name,
                folder=Path(item.path),
                at=float(record.get("at") or item.stat(follow_symlinks=False).st_ctime),
                moving=bool(record.get("moving")),
                restoring=record.get("restoring"),
            )
        )
    return sorted(found, key=lambda one: (one.restoring is not None, one.at, one.id))


def check_same(path: str, real_path: str) -> Path:
    """Where the path leads; raises ``guarded`` when that is elsewhere than it was."""
    real = Path(os.path.realpath(path))
    if str(real) != real_path:
        raise AgentError("guarded", path=str(real), problem="moved")
    return real


def clear(path: str, real_path: str, transaction: str) -> tuple[int, Path | None]:
    """Move all that the folder holds aside; nothing is deleted.

    Returns how many entries moved, and where to (None: there was nothing). Raises:
        AgentError: ``guarded`` when the path leads elsewhere than it did,
            ``cannot_rename`` when the filesystem refuses; nothing has moved then.
    """
    real = check_same(path, real_path)
    with renames(real):
        settle(real)
        if not real.exists() or not any(True for _ in listed(real)):
            return 0, None
        return move_aside(real, transaction)


class renames:  # noqa: N801 - reads as the `with` statement's own word
    """Turns the system's refusals in moving things into our own errors."""

    def __init__(self, real: Path) -> None:
        self._real = real

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, OSError):
            if error.errno == errno.EXDEV:
                reason = os.strerror(errno.EXDEV)
                raise AgentError("cannot_rename", path=str(self._real), reason=reason) from error
            raise from_os_error(error, self._real) from error


def move_aside(real: Path, transaction: str) -> tuple[int, Path]:
    """The same once all is checked; an earlier clearing that was cut is gone on with."""
    trash = trash_of(real)
    trash.mkdir(mode=0o700, exist_ok=True)
    count, name = how_many(real), _new_id(trash, transaction)
    record = trash / f"{name}.json"
    if not is_mount_point(real):
        write_json(record, {"at": time.time()})
        return count, _swap(real, trash, name)
    begun = [one for one in cleared(real) if one.moving and one.restoring is None]
    if begun and _fits(real, begun[-1]):
        aside, record = begun[-1].folder, trash / f"{begun[-1].id}.json"
    else:
        aside = trash / name
        write_json(record, {"at": time.time(), "moving": True})
        aside.mkdir(mode=0o700)
    move_entries(real, aside)
    write_json(record, {"at": time.time()})
    return count, aside


def _new_id(trash: Path, transaction: str) -> str:
    """The transaction's own id, with a number when it clears this folder once more."""
    name, number = transaction, 1
    while os.path.lexists(trash / name):
        number += 1
        name = f"{transaction}-{number}"
    return name


def _fits(real: Path, begun: Cleared) -> bool:
    """Whether what is left can be the rest of a clearing that was cut: no name is twice."""
    return not any(os.path.lexists(begun.folder / item.name) for item in listed(real))


def _swap(real: Path, trash: Path, name: str) -> Path:
    fresh, aside = trash / f"{FRESH}{name}", trash / name
    # The new folder is made ready before the old one goes, so that the gap is two renames.
    fresh.mkdir(mode=0o700)
    try:
        look_alike(real, fresh)
        os.rename(real, aside)
        try:
            os.rename(fresh, real)
        except OSError:
            os.rename(aside, real)
            raise
    except OSError:
        with suppress(OSError):
            fresh.rmdir()
        raise
    sync_folder(real.parent)
    sync_folder(trash)
    return aside


def look_alike(old: Path, new: Path) -> None:
    """Owner, mode, times aside: extended attributes carry the access lists."""
    about = old.stat()
    with suppress(PermissionError):
        os.chown(new, about.st_uid, about.st_gid)
    shutil.copymode(old, new)
    with suppress(OSError):
        for name in os.listxattr(old):
            with suppress(OSError):
                os.setxattr(new, name, os.getxattr(old, name))


def move_entries(source: Path, dest: Path) -> None:
    """All entries from one folder to another on the same filesystem, or none.

    Raises:
        OSError: EEXIST where a name is taken there; what had moved has moved back.
    """
    moved: list[str] = []
    # 100,000 entries at a few microseconds each: words, no paths, and no question too many.
    fro, to = f"{source}/", f"{dest}/"
    taken = any(True for _ in listed(dest))
    try:
        while batch := [item.name for item in islice(listed(source), BATCH)]:
            for name in batch:
                if taken and os.path.lexists(to + name):
                    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), to + name)
                os.rename(fro + name, to + name)
                moved.append(name)
    except OSError:
        for name in moved:
            os.rename(to + name, fro + name)
        raise
    sync_folder(source)
    sync_folder(dest)


def restore(path: str, real_path: str, wanted: str, transaction: str) -> tuple[int, Path | None]:
    """Undo the clearing ``wanted``; what is there now is moved aside, and can come back, too.

    Returns how many entries came back, and where those that were there are. Raises:
        AgentError: ``no_such_clearing`` when there is none by that id, ``guarded``,
            ``cannot_rename``.
    """
    real = check_same(path, real_path)
    with renames(real):
        settle(real)
        found = [one for one in cleared(real) if one.id == wanted]
        if not found:
            raise AgentError("no_such_clearing", path=str(real), id=wanted)
        one, record = found[0], trash_of(real) / f"{wanted}.json"
        count = sum(1 for _ in listed(one.folder))
        if is_mount_point(real):
            return count, _back_within(real, one, transaction)
        write_json(record, {"at": one.at, "restoring": "aside"})
        aside = empty(real, transaction)
        os.rename(one.folder, real)
        sync_folder(real.parent)
        record.unlink(missing_ok=True)
        return count, aside


def _back_within(real: Path, one: Cleared, transaction: str) -> Path | None:
    record, aside = trash_of(real) / f"{one.id}.json", None
    # The undoing of a clearing that was cut: what had not moved yet stays where it is.
    if one.restoring != "back" and not (one.moving and _fits(real, one)):
        write_json(record, {"at": one.at, "restoring": "aside"})
        aside = move_aside(real, transaction)[1] if any(True for _ in listed(real)) else None
    write_json(record, {"at": one.at, "restoring": "back"})
    move_entries(one.folder, real)
    one.folder.rmdir()
    record.unlink(missing_ok=True)
    return aside


def empty(real: Path, transaction: str) -> Path | None:
    """Make the folder's name free: what it holds goes aside, an empty folder goes."""
    if not real.exists():
        return None
    if not any(True for _ in listed(real)):
        os.rmdir(real)
        return None
    trash = trash_of(real)
    name = _new_id(trash, transaction)
    write_json(trash / f"{name}.json", {"at": time.time()})
    os.rename(real, trash / name)
    return trash / name


def settle(real: Path) -> None:
    """Finish what a cut left half done here: a folder not made anew, a deletion."""
    trash = trash_of(real)
    for item in list(listed(trash)):
        if item.name.startswith(FRESH):
            if not os.path.lexists(real):
                os.rename(item.path, real)
            else:
                os.rmdir(item.path)
        elif item.name.startswith(PURGING):
            with suppress(OSError):
                remove_tree(item.path)
        elif item.name.endswith(".json") and not os.path.lexists(item.path.removesuffix(".json")):
            os.unlink(item.path)


def purge(path: str, real_path: str, ids: tuple[str, ...]) -> int:
    """Delete clearings; returns how many there were. Raises AgentError."""
    real = check_same(path, real_path)
    with renames(real):
        settle(real)
        doomed = [one for one in cleared(real) if one.id in ids]
        for one in doomed:
            discard(real, one.folder, one.id)
            (trash_of(real) / f"{one.id}.json").unlink(missing_ok=True)
    return len(doomed)


def discard(real: Path, doomed: Path, name: str) -> None:
    """Delete something of a store: out of sight by one rename, then for good."""
    trash = trash_of(real)
    trash.mkdir(mode=0o700, exist_ok=True)
    purging = trash / f"{PURGING}{name}"
    number = 0
    while os.path.lexists(purging):
        number += 1
        purging = trash / f"{PURGING}{number}-{name}"
    os.rename(doomed, purging)
    sync_folder(doomed.parent)
    remove_tree(purging)


def remove_tree(path: str | Path) -> None:
    """Delete a file or a folder with all in it, read-only folders too, links not followed."""
    if not stat.S_ISDIR(os.lstat(path).st_mode):
        os.unlink(path)
        return
    with suppress(OSError):
        os.chmod(path, 0o700)
    while True:
        with os.scandir(path) as found:
            batch = list(islice(found, BATCH))
        if not batch:
            break
        for item in batch:
            if item.is_dir(follow_symlinks=False):
                remove_tree(item.path)
            else:
                os.unlink(item.path)
    os.rmdir(path)
