"""Archives: checkpoints brought into one, back from it, and proved to be whole.

The originals are whole until the archive is: a copy is verified by reading it back before
they are deleted; what is moved is hashed first, and a move that was cut is gone on with.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dflashctl.agent import aside, store, stream
from dflashctl.agent.failures import AgentError, free_space
from dflashctl.agent.keeping import (
    ArchiveCheckpoints,
    QuietFor,
    StoreSpec,
)
from dflashctl.agent.manifest import (
    PARTIAL,
    Archive,
    archive_folder,
    check_files,
    check_unchanged,
    lines,
    read_lines,
    tree,
    whole_archive,
)
from dflashctl.agent.records import read_json, sync_folder, write_atomically, write_json

RESERVE = 16 << 20
# What `stream.pack` reads of; all else that an archive in the making holds is `Archive`'s.
NAMES = "names"
# Called with the bytes done and the bytes in all.
Progress = Callable[[int, int], None]
Result = tuple[str, dict[str, Any]]


@dataclass(slots=True, kw_only=True)
class Meter:
    """Adds up what is done."""

    total: int
    progress: Progress
    done: int = 0

    def tick(self, more: int) -> None:
        """So many bytes more."""
        self.done += more
        self.progress(self.done, self.total)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cargo:
    """What goes into an archive: entries of the folder, and what they amount to.

    ``checkpoints`` are in their order, the newest last; ``others`` are the files and links
    that name one, which are needed to go on from it.
    """

    checkpoints: tuple[store.Entry, ...]
    others: tuple[str, ...]
    size: int
    allocated: int
    files: int

    @property
    def names(self) -> list[str]:
        """All entries."""
        return [*(entry.name for entry in self.checkpoints), *self.others]


def archive(
    action: ArchiveCheckpoints, starts: list[float], progress: Progress, note: Callable[[str], None]
) -> Result:
    """Bring complete checkpoints into an archive.

    Raises:
        AgentError: ``archive_exists``, ``disk_full``, ``odd_file``, ``changed``, ``damaged``;
            the checkpoints are where they were then.
    """
    real = aside.check_same(action.store.path, action.real_path)
    folder = archive_folder(action.store)
    with aside.renames(folder), _nothing_goes():
        folder.mkdir(parents=True, exist_ok=True)
        settle(action.store, go_on=action.then_remove)
        aside.settle(real)
        cargo = _cargo(action, real, starts, note)
        final = Archive(folder=folder / action.name)
        if not cargo.checkpoints:
            if final.folder.exists():
                return f"{action.name} was begun before and is whole now", _facts(final, cargo)
            return "no complete checkpoint is there", {"name": action.name, "count": 0}
        if os.path.lexists(final.folder):
            raise AgentError("archive_exists", path=str(final.folder), name=action.name)
        making = Archive(folder=folder / f"{PARTIAL}{action.name}")
        meter = Meter(total=2 * cargo.size, progress=progress)
        with _held(making.folder):
            try:
                about = _about(cargo, real, action)
                if not (action.then_remove and _move(making, real, cargo, about, meter)):
                    _copy(making, real, cargo, about, meter)
            except BaseException:
                _undo(making, real)
                raise
            _finish(making, final)
        if action.then_remove:
            _remove(final, real)
        facts = _facts(final, cargo)
        return f"{len(cargo.checkpoints)} in {final.folder}, verified", facts


@contextmanager
def _nothing_goes() -> Iterator[None]:
    """A trainer that lives may delete old checkpoints while they are read."""
    try:
        yield
    except FileNotFoundError as error:
        raise AgentError("changed", path=str(error.filename)) from error


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Make the folder and hold it, so that nobody takes it for one that was left behind."""
    folder.mkdir(mode=0o700)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def _is_held(folder: Path) -> bool:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def _facts(final: Archive, cargo: _Cargo) -> dict[str, Any]:
    about = read_json(final.about) or {}
    return {
        "name": final.folder.name,
        "path": str(final.folder),
        "form": about.get("form"),
        "count": len(about.get("names", ())),
        "files": about.get("files"),
        "bytes": about.get("size"),
        "checkpoints": [entry.name for entry in cargo.checkpoints],
    }


