"""Any program, run for whoever is at the other end: its streams there and back, its end.

Each side sends at most `WINDOW` bytes that the other has not taken, so that a reader or a
program that takes its time never blocks the connection itself.
"""

from __future__ import annotations

import base64
import binascii
import os
import pwd
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Literal, Protocol

from dflashctl.agent import login, process
from dflashctl.agent.failures import AgentError
from dflashctl.agent.process import Process, Table
from dflashctl.agent.protocol import (
    WINDOW,
    CommandEnd,
    Event,
    Input,
    Interrupt,
    Output,
    Reply,
    Request,
    RunCommand,
    Taken,
)
from dflashctl.agent.wire import WireError

PIECE = 48 << 10
# What a program left behind may hold its streams open for ever.
LAST_WORDS_S = 0.5
GRACE_S = 2.0


class Line(Protocol):
    """The connection to the other end, as far as it is needed here."""

    source: int

    def arrived(self) -> Iterator[Request]:
        """What has come by now; raises when nobody is there any more."""

    def send(self, message: Event | Reply) -> None:
        """Write one message; raises when nobody is there any more."""


def run(request: RunCommand, line: Line) -> CommandEnd:
    """Run the program in the user's login environment and home, to its end.

    When the other end is gone, so is the program, with its children and all that is left
    in its session: TERM, then KILL. What made itself a daemon is left alone.

    Raises:
        AgentError: ``cannot_run``, with program and reason.
    """
    program = _start(request)
    try:
        return _Relay(program, line).to_the_end()
    except BaseException:
        process.end(
            lambda rows: _members(rows, program.pid),
            lambda _, alive: alive,
            signal.SIGTERM,
            GRACE_S,
            lambda _: None,
        )
        raise


def environment(path: tuple[str, ...]) -> dict[str, str]:
    """The login environment of the user we are, with these folders searched first."""
    found = login.login_environment(pwd.getpwuid(os.getuid()))
    return {**found, "PATH": ":".join((*path, found["PATH"]))}


def _start(request: RunCommand) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            request.words,
            env=environment(request.path),
            cwd=login.home(pwd.getpwuid(os.getuid())),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
    except OSError as error:
        reason = error.strerror or str(error)
        raise AgentError("cannot_run", program=request.words[0], reason=reason) from error


def _members(rows: Table, leader: int) -> set[Process]:
    """The program, its children, and what it left behind in its session."""
    found = process.tree(rows, (leader,))
    for row in rows.values():
        with suppress(ProcessLookupError):
            if os.getsid(row.process.pid) == leader:
                found.add(row.process)
    return found


class _Relay:
    """Between a program's three streams and the line."""

    def __init__(self, program: subprocess.Popen[bytes], line: Line) -> None:
        # They are there: PIPE was asked for.
        assert program.stdin is not None
        assert program.stdout is not None
        assert program.stderr is not None
        self._program, self._line = program, line
        self._stdin = program.stdin
        self._streams: dict[int, Literal["out", "err"]] = {
            program.stdout.fileno(): "out",
            program.stderr.fileno(): "err",
        }
        self._on_its_way = 0
        self._input = bytearray()
        self._input_ends = False
        os.set_blocking(self._stdin.fileno(), False)

    def to_the_end(self) -> CommandEnd:
        """Carry bytes until the program has ended and has said all it had to say."""
        handle = os.pidfd_open(self._program.pid)
        try:
            self._obey()  # what came together with the request
            while not select.select((handle,), (), (), 0)[0]:
                self._carry((handle,), None)
            quiet_since = time.monotonic()
            while self._streams and (left := quiet_since + LAST_WORDS_S - time.monotonic()) > 0:
                if self._carry((), left) or self._on_its_way >= WINDOW:
                    quiet_since = time.monotonic()
        finally:
            os.close(handle)
        code = self._program.wait()
        return CommandEnd(exit_code=code if code >= 0 else 128 - code)

    def _carry(self, further: tuple[int, ...], timeout_s: float | None) -> bool:
        """Wait for something to happen, and see to it; whether the program said something."""
        listening = tuple(self._streams) if self._on_its_way < WINDOW else ()
        feeding = (self._stdin.fileno(),) if self._input else ()
        ready, takes, _ = select.select(
            (self._line.source, *listening, *further), feeding, (), timeout_s
        )
        if self._line.source in ready:
            self._obey()
        if takes:
            self._feed()
        said = [handle for handle in listening if handle in ready]
        for handle in said:
            self._hear(handle)
        return bool(said)

    def _obey(self) -> None:
        for request in self._line.arrived():
            match request:
                case Input():
                    self._take(request.data)
                case Taken():
                    self._on_its_way -= request.bytes
                case Interrupt():
                    self._interrupt()
                case _:
                    raise WireError(f"{type(request).__name__} while a command runs")

    def _take(self, data: str) -> None:
        if not data:
            self._input_ends = True
        elif self._stdin.closed:
            self._line.send(Taken(bytes=len(_decoded(data))))
        else:
            self._input += _decoded(data)
        if self._input_ends and not self._input:
            self._stdin.close()

    def _feed(self) -> None:
        """As much of the input as the program takes; one that has closed it gets no more."""
        try:
            count = os.write(self._stdin.fileno(), self._input[:PIECE])
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._stdin.close()
            count = len(self._input)
        del self._input[:count]
        self._line.send(Taken(bytes=count))
        if self._input_ends and not self._input:
            self._stdin.close()

    def _hear(self, handle: int) -> None:
        data = os.read(handle, PIECE)
        if not data:
            del self._streams[handle]
            return
        self._on_its_way += len(data)
        text = base64.b64encode(data).decode("ascii")
        self._line.send(Output(stream=self._streams[handle], data=text))

    def _interrupt(self) -> None:
        """What Ctrl-C does on a terminal: INT to the whole group, at one moment.

        One by one would miss what a shell is just about to start. The group is the
        program's as long as it was not waited for.
        """
        if self._program.pid <= 1:
            raise ValueError(f"refusing to signal group {self._program.pid}")
        with suppress(ProcessLookupError):
            os.killpg(self._program.pid, signal.SIGINT)


def _decoded(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except binascii.Error as error:
        raise WireError(f"input that is no base64: {data[:40]}") from error
