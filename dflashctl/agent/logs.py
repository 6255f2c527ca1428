"""A run's output: its last lines, what came since, what matches; and on with it until its end."""

from __future__ import annotations

import codecs
import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import BinaryIO

from dflashctl.agent import process, runs
from dflashctl.agent.failures import AgentError
from dflashctl.agent.lines import plain
from dflashctl.agent.protocol import LogEnd, Logs
from dflashctl.agent.records import RunFolder, StateFolder
from dflashctl.agent.rotate import pieces, start_since
from dflashctl.agent.seen import State
from dflashctl.agent.tracebacks import Errors

PIECE = 1 << 16
POLL_S = 0.1
STATE_EVERY_S = 1.0
_LIVE = ("RUNNING", "STARTING", "ORPHANED")


def stream(
    request: Logs, state: StateFolder, send: Callable[[str], None], hung_up: Callable[[], bool]
) -> LogEnd:
    """Send what was asked for, then what comes after it while the run lives.

    Raises:
        AgentError: ``no_run`` when there is no such run, with the runs that there are;
            ``bad_pattern`` when ``grep`` is no regular expression here.
    """
    folder = _folder(request, state)
    path = str(folder.metrics if request.what == "metrics" else folder.log)
    keep = _keeper(request)
    reader = _Reader(path)
    if request.since_s is not None and request.what == "output":
        reader.go_to(*start_since(path, time.time() - request.since_s))
    elif keep is None and not request.errors and request.lines is not None:
        reader.go_to_last(request.lines)
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    for data in _first(request, reader, keep):
        send(decode(data))
    status = _state(folder)
    rest, checked = b"", time.monotonic()
    while request.follow and status in _LIVE and not hung_up():
        time.sleep(POLL_S)
        if time.monotonic() - checked > STATE_EVERY_S or folder.exit.exists():
            checked, status = time.monotonic(), _state(folder)
        data = b"".join(reader.all())
        if keep is not None:
            *whole, rest = (rest + data).split(b"\n")
            data = b"".join(line + b"\n" for line in whole if keep(line))
        if data:
            send(decode(data))
    return LogEnd(run_id=folder.id, state=status)


def _first(request: Logs, reader: _Reader, keep: Callable[[bytes], bool] | None) -> Iterator[bytes]:
    """What is there already, as far as it was asked for."""
    if request.errors:
        errors = Errors()
        for line in _lines(reader.all()):
            errors.feed(plain(line))
        blocks = errors.found()
        yield from (block.encode() for block in blocks[-(request.lines or len(blocks)) :])
    elif keep is not None:
        yield from deque((line for line in _lines(reader.all()) if keep(line)), request.lines)
    else:
        yield from reader.all()


def _keeper(request: Logs) -> Callable[[bytes], bool] | None:
    """Which lines are wanted; None: all."""
    if request.grep is None:
        return None
    try:
        pattern = re.compile(request.grep)
    except re.error as error:
        raise AgentError("bad_pattern", pattern=request.grep, reason=str(error)) from None
    return lambda line: pattern.search(plain(line)) is not None


class _Reader:
    """Reads a file that is kept in pieces, the oldest first, and on while it grows and turns."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._files = [open(one, "rb") for one in pieces(path)]  # noqa: SIM115 - they go with us

    def go_to_last(self, lines: int | None) -> None:
        """Begin with the last so many lines; None: with the first."""
        if lines is None:
            return
        for number in reversed(range(len(self._files))):
            start, lines = _start_of_last(self._files[number], lines)
            self._files[number].seek(start)
            if lines <= 0:
                self._files = self._files[number:]
                return

    def go_to(self, newer: int, offset: int) -> None:
        """Begin so many bytes into the piece that has so many newer ones."""
        if newer < len(self._files):
            self._files = self._files[len(self._files) - 1 - newer :]
            self._files[0].seek(offset)

    def all(self) -> Iterator[bytes]:
        """What there is now; called again, what was added since."""
        if not self._files and os.path.exists(self._path):
            self._files = [open(self._path, "rb")]  # noqa: SIM115 - it goes with us
        while self._files:
            while data := self._files[0].read(PIECE):
                yield data
            if len(self._files) == 1:
                if not self._has_turned():
                    return
                self._files.append(open(self._path, "rb"))  # noqa: SIM115 - it goes with us
            self._files.pop(0).close()

    def _has_turned(self) -> bool:
        """Whether the newest piece has become an older one, and there is a new one."""
        try:
            return os.stat(self._path).st_ino != os.fstat(self._files[0].fileno()).st_ino
        except FileNotFoundError:
            return False


def _lines(data: Iterator[bytes]) -> Iterator[bytes]:
    """Lines with their ends, of which the last may have none."""
    rest = b""
    for piece in data:
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            yield line + b"\n"
        rest = rest[-(1 << 20) :]  # a line without end is no reason to keep all of it
    if rest:
        yield rest


def _folder(request: Logs, state: StateFolder) -> RunFolder:
    folder = (
        state.run(request.job, request.run_id) if request.run_id else state.current(request.job)
    )
    if folder is None or not folder.run.exists() or os.sep in (request.run_id or ""):
        known = sorted(path.name for path in state.job(request.job).glob("runs/*"))
        raise AgentError("no_run", run_id=request.run_id or "", known=known[-10:])
    return folder


def _state(folder: RunFolder) -> State:
    run = runs.see(folder, runs.alive(folder, process.table()), time.time())
    return run.state if run else "NONE"


def _start_of_last(file: BinaryIO, lines: int) -> tuple[int, int]:
    """Where the last ``lines`` lines begin, read backwards, and how many are missing."""
    if lines <= 0:
        return file.seek(0, os.SEEK_END), 0
    position = size = file.seek(0, os.SEEK_END)
    # The line end that closes the last line does not begin another one.
    wanted = lines + 1
    while position > 0:
        step = min(PIECE, position)
        position -= step
        file.seek(position)
        piece = file.read(step)
        if position + step == size and not piece.endswith(b"\n"):
            wanted -= 1
        count = piece.count(b"\n")
        if count >= wanted:
            at = len(piece)
            for _ in range(wanted):
                at = piece.rindex(b"\n", 0, at)
            return position + at + 1, 0
        wanted -= count
    return 0, wanted - 1
