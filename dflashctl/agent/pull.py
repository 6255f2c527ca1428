"""Sends an archive or a checkpoint to the operator's machine, path by path."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dflashctl.agent import store, stream
from dflashctl.agent.failures import AgentError
from dflashctl.agent.keeping import (
    Pull,
    PullBegun,
    PullData,
    PullDone,
    Pulled,
    PullEvent,
    PullPath,
    StoreSpec,
)
from dflashctl.agent.manifest import PIECE, Archive, describe, read_lines, tree, whole_archive

# A line of the wire holds one of them in base64.
PART = 256 << 10

# A line of the manifest, and the file's content for those who read it.
Source = Iterator[tuple[dict[str, Any], Iterable[bytes]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Load:
    """What is to be sent, as often as it is asked for."""

    identity: str
    paths: int
    size: int
    read: Callable[[], Source]


def send_all(request: Pull, send: Callable[[PullEvent], None]) -> Pulled:
    """Send it all, or what is left of it.

    Raises:
        AgentError: ``no_such_archive`` when there is no archive or checkpoint by that name,
            ``damaged``, ``odd_file``.
    """
    load = _load(request.store, request.name)
    send(PullBegun(identity=load.identity, paths=load.paths, size=load.size))
    same = request.identity == load.identity
    skip, offset = (request.skip, request.offset) if same else (0, 0)
    for number, (line, content) in enumerate(load.read()):
        if number < skip:
            continue
        send(
            PullPath(
                path=line["path"],
                kind=line["kind"],
                mode=line["mode"],
                size=line.get("size", 0),
                mtime_ns=line.get("mtime_ns", 0),
                target=line.get("target", ""),
            )
        )
        digest = _send_file(content, offset, send) if line["kind"] == "file" else ""
        if line.get("sha256", digest) != digest:
            raise AgentError("damaged", path=line["path"], reason="has another SHA-256")
        send(PullDone(sha256=digest))
        offset = 0
    return Pulled()


def _send_file(content: Iterable[bytes], offset: int, send: Callable[[PullEvent], None]) -> str:
    """Its hash, whole, even where only the end of it is sent."""
    digest, at = hashlib.sha256(), 0
    for piece in content:
        digest.update(piece)
        wanted = piece[max(0, offset - at) :]
        at += len(piece)
        for start in range(0, len(wanted), PART):
            part = wanted[start : start + PART]
            send(PullData(data=base64.b64encode(part).decode("ascii")))
    return digest.hexdigest()


def _load(spec: StoreSpec, name: str) -> _Load:
    if spec.archive_to is not None:
        try:
            found, about = whole_archive(spec, name)
        except AgentError:
            pass
        else:
            return _archived(found, about)
    real = os.path.realpath(spec.path)
    if name not in {entry.name for entry in store.entries(spec, real, [])}:
        raise AgentError("no_such_archive", path=os.path.join(real, name), name=name)
    digest, paths, size = hashlib.sha256(), 0, 0
    for path, about_it in tree(real, [name]):
        facts = (path, about_it.st_mode, about_it.st_size, about_it.st_mtime_ns)
        digest.update(repr(facts).encode("utf-8", "surrogateescape"))
        paths += 1
        size += about_it.st_size
    return _Load(
        identity=digest.hexdigest(), paths=paths, size=size, read=lambda: _in_place(real, name)
    )


def _in_place(real: str, name: str) -> Source:
    linked: dict[tuple[int, int], str] = {}
    for path, about in tree(real, [name]):
        line = describe(real, path, about, linked)
        yield line, _pieces(Path(real, path)) if line["kind"] == "file" else ()


def _archived(found: Archive, about: dict[str, Any]) -> _Load:
    digest, paths, size = hashlib.sha256(), 0, 0
    for line in read_lines(found):
        digest.update(repr(sorted(line.items())).encode("utf-8", "surrogateescape"))
        paths += 1
        size += int(line.get("size", 0))
    form = str(about["form"])

    def read() -> Source:
        if form == "files":
            for line in read_lines(found):
                place = found.files / line["path"]
                yield line, _pieces(place) if line["kind"] == "file" else ()
        else:
            with stream.read_from(found.data(form)):
                for line, member in stream.members(found, form):
                    yield line, member.content() if line["kind"] == "file" else ()

    return _Load(identity=digest.hexdigest(), paths=paths, size=size, read=read)


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            yield piece
