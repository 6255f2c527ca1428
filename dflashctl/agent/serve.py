"""The agent's end of the wire: requests from standard input, events and replies to output."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

from dflashctl.agent import (
    command,
    files,
    history,
    logs,
    meeting,
    notify,
    optimize,
    private,
    pull,
    wire,
)
from dflashctl.agent.apply import perform, what_came_of
from dflashctl.agent.fabric import Connect, LayMark, Listen, TakeMark
from dflashctl.agent.failures import AgentError, from_os_error
from dflashctl.agent.keeping import Pull
from dflashctl.agent.observe import observe
from dflashctl.agent.optimizing import Cancel, Detach, Fetch, Optimize
from dflashctl.agent.protocol import (
    HEARTBEAT_S,
    Alive,
    Ask,
    Chunk,
    Commit,
    Event,
    Failure,
    Input,
    Interrupt,
    Logs,
    LogText,
    Look,
    Reply,
    Request,
    RunCommand,
    Stage,
    Staging,
    Taken,
)
from dflashctl.agent.recorded import ListRuns, ReadBlobs, RecallRun
from dflashctl.agent.records import StateFolder
from dflashctl.agent.session import clean_environment, load_ahead
from dflashctl.agent.watching import Notify

DEFAULT_STATE = "~/.local/state/dflashctl"
LINE_LIMIT = 64 << 20
WRITE_S = 20.0


class ClientGone(Exception):
    """Nobody reads us any more, before a transaction had begun."""


class Wire:
    """Lines in, lines out. Once committed, a lost client is no reason to stop.

    ``first``: what was said before the input, with the agent's start.
    """

    def __init__(self, source: int, sink: int, first: bytes = b"") -> None:
        self.source, self._sink = source, sink
        self._buffer = first
        self._writing = threading.Lock()
        self._lost = False
        self.committed = False
        os.set_blocking(sink, False)

    def requests(self) -> Iterator[Request]:
        """One request a line until the input ends."""
        while line := self._line():
            yield wire.load(Request, line)

    def _line(self) -> bytes:
        while b"\n" not in self._buffer:
            piece = os.read(self.source, 1 << 16)
            if not piece or len(self._buffer) > LINE_LIMIT:
                return b""
            self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def arrived(self) -> Iterator[Request]:
        """The requests that have come by now, the one under way included.

        Raises:
            ClientGone: the input has ended.
        """
        if self.hung_up():
            raise ClientGone
        while b"\n" in self._buffer:
            yield wire.load(Request, self._line())

    def hung_up(self) -> bool:
        """Whether the client has closed its side; anything it says meanwhile is kept."""
        if not select.select([self.source], [], [], 0)[0]:
            return False
        piece = os.read(self.source, 1 << 16)
        self._buffer += piece
        return not piece

    def send(self, message: Event | Reply) -> None:
        """Write one line. Never waits longer than a deadline for a reader.

        Raises:
            ClientGone: nobody reads, and no transaction has begun.
        """
        with self._writing:
            if not self._lost:
                self._lost = not self._write(wire.dump(message))
        if self._lost and not self.committed:
            raise ClientGone

    def _write(self, data: bytes) -> bool:
        deadline = time.monotonic() + WRITE_S
        while data:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([], [self._sink], [], left)[1]:
                return False
            try:
                data = data[os.write(self._sink, data) :]
            except BlockingIOError:
                continue
            except OSError:
                return False
        return True


class Pulse:
    """Heartbeats while a request is at work, from a thread of their own."""

    def __init__(self, out: Wire) -> None:
        self._out = out
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)

    def _beat(self) -> None:
        while not self._done.wait(HEARTBEAT_S):
            try:
                self._out.send(Alive())
            except ClientGone:
                return

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()


def serve(state_dir: str, first: str = "") -> None:
    """Answer requests on standard input and output until the input ends.

    ``first``: a request that came with the start itself (`wire.in_a_word`), or an empty word.
    An input that ends before a commit takes what was staged with it, and marks that were laid.
    """
    # A handler, not SIG_IGN: what is ignored would stay ignored in the tmux server.
    signal.signal(signal.SIGHUP, lambda *_: None)
    clean_environment()
    out = Wire(0, 1, wire.out_of_a_word(first))
    state = StateFolder(path=Path(os.path.expanduser(state_dir or DEFAULT_STATE)))
    staged: list[str] = []
    laid: list[LayMark] = []
    try:
        requests = out.requests()
        for request in requests:
            if isinstance(request, Input | Interrupt | Taken):
                continue  # it was on its way when the program ended
            with Pulse(out):
                reply = _answer(request, requests, state, out)
            if isinstance(request, Stage) and isinstance(reply, Staging):
                staged.append(request.transaction)
            if isinstance(request, Commit):
                staged.clear()
            if isinstance(request, LayMark):
                laid.append(request)
            out.send(reply)
            out.committed = False
            if isinstance(request, Look) and request.files:
                load_ahead()  # a start is likely to follow
    except ClientGone:
        pass
    except wire.WireError as error:
        sys.stderr.write(f"{error}\n")
    finally:
        for transaction in staged:
            files.drop_staging(state, transaction)
        for mark in laid:
            meeting.take_mark(mark)


def _answer(request: Request, rest: Iterator[Request], state: StateFolder, out: Wire) -> Reply:
    try:
        if not isinstance(request, RunCommand):  # which may well be what sets it right
            private.check(state)
        return _do(request, rest, state, out)
    except AgentError as error:
        return error.failure
    except OSError as error:
        return from_os_error(error, state.path).failure
    except (ClientGone, wire.WireError):
        raise
    except Exception:
        return Failure(code="internal", detail={"traceback": traceback.format_exc()})


def _do(  # noqa: PLR0911, PLR0912 - one a request
    request: Request, rest: Iterator[Request], state: StateFolder, out: Wire
) -> Reply:
    match request:
        case Look():
            return observe(request, state)
        case Stage():
            folder = files.make_staging(state, request.transaction, request.bytes_needed)
            if request.over == "channel":
                try:
                    files.write_pieces(folder, _pieces(rest))
                except BaseException:
                    files.drop_staging(state, request.transaction)
                    for _ in _pieces(rest):  # what was on its way is no request of its own
                        pass
                    raise
            return Staging(folder=str(folder))
        case Pull():
            return pull.send_all(request, out.send)
        case Commit():
            out.committed = True
            return perform(request, state, out.send)
        case Ask():
            return what_came_of(request, state, out.send)
        case Logs():

            def send(text: str) -> None:
                out.send(LogText(text=text))

            return logs.stream(request, state, send, out.hung_up)
        case Notify():
            return notify.test(request)
        case ListRuns() | RecallRun() | ReadBlobs():
            return history.answer(request, state)
        case Optimize() | Detach() | Fetch() | Cancel():
            return optimize.answer(request, state, out.send, out.hung_up)
        case RunCommand():
            return command.run(request, out)
        case Listen():
            return meeting.listen(request, state, out.send, out.hung_up)
        case Connect():
            return meeting.connect(request)
        case LayMark():
            return meeting.lay_mark(request)
        case TakeMark():
            return meeting.take_mark(request)
        case Chunk() | Input() | Interrupt() | Taken():
            told = f"{type(request).__name__} without what it belongs to"
            return Failure(code="internal", detail={"traceback": told})


def _pieces(rest: Iterator[Request]) -> Iterator[str]:
    for request in rest:
        if not isinstance(request, Chunk):
            raise wire.WireError("expected a chunk")
        if not request.data:
            return
        yield request.data
    raise ClientGone
