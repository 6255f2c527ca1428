"""From what a run prints to its metrics on disk: ``metrics.jsonl`` and ``state.json``."""

from __future__ import annotations

import json
import math
import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from dflashctl.agent import process
from dflashctl.agent.lines import Lines
from dflashctl.agent.metrics import Values, by_pattern, is_worth_reading, read_json, read_line
from dflashctl.agent.points import Points
from dflashctl.agent.records import RunFolder
from dflashctl.agent.rotate import Rotating
from dflashctl.agent.series import HEARTBEAT_S, Series

METRICS_LIMIT = 32 << 20
METRICS_KEPT = 3
# In a second so many lines are read at most, and so many cut at most: 40 and 4 microseconds
# each. Beyond that the log goes on and the metrics are a sample.
READ_PER_S = 3000
CUT_PER_S = 40_000
# Points closer than this are kept as one another's samples in the file.
THIN_S = 0.25
# A point is written when nothing more was said of its step for so long.
SETTLE_S = 1.0
STATE_EVERY_S = 1.0
PATTERN_S = 0.5
FILE_PIECE = 1 << 20
VERSION = 1


class Meter:
    """Reads along. Nothing here raises but what is a fault of ours.

    Args:
        folder: the run's.
        source: how the playbook says that metrics are found: ``pattern`` or ``jsonl``, a
            regular expression or a path; neither: they are recognised.
        started_at: what is in a file of older date is another run's.
    """

    def __init__(self, folder: RunFolder, source: dict[str, Any], started_at: float) -> None:
        self._folder = folder
        self._file = Rotating(str(folder.metrics), METRICS_LIMIT, METRICS_KEPT)
        self._lines, self._points, self._series = Lines(), Points(), Series()
        me = process.look(os.getpid())
        self._me = list(me.process) if me else None
        self._problem: str | None = None
        self._printed_at: float | None = None
        self._tail = _Tail(source["jsonl"], started_at) if source.get("jsonl") else None
        self._read = self._reader(source)
        self._pending: list[bytes] = []
        self._count = 0
        self._second, self._cut, self._readings = 0, 0, 0
        self._skipped = False
        self._open_since: float | None = None
        self._last_kept = self._last_state = 0.0
        self._changed = True

    def take(self, piece: bytes, now: float) -> None:
        """A piece of the output; empty when there was none for a while."""
        if int(now) != self._second:
            self._second, self._cut, self._readings = int(now), 0, 0
        if piece:
            self._printed_at = now
            self._changed = True
            breaks = piece.count(b"\n")
            self._count += breaks
            self._cut += breaks + piece.count(b"\r")
        if self._tail is None and piece:
            self._output(piece, now)
        if self._tail is not None:
            for line in self._lines.feed(self._tail.more()):
                self._line(line, now)
        # Where the clock is set back, nothing waits for the old time to come again.
        if self._open_since is not None and abs(now - self._open_since) >= SETTLE_S:
            self._settle(now)
        if abs(now - self._last_state) >= (STATE_EVERY_S if self._changed else HEARTBEAT_S):
            self._save(now)

    def close(self, now: float) -> None:
        """Nothing more will come."""
        if self._tail is not None:
            for line in self._lines.feed(self._tail.more()):
                self._line(line, now)
        for line in self._lines.end():
            self._line(line, now)
        self._last_kept = 0.0  # the end of a series is worth a row
        self._settle(now)
        self._save(now)

    def _output(self, piece: bytes, now: float) -> None:
        if self._cut > CUT_PER_S:
            self._skipped = True
            return
        if self._skipped:  # begin again with a whole line
            self._lines, self._skipped = Lines(), False
            piece = piece.partition(b"\n")[2]
        for line in self._lines.feed(piece):
            self._line(line, now)

    def _line(self, line: str, now: float) -> None:
        if not is_worth_reading(line) and self._read is read_line:
            return
        self._readings += 1
        if self._readings > READ_PER_S:
            return
        values = self._read(line)
        if not values:
            return
        for point in self._points.add(values):
            self._keep(point, self._open_since or now)
            self._open_since = None
        if self._open_since is None:
            self._open_since = now

    def _settle(self, now: float) -> None:
        at = self._open_since or now
        self._open_since = None
        for point in self._points.flush():
            self._keep(point, at)

    def _keep(self, point: Values, at: float) -> None:
        self._series.add(at, point)
        self._changed = True
        odd = any(not math.isfinite(value) for value in point.values())
        if abs(at - self._last_kept) < THIN_S and not odd:
            return
        self._last_kept = at
        row = {"t": round(at, 3)} | {name: _plain(value) for name, value in point.items()}
        self._pending.append(json.dumps(row, separators=(",", ":")).encode() + b"\n")

    def _save(self, now: float) -> None:
        self._last_state, self._changed = now, False
        if self._pending:
            self._file.write(b"".join(self._pending))
            self._pending.clear()
        state = {
            "version": VERSION,
            "collector": self._me,
            "at": round(now, 3),
            "lines": self._count,
            "printed_at": self._printed_at,
            "problem": self._problem,
            **self._series.state(),
        }
        _replace(str(self._folder.state), json.dumps(state, separators=(",", ":")).encode())

    def _reader(self, source: dict[str, Any]) -> Callable[[str], Values]:
        if source.get("jsonl"):
            return read_json
        if not source.get("pattern"):
            return read_line
        try:
            read = by_pattern(re.compile(source["pattern"]))
        except re.error:
            self._problem = "bad_pattern"
            return lambda _: {}

        def within_time(line: str) -> Values:
            try:
                with _alarm(PATTERN_S):
                    return read(line)
            except _TooSlow:
                # It would be as slow again, and the log would wait for it.
                self._problem, self._read = "pattern_too_slow", lambda _: {}
                return {}

        return within_time


class _Tail:
    """What a trainer appends to a file of its own, from this run's start on."""

    def __init__(self, path: str, started_at: float) -> None:
        self._path, self._at, self._inode = path, 0, 0
        with suppress(OSError):
            seen = os.stat(path)
            if seen.st_mtime < started_at:
                self._at, self._inode = seen.st_size, seen.st_ino

    def more(self) -> bytes:
        """What was added since; empty when the file is not there or is none."""
        with suppress(OSError):
            handle = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK)
            try:
                seen = os.fstat(handle)
                if not os.path.isfile(self._path):
                    return b""
                if (self._inode and seen.st_ino != self._inode) or seen.st_size < self._at:
                    self._at = 0
                self._inode = seen.st_ino
                piece = os.pread(handle, FILE_PIECE, self._at)
                self._at += len(piece)
                return piece
            finally:
                os.close(handle)
        return b""


class _TooSlow(Exception):
    """A pattern took longer over a line than it may."""


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    def ring(*_: object) -> None:
        raise _TooSlow

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _plain(value: float) -> float | int | str:
    """Whole numbers without their point; what JSON does not know as text."""
    if not math.isfinite(value):
        return str(value)
    return int(value) if value == value // 1 and abs(value) < 1e15 else value


def _replace(path: str, data: bytes) -> None:
    """Whole or not at all, as often as once a second: a power cut may lose the newest one."""
    temporary = f"{path}.{os.getpid()}.new"
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.write(handle, data)
        finally:
            os.close(handle)
        os.replace(temporary, path)
    except OSError:
        with suppress(OSError):
            os.unlink(temporary)