def _cargo(
    action: ArchiveCheckpoints, real: Path, starts: list[float], note: Callable[[str], None]
) -> _Cargo:
    spec = action.store
    found = sorted(store.entries(spec, str(real), starts), key=lambda one: one.order)
    if action.names is not None:
        found = [entry for entry in found if entry.name in action.names]
    _let_settle(spec, found, note)
    whole = [entry for entry in found if store.incomplete(entry, spec, time.time()) is None]
    others = sorted(_companions(spec, real)) if whole else []
    size = allocated = files = 0
    for _, about in tree(str(real), [*(entry.name for entry in whole), *others]):
        size += about.st_size if stat.S_ISREG(about.st_mode) else 0
        allocated += about.st_blocks * 512 + 1024
        files += 1
    return _Cargo(
        checkpoints=tuple(whole), others=tuple(others), size=size, allocated=allocated, files=files
    )


def _let_settle(spec: StoreSpec, found: Iterable[store.Entry], note: Callable[[str], None]) -> None:
    """Where quiet is the sign of completeness: wait for what was saved only just now."""
    rule = spec.complete_when
    if not isinstance(rule, QuietFor):
        return
    newest = max((store.newest_inside(entry.path) for entry in found), default=0.0)
    left = min(rule.seconds, newest + rule.seconds - time.time())
    if left > 0:
        note(f"the newest checkpoint must be quiet for {left:.0f} s more")
        time.sleep(left + 0.01)


def _companions(spec: StoreSpec, real: Path) -> Iterator[str]:
    """Links, and files that name the newest checkpoint."""
    with os.scandir(real) as found:
        for item in found:
            if item.name.startswith("."):
                continue
            named = item.name in store.POINTERS or item.name == store.pointer(spec)
            if item.is_symlink() or (named and item.is_file(follow_symlinks=False)):
                yield item.name


def _about(cargo: _Cargo, real: Path, action: ArchiveCheckpoints) -> dict[str, Any]:
    return {
        "at": time.time(),
        "source": str(real),
        "names": [entry.name for entry in cargo.checkpoints],
        "others": list(cargo.others),
        # Who is who, for a move that is gone on with later.
        "inodes": {name: os.lstat(real / name).st_ino for name in cargo.names},
        "latest_step": cargo.checkpoints[-1].step,
        "size": cargo.size,
        "allocated": cargo.allocated,
        "files": cargo.files,
        "then_remove": action.then_remove,
    }


def _move(making: Archive, real: Path, cargo: _Cargo, about: dict[str, Any], meter: Meter) -> bool:
    """By renames, if both are one filesystem; False when they are not."""
    if os.stat(real).st_dev != os.stat(making.folder).st_dev:
        return False
    meter.total = cargo.size
    # Written first, so that what a cut leaves is known for what it is.
    write_json(making.about, {**about, "form": "files"})
    _write_manifest(making, real, cargo, meter)
    making.files.mkdir(mode=0o700)
    for number, name in enumerate(cargo.names):
        try:
            os.rename(real / name, making.files / name)
        except OSError as error:
            if error.errno == errno.EXDEV and number == 0:
                meter.done = 0
                making.files.rmdir()
                making.manifest.unlink()
                making.about.unlink()
                return False
            raise
    check_unchanged(making, str(making.files), cargo.names)
    sync_folder(making.files)
    sync_folder(real)
    return True


def _write_manifest(making: Archive, real: Path, cargo: _Cargo, meter: Meter) -> None:
    with making.manifest.open("xb") as file:
        file.writelines(lines(str(real), tree(str(real), cargo.names), meter.tick))
        file.flush()
        os.fsync(file.fileno())


def _copy(making: Archive, real: Path, cargo: _Cargo, about: dict[str, Any], meter: Meter) -> None:
    """As one stream; hashed from the originals meanwhile, and then read back."""
    free, needed = free_space(making.folder), cargo.allocated + RESERVE
    if free < needed:
        raise AgentError("disk_full", path=str(making.folder.parent), free=free, needed=needed)
    form = stream.form_here()
    write_json(making.about, {**about, "form": form})
    names = making.folder / NAMES
    with names.open("xb") as file:
        file.writelines(os.fsencode(path) + b"\0" for path, _ in tree(str(real), cargo.names))
    failed: list[BaseException] = []

    def pack() -> None:
        try:
            stream.pack(str(real), names, making.data(form), form)
        except (OSError, AgentError) as error:
            failed.append(error)

    packing = threading.Thread(target=pack, daemon=True)
    packing.start()
    try:
        _write_manifest(making, real, cargo, meter)
    finally:
        packing.join()
    if failed:
        raise failed[0]
    names.unlink()
    stream.check_copy(making, form, str(real), meter.tick)
    check_unchanged(making, str(real), cargo.names)


