"""Archives as they lie there, and their manifests: one line a file, with its hash.

An archive is a folder of its own in ``archive_to``: ``archive.json`` (what it is, written
last), ``manifest.jsonl`` and either ``files/`` or ``data.tar`` or ``data.tar.zst``. Until it
is whole its name begins with `PARTIAL`.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dflashctl.agent.failures import AgentError
from dflashctl.agent.keeping import ArchiveSeen, StoreSpec
from dflashctl.agent.records import read_json

PARTIAL = ".partial-"
PIECE = 1 << 18
# Called with how many more bytes are done.
Tick = Callable[[int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """One archive's folder, whether it is there or not."""

    folder: Path

    @property
    def about(self) -> Path:
        """What it is."""
        return self.folder / "archive.json"

    @property
    def manifest(self) -> Path:
        """Its files, in the order in which they are in the stream."""
        return self.folder / "manifest.jsonl"

    @property
    def files(self) -> Path:
        """The checkpoints themselves, if they were moved."""
        return self.folder / "files"

    def data(self, form: str) -> Path:
        """The stream, if they were copied."""
        return self.folder / f"data.{form}"


def archive_folder(spec: StoreSpec) -> Path:
    """Where archives are. Raises AgentError ``no_archive_to`` when the playbook has none."""
    if spec.archive_to is None:
        raise AgentError("no_archive_to", path=spec.path)
    return Path(spec.archive_to)


def whole_archive(spec: StoreSpec, name: str) -> tuple[Archive, dict[str, Any]]:
    """An archive by its name, with what it is. Raises AgentError ``no_such_archive``."""
    archive = Archive(folder=archive_folder(spec) / name)
    about = read_json(archive.about)
    if about is None:
        raise AgentError("no_such_archive", path=str(archive.folder), name=name)
    return archive, about


def archives(spec: StoreSpec) -> tuple[ArchiveSeen, ...]:
    """All archives, the oldest first; those that were cut in the making, too."""
    if spec.archive_to is None:
        return ()
    found = []
    with suppress(OSError), os.scandir(spec.archive_to) as items:
        for item in items:
            about = read_json(Path(item.path, "archive.json"))
            if about is not None:
                found.append(_seen(item, about))
    return tuple(sorted(found, key=lambda one: (one.at, one.name)))


def _seen(item: os.DirEntry[str], about: dict[str, Any]) -> ArchiveSeen:
    form = str(about.get("form", "files"))
    size = int(about.get("size", 0))
    stored = size
    if form != "files":
        with suppress(OSError):
            stored = os.stat(os.path.join(item.path, f"data.{form}")).st_size
    return ArchiveSeen(
        name=item.name.removeprefix(PARTIAL),
        form=form,
        whole=not item.name.startswith(PARTIAL),
        at=float(about.get("at", 0.0)),
        names=tuple(about.get("names", ())),
        latest_step=about.get("latest_step"),
        size=size,
        allocated=int(about.get("allocated", size)),
        stored=stored,
        files=int(about.get("files", 0)),
        source=str(about.get("source", "")),
    )


def tree(base: str, names: list[str]) -> Iterator[tuple[str, os.stat_result]]:
    """Every path below ``base`` that these entries hold, a folder before what is in it.

    In one order always, so that a stream and its manifest can be read side by side.
    """
    todo = sorted(names, reverse=True)
    while todo:
        path = todo.pop()
        full = os.path.join(base, path)
        about = os.lstat(full)
        yield path, about
        if stat.S_ISDIR(about.st_mode):
            todo += [os.path.join(path, name) for name in sorted(os.listdir(full), reverse=True)]


def lines(base: str, paths: Iterator[tuple[str, os.stat_result]], tick: Tick) -> Iterator[bytes]:
    """The manifest's lines for these paths; each file is read and hashed.

    Raises:
        AgentError: ``odd_file`` for a device, a socket or a pipe.
    """
    linked: dict[tuple[int, int], str] = {}
    buffer = bytearray(PIECE)
    for path, about in paths:
        line = describe(base, path, about, linked)
        if line["kind"] == "file":
            line["sha256"] = sha256(os.path.join(base, path), buffer, tick)
        yield json.dumps(line, separators=(",", ":")).encode() + b"\n"


