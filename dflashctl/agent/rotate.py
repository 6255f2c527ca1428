"""A file that is only ever appended to, kept in a few pieces of limited size."""

from __future__ import annotations

import os
from contextlib import suppress


class Rotating:
    """``path``, and before it ``path.1`` (the newer) up to ``path.<kept>``.

    What cannot be written, as on a full disk, is dropped; nothing here raises.
    """

    def __init__(self, path: str, limit: int, kept: int) -> None:
        self._path, self._limit, self._kept = path, limit, kept
        self._handle = -1
        self._size = 0
        self._open()

    @property
    def size(self) -> int:
        """Bytes in the newest piece."""
        return self._size

    def write(self, data: bytes) -> None:
        """Append."""
        if self._size >= self._limit:
            self._turn()
        if self._handle < 0:
            self._open()
        with suppress(OSError):
            while data:
                count = os.write(self._handle, data)
                self._size += count
                data = data[count:]

    def _open(self) -> None:
        with suppress(OSError):
            self._handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            self._size = os.fstat(self._handle).st_size

    def _turn(self) -> None:
        for number in range(self._kept - 1, 0, -1):
            with suppress(OSError):
                os.replace(f"{self._path}.{number}", f"{self._path}.{number + 1}")
        with suppress(OSError):
            os.replace(self._path, f"{self._path}.1")
            os.close(self._handle)
            self._handle = -1
        self._size = 0


def start_since(path: str, since: float) -> tuple[int, int]:
    """Where what was written since a moment begins, by ``path.index``.

    Returns how many newer pieces there are than the one it is in, and the offset in that.
    Its lines say what size the newest piece had at a moment, and a size that is smaller
    than the one before tells that the file has turned.
    """
    rows: list[tuple[float, int]] = []
    with suppress(OSError), open(f"{path}.index", encoding="ascii", errors="replace") as file:
        for line in file:
            with suppress(ValueError, IndexError):
                words = line.split()
                rows.append((float(words[0]), int(words[1])))
    newer, offset, later = 0, 0, -1
    for at, size in reversed(rows):
        if later >= 0 and size > later:
            newer += 1
        offset, later = size, size
        if at <= since:
            return newer, offset
    return newer, 0


def pieces(path: str) -> list[str]:
    """The files that hold it, the oldest first; only those that are there."""
    older = []
    number = 1
    while os.path.exists(f"{path}.{number}"):
        older.append(f"{path}.{number}")
        number += 1
    return [*reversed(older), *([path] if os.path.exists(path) else [])]