def _finish(making: Archive, final: Archive) -> None:
    sync_folder(making.folder)
    os.rename(making.folder, final.folder)
    sync_folder(final.folder.parent)


def _remove(final: Archive, real: Path) -> None:
    """The originals of a verified archive; each goes out of sight by one rename."""
    about = read_json(final.about) or {}
    for name in (*about.get("names", ()), *about.get("others", ())):
        if os.path.lexists(real / name):
            aside.discard(real, real / name, name)


def _undo(making: Archive, real: Path) -> None:
    """Nothing was archived: what was moved comes back, what was copied goes."""
    with suppress(OSError):
        for name in os.listdir(making.files) if making.files.is_dir() else ():
            if not os.path.lexists(real / name):  # else it stays, to be settled
                os.rename(making.files / name, real / name)
        if not making.files.is_dir() or not os.listdir(making.files):
            aside.remove_tree(making.folder)


def settle(spec: StoreSpec, *, go_on: bool) -> None:
    """What a cut left half made: a move is gone on with, a copy is removed.

    A move was cut among its renames, after all was hashed: doing the rest is safe, and
    nothing else could bring checkpoints back under one name. Unless ``go_on`` a run may be
    at work on those that had not moved yet: they stay, and the archive is of the others.
    """
    folder = archive_folder(spec)
    with os.scandir(folder) as items:
        begun = [item.name for item in items if item.name.startswith(PARTIAL) and _ours(item)]
    for name in begun:
        making = Archive(folder=folder / name)
        if _is_held(making.folder):
            continue
        if making.files.is_dir() and os.listdir(making.files):
            _go_on(making, Archive(folder=folder / name.removeprefix(PARTIAL)), spec, go_on)
        else:
            aside.remove_tree(making.folder)


def _ours(item: os.DirEntry[str]) -> bool:
    """Whether it is an archive in the making: others have names that begin with a dot, too."""
    making = Archive(folder=Path(item.path))
    data = (making.data("tar"), making.data("tar.zst"))
    known = {path.name for path in (making.about, making.manifest, making.files, *data)} | {NAMES}
    if not item.is_dir(follow_symlinks=False):
        return False
    # A record that was being written has a name of its own before.
    return all(name in known or name.endswith(".new") for name in os.listdir(item.path))


def _go_on(making: Archive, final: Archive, spec: StoreSpec, go_on: bool) -> None:
    about = read_json(making.about) or {}
    source, lost = Path(str(about.get("source", "/"))), set()
    for name, inode in about.get("inodes", {}).items():
        if os.path.lexists(making.files / name):
            continue
        there = os.path.lexists(source / name) and os.lstat(source / name).st_ino == inode
        if there and go_on:
            os.rename(source / name, making.files / name)
        else:  # somebody else moved it meanwhile, or put another in its place
            lost.add(name)
    if lost:
        base, here = str(making.files), os.listdir(making.files)
        # Anew, as a file's content may have been under a name of what is not here.
        text = b"".join(lines(base, tree(base, here), lambda _: None))
        write_atomically(making.manifest, text)
        kept = list(read_lines(making))
        steps = [entry.step for entry in store.entries(spec, base, []) if entry.step is not None]
        theirs = {
            "names": [name for name in about["names"] if name not in lost],
            "others": [name for name in about["others"] if name not in lost],
            "latest_step": max(steps, default=None),
            "size": sum(line.get("size", 0) for line in kept),
            "files": len(kept),
        }
        write_json(making.about, {**about, **theirs})
    if not os.path.lexists(final.folder):
        _finish(making, final)


def verify(spec: StoreSpec, name: str, progress: Progress) -> Result:
    """Read an archive whole. Raises AgentError ``damaged``, ``no_such_archive``."""
    found, about = whole_archive(spec, name)
    meter = Meter(total=int(about["size"]), progress=progress)
    if about["form"] == "files":
        count = check_files(found, str(found.files), meter.tick)
    else:
        count = stream.check_stream(found, about["form"], meter.tick)
    return f"{count} paths as they were archived", {"name": name, "files": count}
