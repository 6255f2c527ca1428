"""A program on the target, with the three streams of this process for its own."""

from __future__ import annotations

import base64
import queue
import threading
from typing import TYPE_CHECKING, Literal, Protocol, cast

from dflashctl.agent.protocol import (
    WINDOW,
    CommandEnd,
    Failure,
    Input,
    Interrupt,
    Output,
    Taken,
)
from dflashctl.errors import CannotRun, DflashError, Internal

if TYPE_CHECKING:
    from collections.abc import Callable

    from dflashctl.agent.protocol import Event, Reply, Request, RunCommand

PIECE = 48 << 10
# In base64, and with what is on its way.
_MOST_UNREAD = 4 * WINDOW


class Ends(Protocol):
    """This side's ends of the streams."""

    def read(self, size: int) -> bytes:
        """Some bytes of the input, waiting for them; b"" at its end."""

    def write(self, stream: Literal["out", "err"], data: bytes) -> None:
        """All of ``data``, as it is."""


class Foreground:
    """One program's time in the foreground.

    What the target says is heard in a thread of its own, and the input is read in another:
    neither waits for the other, nor for whoever reads our output.
    """

    def __init__(
        self,
        target: str,
        send: Callable[[Request], None],
        hear: Callable[[], Event | Reply],
        error: Callable[[Failure], DflashError],
        ends: Ends,
    ) -> None:
        """``send`` and ``hear`` raise LinkLost when the connection is gone."""
        self._target, self._ends = target, ends
        self._say, self._listen, self._error = send, hear, error
        self._saying = threading.Lock()
        self._over = False
        self._credit = threading.Condition()
        self._on_its_way = self._unread = 0
        self._heard: queue.SimpleQueue[Output | Reply | Exception] = queue.SimpleQueue()

    def run(self, request: RunCommand) -> int:
        """Have it run to its end; its exit code, or 128 and the signal that ended it.

        Raises:
            CannotRun: it could not be started.
            LinkLost: the connection is gone. What the ends raise comes through, too.
        """
        self._send(request)
        for work in (self._hear, self._feed):
            threading.Thread(target=work, name=work.__name__, daemon=True).start()
        try:
            return self._to_the_end(request)
        finally:
            with self._saying:
                self._over = True

    def _to_the_end(self, request: RunCommand) -> int:
        while True:
            match self._heard.get():
                case Output() as piece:
                    data = self._decoded(piece)
                    self._ends.write(piece.stream, data)
                    self._send(Taken(bytes=len(data)))
                case CommandEnd() as end:
                    return end.exit_code
                case Failure(code="cannot_run") as failure:
                    reason = str(failure.detail.get("reason", ""))
                    raise CannotRun(target=self._target, program=request.words[0], reason=reason)
                case Failure() as failure:
                    raise self._error(failure)
                case Exception() as error:
                    raise error
                case other:
                    raise Internal(what=f"{type(other).__name__} while a program ran")

    def _decoded(self, piece: Output) -> bytes:
        try:
            data = base64.b64decode(piece.data)
        except ValueError as error:
            what = f"what {self._target} sent as output is none"
            raise Internal(what=what, detail=str(error)) from error
        with self._credit:
            self._unread -= len(piece.data)
        return data

    def interrupt(self) -> None:
        """Pass a Ctrl-C on."""
        self._send(Interrupt())

    def _send(self, request: Request) -> None:
        """Say it, unless the program is over: late input would be that of the next one."""
        with self._saying:
            if not self._over:
                self._say(request)

    def _hear(self) -> None:
        """Until the reply; whatever ends it is for ``run`` to raise."""
        try:
            while True:
                message = self._listen()
                match message:
                    case Taken():
                        with self._credit:
                            self._on_its_way -= message.bytes
                            self._credit.notify()
                    case Output():
                        self._check_flood(message)
                        self._heard.put(message)
                    case _:
                        self._heard.put(cast("Reply", message))
                        return
        except Exception as error:
            self._heard.put(error)

    def _check_flood(self, piece: Output) -> None:
        with self._credit:
            self._unread += len(piece.data)
            if self._unread > _MOST_UNREAD:
                raise Internal(what=f"{self._target} sent more output than was asked for")

    def _feed(self) -> None:
        """Send the input as fast as the program takes it."""
        try:
            while data := self._ends.read(PIECE):
                with self._credit:
                    self._credit.wait_for(lambda: self._on_its_way < WINDOW)
                    self._on_its_way += len(data)
                self._send(Input(data=base64.b64encode(data).decode("ascii")))
            self._send(Input(data=""))
        except DflashError:
            return  # the connection is gone, as ``_hear`` will tell
