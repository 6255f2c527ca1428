"""Reads the tar streams that we have written, as fast as they come.

Python's own reader takes half a millisecond a file; a checkpoint may have 100,000. Only
what GNU tar writes for files, folders, links and sparse files is understood: whatever else
is in a stream is a reason to call it damaged.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO

BLOCK = 512
PIECE = 1 << 18
_ZEROS = bytes(1 << 16)
_KINDS = {b"0": "file", b"\0": "file", b"S": "file", b"5": "dir", b"2": "link", b"1": "hard"}
LONGEST_NAME = 1 << 16


class BadStream(Exception):
    """It ends too soon, or holds what we do not write."""


@dataclass(slots=True, kw_only=True)
class Member:
    """One path of the stream. ``size``: of the file as it was, its holes included."""

    path: str
    kind: str
    target: str
    size: int
    _plain: IO[bytes]
    _stored: int
    _extents: list[tuple[int, int]] | None = None
    _left: int = field(default=0, init=False)
    _padding: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._left = self._stored
        self._padding = -self._stored % BLOCK

    def content(self) -> Iterator[bytes]:
        """The file's bytes in pieces, holes as zeros."""
        if self._extents is None:
            yield from self._read(self._stored)
            return
        at = 0
        for offset, count in self._extents:
            yield from _zeros(offset - at)
            yield from self._read(count)
            at = offset + count
        yield from _zeros(self.size - at)

    def _read(self, count: int) -> Iterator[bytes]:
        while count:
            piece = self._plain.read(min(count, PIECE))
            if not piece:
                raise BadStream("it ends within a file")
            count -= len(piece)
            self._left -= len(piece)
            yield piece

    def skip(self) -> None:
        """Whatever of it was not read."""
        for _ in self._read(self._left):
            pass
        if self._padding:
            _exactly(self._plain, self._padding)
            self._padding = 0


def _zeros(count: int) -> Iterator[bytes]:
    while count > 0:
        yield _ZEROS[:count]
        count -= len(_ZEROS)


def _exactly(plain: IO[bytes], count: int) -> bytes:
    data = plain.read(count)
    if len(data) != count:
        raise BadStream("it ends too soon")
    return data


def read(plain: IO[bytes]) -> Iterator[Member]:
    """The members of a stream, one after the other; ``plain`` must be buffered.

    Raises:
        BadStream: it is none of ours, or cut.
    """
    path = target = None
    while True:
        head = _exactly(plain, BLOCK)
        if not head.strip(b"\0"):
            return
        if _number(head[148:156]) != sum(head) - sum(head[148:156]) + 256:
            raise BadStream("a header is damaged")
        size, kind = _number(head[124:136]), head[156:157]
        if kind in (b"L", b"K"):
            if size > LONGEST_NAME:
                raise BadStream("a name is too long")
            text = os.fsdecode(_exactly(plain, size + -size % BLOCK)[:size].rstrip(b"\0"))
            path, target = (text, target) if kind == b"L" else (path, text)
            continue
        if kind not in _KINDS:
            raise BadStream(f"it has a member of type {kind!r}")
        real, extents = size, None
        if kind == b"S":
            real, extents = _number(head[483:495]), _sparse(plain, head)
        member = Member(
            path=(path or _text(head[:100])).rstrip("/"),
            kind=_KINDS[kind],
            target=target or _text(head[157:257]),
            size=real,
            _plain=plain,
            _stored=size if _KINDS[kind] == "file" else 0,
            _extents=extents,
        )
        path = target = None
        yield member
        member.skip()


def _text(data: bytes) -> str:
    return os.fsdecode(data.split(b"\0", 1)[0])


def _number(data: bytes) -> int:
    if data[0] & 0x80:  # base 256, for what octal digits cannot hold
        return int.from_bytes(bytes([data[0] & 0x7F]) + data[1:], "big")
    try:
        return int(data.strip(b" \0") or b"0", 8)
    except ValueError as error:
        raise BadStream("a number is none") from error


def _sparse(plain: IO[bytes], head: bytes) -> list[tuple[int, int]]:
    """Where the data of a sparse file lies in it."""
    extents: list[tuple[int, int]] = []
    block, at, count, more = head, 386, 4, head[482]
    while True:
        for place in range(at, at + 24 * count, 24):
            offset, length = _number(block[place : place + 12]), _number(block[place + 12 :][:12])
            if length:
                extents.append((offset, length))
        if not more:
            return extents
        block, at, count = _exactly(plain, BLOCK), 0, 21
        more = block[504]