def describe(
    base: str, path: str, about: os.stat_result, linked: dict[tuple[int, int], str]
) -> dict[str, Any]:
    """A manifest's line without the hash. ``linked``: the files seen that have more names.

    Raises:
        AgentError: ``odd_file`` for a device, a socket or a pipe.
    """
    line: dict[str, Any] = {"path": path, "mode": stat.S_IMODE(about.st_mode)}
    full = os.path.join(base, path)
    if stat.S_ISDIR(about.st_mode):
        return line | {"kind": "dir"}
    if stat.S_ISLNK(about.st_mode):
        return line | {"kind": "link", "target": os.readlink(full)}
    if not stat.S_ISREG(about.st_mode):
        raise AgentError("odd_file", path=full)
    first = linked.get((about.st_dev, about.st_ino))
    if first is not None:
        return line | {"kind": "hard", "target": first}
    if about.st_nlink > 1:
        linked[about.st_dev, about.st_ino] = path
    return line | {"kind": "file", "size": about.st_size, "mtime_ns": about.st_mtime_ns}


def sha256(path: str, buffer: bytearray, tick: Tick) -> str:
    """The hash of a file's content, read into ``buffer``."""
    digest, view = hashlib.sha256(), memoryview(buffer)
    with open(path, "rb", buffering=0) as file:
        while count := file.readinto(buffer):
            digest.update(view[:count])
            tick(count)
    return digest.hexdigest()


def read_lines(archive: Archive) -> Iterator[dict[str, Any]]:
    """A manifest, line by line. Raises AgentError ``damaged`` where it is none."""
    try:
        with archive.manifest.open("rb") as file:
            for text in file:
                line = json.loads(text)
                if not isinstance(line, dict) or not isinstance(line.get("path"), str):
                    raise ValueError("no such line")
                yield line
    except (OSError, ValueError) as error:
        raise AgentError("damaged", path=str(archive.manifest), reason=str(error)) from error


def check_files(archive: Archive, base: str, tick: Tick) -> int:
    """Compare what lies in ``base`` with the manifest, every file by its hash.

    Returns how many paths there are. Raises:
        AgentError: ``damaged`` with the first path that differs, and how.
    """
    buffer, count = bytearray(PIECE), 0
    for count, line in enumerate(read_lines(archive), start=1):  # noqa: B007 - it is returned
        full = os.path.join(base, line["path"])
        try:
            problem = _differs(full, base, line, buffer, tick)
        except OSError as error:
            problem = error.strerror or str(error)
        if problem is not None:
            raise AgentError("damaged", path=full, reason=problem)
    return count


def _differs(
    full: str, base: str, line: dict[str, Any], buffer: bytearray, tick: Tick
) -> str | None:
    about = os.lstat(full)
    match line["kind"]:
        case "dir":
            return None if stat.S_ISDIR(about.st_mode) else "is no folder"
        case "link":
            there = stat.S_ISLNK(about.st_mode) and os.readlink(full) == line["target"]
            return None if there else "is not the link it was"
        case "hard":
            first = os.lstat(os.path.join(base, line["target"]))
            return None if os.path.samestat(first, about) else "is not the hard link it was"
    if not stat.S_ISREG(about.st_mode) or about.st_size != line["size"]:
        return f"has {about.st_size} bytes, not {line['size']}"
    return None if sha256(full, buffer, tick) == line["sha256"] else "has another SHA-256"


def check_unchanged(archive: Archive, base: str) -> None:
    """The originals are as they were when they were hashed. Raises AgentError ``changed``."""
    for line in read_lines(archive):
        if line["kind"] != "file":
            continue
        full = os.path.join(base, line["path"])
        about = os.lstat(full)
        if (about.st_size, about.st_mtime_ns) != (line["size"], line["mtime_ns"]):
            raise AgentError("changed", path=full)
