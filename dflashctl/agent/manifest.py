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
from itertools import zip_longest
from pathlib import Path
from typing import Any

from dflashctl.agent.failures import AgentError
from dflashctl.agent.keeping import ArchiveSeen, StoreSpec
from dflashctl.agent.records import read_json

PARTIAL = ".partial-"
PIECE = 1 << 18
_FORMS = ("files", "tar", "tar.zst")
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
    """An archive by its name, with what it is.

    Raises:
        AgentError: ``no_such_archive``; ``damaged`` where its ``archive.json`` is none of ours.
    """
    archive = Archive(folder=archive_folder(spec) / name)
    about = read_json(archive.about)
    if about is None:
        raise AgentError("no_such_archive", path=str(archive.folder), name=name)
    if not _is_ours(about):
        raise AgentError("damaged", path=str(archive.about), reason="does not say what it is of")
    return archive, about


def _is_ours(about: dict[str, Any]) -> bool:
    """Whether it says what we write; others may keep an ``archive.json`` of their own."""
    names, numbers = about.get("names"), (about.get("at"), about.get("size"))
    return (
        about.get("form") in _FORMS
        and isinstance(names, list)
        and all(isinstance(name, str) for name in names)
        and all(type(number) in (int, float) for number in (*numbers, about.get("allocated")))
        and type(about.get("files")) is int
        and type(about.get("latest_step")) in (int, type(None))
    )


def archives(spec: StoreSpec) -> tuple[ArchiveSeen, ...]:
    """All archives, the oldest first; those that were cut in the making, too."""
    if spec.archive_to is None:
        return ()
    found = []
    with suppress(OSError), os.scandir(spec.archive_to) as items:
        for item in items:
            about = read_json(Path(item.path, "archive.json"))
            if about is not None and _is_ours(about):
                found.append(_seen(item, about))
    return tuple(sorted(found, key=lambda one: (one.at, one.name)))


def _seen(item: os.DirEntry[str], about: dict[str, Any]) -> ArchiveSeen:
    form, size = str(about["form"]), int(about["size"])
    stored = size
    if form != "files":
        with suppress(OSError):
            stored = os.stat(os.path.join(item.path, f"data.{form}")).st_size
    return ArchiveSeen(
        name=item.name.removeprefix(PARTIAL),
        form=form,
        whole=not item.name.startswith(PARTIAL),
        at=float(about["at"]),
        names=tuple(about["names"]),
        latest_step=about["latest_step"],
        size=size,
        allocated=int(about["allocated"]),
        stored=stored,
        files=about["files"],
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
                if not _is_a_line(line):
                    raise ValueError("has a line that is none of a manifest")
                yield line
    except (OSError, ValueError) as error:
        raise AgentError("damaged", path=str(archive.manifest), reason=str(error)) from error


def _is_a_line(line: Any) -> bool:
    if not isinstance(line, dict) or not isinstance(line.get("path"), str):
        return False
    if line["path"].startswith("/") or ".." in line["path"].split("/"):
        return False
    match line.get("kind"):
        case "file":
            numbers = (line.get("size"), line.get("mtime_ns"), line.get("mode"))
            return isinstance(line.get("sha256"), str) and all(type(n) is int for n in numbers)
        case "link" | "hard":
            return isinstance(line.get("target"), str) and type(line.get("mode")) is int
        case kind:
            return kind == "dir" and type(line.get("mode")) is int


def check_files(archive: Archive, base: str, tick: Tick) -> int:
    """Compare what lies in ``base`` with the manifest, every file by its hash.

    Returns how many paths there are. Raises:
        AgentError: ``damaged`` with the first path that differs, and how; also with one that
            the manifest does not know.
    """
    buffer, count = bytearray(PIECE), 0
    there = (path for path, _ in tree(base, os.listdir(base)))
    for line, path in zip_longest(read_lines(archive), there):
        count += 1
        if line is None or (path != line["path"] and os.path.lexists(f"{base}/{line['path']}")):
            odd = os.path.join(base, path) if path is not None else base
            raise AgentError("damaged", path=odd, reason="is not what its manifest has there")
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


def check_unchanged(archive: Archive, base: str, names: list[str]) -> None:
    """These entries are as they were when they were hashed, with nothing new in them.

    Raises:
        AgentError: ``changed``.
    """
    for line, there in zip_longest(read_lines(archive), tree(base, names)):
        path, about = there or (line["path"], None)
        if line is None or about is None or path != line["path"]:
            raise AgentError("changed", path=os.path.join(base, path))
        was = (line.get("size"), line.get("mtime_ns"))
        if line["kind"] == "file" and (about.st_size, about.st_mtime_ns) != was:
            raise AgentError("changed", path=os.path.join(base, path))
