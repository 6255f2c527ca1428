"""One agent process on a target: requests in, events and one reply out."""

from __future__ import annotations

import base64
import logging
import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from dflashctl.agent import wire
from dflashctl.agent.fabric import Connected, Heard, Marks
from dflashctl.agent.keeping import Pulled
from dflashctl.agent.optimizing import Cancelled, Detached, Optimized
from dflashctl.agent.protocol import (
    Alive,
    Chunk,
    Event,
    Failure,
    LogEnd,
    LogText,
    Outcome,
    Reply,
    Stage,
    Staging,
)
from dflashctl.agent.recorded import (
    ListRuns,
    ReadBlobs,
    RecallRun,
    RunRecord,
    RunsListed,
    Texts,
)
from dflashctl.agent.seen import Observed
from dflashctl.agent.watching import Notified
from dflashctl.errors import (
    DflashError,
    Internal,
    LinkLost,
    Unverified,
)
from dflashctl.link.complaints import as_error
from dflashctl.link.foreground import Foreground
from dflashctl.link.transport import NoFileChannel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from dflashctl.agent.fabric import Connect, LayMark, Listen, TakeMark
    from dflashctl.agent.keeping import Pull
    from dflashctl.agent.optimizing import Cancel, Detach, Fetch, Optimize
    from dflashctl.agent.protocol import Ask, Commit, Logs, Look, Request
    from dflashctl.agent.watching import Notify
    from dflashctl.link.deadlines import Deadlines
    from dflashctl.link.foreground import Ends
    from dflashctl.link.transport import Channel, Progress, Transport

_log = logging.getLogger("dflashctl.link")

_LINE_LIMIT = 16 << 20
_CHUNK = 48 << 10
_ARCHIVE = "files.tar"
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request that was made with the agent's start; ``said``: how its answer begins."""

    request: Request
    said: bytes


class Agent:
    """A running agent; a context manager. Used by one thread at a time.

    Every method raises LinkLost when the connection dies or the agent ends, and when it
    is silent for too long; and Internal for an answer that makes no sense.
    """

    def __init__(
        self,
        target: str,
        transport: Transport,
        channel: Channel,
        deadlines: Deadlines,
        asked: Asked | None = None,
    ) -> None:
        """``channel``: an agent that has greeted.

        ``asked``: what it was asked already; the first request must be this.
        """
        self._target = target
        self._transport, self._channel = transport, channel
        self._asked, self._deadlines = asked, deadlines
        self._buffer = bytearray(asked.said if asked is not None else b"")

    def __enter__(self) -> Agent:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of it: without a commit it ends and takes what it staged with it."""
        self._channel.close()

    def observe(self, look: Look) -> Observed:
        """One look at the target."""
        self._send(look)
        return self._expect(Observed, self._answer())

    def push(self, transaction: str, archive: Path, progress: Progress) -> None:
        """Bring an archive of files into a transaction's staging folder.

        Args:
            transaction: the id that the commit will have.
            archive: a file of this machine, as `Archives` makes it.
            progress: called with the bytes sent and the bytes in all.

        Raises:
            Refused: there is no room for them, or the staging folder cannot be written.
        """
        size = archive.stat().st_size
        began = time.monotonic()
        self._send(Stage(transaction=transaction, bytes_needed=size, over="file"))
        staging = self._expect(Staging, self._answer())
        try:
            self._transport.send_file(archive, staging.folder, _ARCHIVE, progress)
            way = "as a file"
        except NoFileChannel as error:
            _log.debug("%s: %s: the agent's own channel is used", self._target, error)
            self._send_over_channel(transaction, archive, progress)
            way = "over the agent's channel"
        except ConnectionError as error:
            raise self._lost(str(error)) from error
        took = time.monotonic() - began
        _log.debug("%s: sent %d bytes %s in %.3f s", self._target, size, way, took)

    def commit(self, commit: Commit, on_event: Callable[[Event], None]) -> Outcome:
        """Have a plan performed. Once it is sent, it goes on to its end without us.

        Raises:
            LockHeld, Stale: nothing was touched.
            LinkLost: with ``transaction`` set, since it may have begun. It may even be over:
                the look that follows it can fail, too.
        """
        try:
            self._send(commit)
            return self._outcome(self._reply(on_event))
        except LinkLost as error:
            error.transaction = commit.transaction
            raise

    def ask(self, request: Ask, on_event: Callable[[Event], None]) -> Outcome | Failure:
        """What came of a transaction whose end was not heard; waits while it is at work.

        Returns:
            Its outcome, after its events; or the failure ``not_begun`` or ``cut_off``.
        """
        self._send(request)
        reply = self._reply(on_event)
        if isinstance(reply, Failure) and reply.code in ("not_begun", "cut_off"):
            return reply
        return self._outcome(reply)

    def _outcome(self, reply: Reply) -> Outcome:
        if isinstance(reply, Failure) and reply.code == "unseen":
            raise self._lost(f"the look after the transaction failed: {reply.detail.get('reason')}")
        return self._expect(Outcome, reply)

    def optimize(self, request: Optimize | Fetch, on_event: Callable[[Event], None]) -> Optimized:
        """Bucket boundaries, found now or by a detached optimiser, which is waited for.

        Raises:
            OptimizerFailed: it says why; MissingTool: no such interpreter.
        """
        self._send(request)
        return self._expect(Optimized, self._reply(on_event))

    def detach(self, request: Detach) -> Detached:
        """Start a detached optimiser.

        Raises:
            OptimizerAtWork: there is one already; and as ``optimize``.
        """
        self._send(request)
        return self._expect(Detached, self._answer())

    def cancel(self, request: Cancel) -> Cancelled:
        """End a detached optimiser.

        Raises:
            NoOptimizer: none is at work.
        """
        self._send(request)
        return self._expect(Cancelled, self._answer())

    def pull(self, request: Pull, on_event: Callable[[Event], None], state: str) -> Pulled:
        """An archive or a checkpoint, piece by piece as events.

        Raises:
            Unverified: it is damaged, has gone, or cannot be read over there, where ``state``
                is the job's.
        """
        self._send(request)
        reply = self._reply(on_event)
        if isinstance(reply, Failure) and reply.code in _OF_ARCHIVES:
            raise Unverified(
                target=self._target,
                step=f"pull {request.name}",
                failure=reply.code,
                detail=dict(reply.detail),
                state=state,
            )
        return self._expect(Pulled, reply)

    def logs(self, request: Logs) -> Iterator[LogText | LogEnd]:
        """The run's output piece by piece, then how it ended.

        Raises:
            NothingRuns: there is no such run.
        """
        self._send(request)
        while True:
            match self._message():
                case LogText() as text:
                    yield text
                case LogEnd() as end:
                    yield end
                    return
                case Failure() as failure:
                    raise self._error(failure, session=request.job)
                case (
                    Observed()
                    | Staging()
                    | Outcome()
                    | RunsListed()
                    | RunRecord()
                    | Texts()
                    | Optimized()
                    | Notified()
                    | Detached()
                    | Heard()
                    | Connected()
                    | Marks()
                    | Pulled() as other
                ):
                    raise self._nonsense(f"{type(other).__name__} in answer to Logs")
                case _:
                    pass

    def notify(self, request: Notify) -> Notified:
        """Have a test sent from there over each channel."""
        self._send(request)
        return self._expect(Notified, self._answer())

    def list_runs(self, job: str) -> RunsListed:
        """The job's runs that are on record, the oldest first."""
        self._send(ListRuns(job=job))
        return self._expect(RunsListed, self._answer())

    def recall(self, job: str, run_id: str) -> RunRecord:
        """All that is on record of one run. Raises NothingRuns when there is no such run."""
        self._send(RecallRun(job=job, run_id=run_id))
        return self._expect(RunRecord, self._answer())

    def read_blobs(self, sha256s: Sequence[str], limit: int) -> dict[str, str]:
        """Contents of kept files by their hashes: those that are text, up to ``limit`` bytes."""
        self._send(ReadBlobs(sha256s=tuple(sha256s), limit=limit))
        return self._expect(Texts, self._answer()).texts

    def listen(self, request: Listen, on_event: Callable[[Event], None]) -> Heard:
        """Let others come to a port, which is told as an event.

        Raises:
            Refused: something else than the job listens there.
        """
        self._send(request)
        return self._expect(Heard, self._reply(on_event))

    def connect(self, request: Connect) -> Connected | str:
        """Go to another target's port; why it cannot be reached, if it cannot."""
        self._send(request)
        reply = self._answer()
        if isinstance(reply, Failure) and reply.code == "no_way":
            return str(reply.detail.get("reason"))
        return self._expect(Connected, reply)

    def mark(self, request: LayMark | TakeMark) -> Marks:
        """Lay a mark into a folder; or see whose are there, and take one's own away."""
        self._send(request)
        return self._expect(Marks, self._answer())

    def foreground(self, ends: Ends) -> Foreground:
        """The means to run a program with these ends of its streams."""
        return Foreground(self._target, self._send, self._message, self._error, ends)

    def _send_over_channel(self, transaction: str, archive: Path, progress: Progress) -> None:
        total, sent = archive.stat().st_size, 0
        self._send(Stage(transaction=transaction, bytes_needed=total, over="channel"))
        with archive.open("rb") as content:
            while piece := content.read(_CHUNK):
                self._send(Chunk(data=base64.b64encode(piece).decode("ascii")))
                sent += len(piece)
                progress(sent, total)
                # It answers before the end only when it cannot take the rest.
                if self._has_answered():
                    break
            else:
                self._send(Chunk(data=""))
        self._expect(Staging, self._answer())

    def _has_answered(self) -> bool:
        try:
            piece = self._channel.read(0.0)
        except TimeoutError:
            return False
        except ConnectionError as error:
            raise self._lost(str(error)) from error
        if not piece:
            raise self._lost("the agent ended")
        self._buffer += piece
        self._check_size()
        heartbeats = bytes(self._buffer).splitlines(keepends=True)
        self._buffer = bytearray(b"".join(line for line in heartbeats if line != _ALIVE))
        return b"\n" in self._buffer

    def _answer(self) -> Reply:
        """The reply to a question that keeps nobody busy for long."""
        return self._reply(lambda _: None, time.monotonic() + self._deadlines.reply_s)

    def _reply(self, on_event: Callable[[Event], None], until: float = math.inf) -> Reply:
        """The reply, after the events before it."""
        while True:
            message = self._message(until)
            if isinstance(message, Reply):
                return message
            on_event(message)

    def _message(self, until: float = math.inf) -> Event | Reply:
        """The next message that is not a mere heartbeat."""
        while True:
            line = self._line(until)
            try:
                message: Event | Reply = wire.load(Event | Reply, line)
            except wire.WireError as error:
                raise self._nonsense(str(error)) from error
            if not isinstance(message, Alive):
                return message

    def _line(self, until: float) -> bytes:
        searched, silence_s = 0, self._deadlines.silence_s
        while (end := self._buffer.find(b"\n", searched)) < 0:
            searched = len(self._buffer)
            self._check_size()
            left = until - time.monotonic()
            try:
                piece = self._channel.read(max(0.0, min(silence_s, left)))
            except TimeoutError as error:
                if left < silence_s:
                    raise self._late() from error
                raise self._lost(f"silent for {silence_s:g} s") from error
            except ConnectionError as error:
                raise self._lost(str(error)) from error
            if not piece:
                raise self._lost("the agent ended")
            self._buffer += piece
        if time.monotonic() > until:
            raise self._late()
        line = bytes(self._buffer[: end + 1])
        del self._buffer[: end + 1]
        return line

    def _check_size(self) -> None:
        if len(self._buffer) > _LINE_LIMIT:
            raise self._nonsense(f"a line of more than {_LINE_LIMIT} bytes")

    def _late(self) -> LinkLost:
        return self._lost(f"no answer within {self._deadlines.reply_s:g} s")

    def _send(self, request: Request) -> None:
        # The name only: a commit holds secrets.
        _log.debug("%s: %s", self._target, type(request).__name__)
        asked, self._asked = self._asked, None
        if asked is not None:
            if asked.request != request:
                raise self._nonsense("it was asked something else at its start")
            return
        try:
            self._channel.write(wire.dump(request))
        except ConnectionError as error:
            raise self._lost(str(error)) from error

    def _expect(self, kind: type[T], reply: Reply) -> T:
        if isinstance(reply, kind):
            return reply
        if isinstance(reply, Failure):
            raise self._error(reply)
        raise self._nonsense(f"{type(reply).__name__} instead of {kind.__name__}")

    def _lost(self, reason: str) -> LinkLost:
        last = self._channel.stderr_tail().strip().splitlines()[-1:]
        return LinkLost(
            target=self._target, address=self._target, reason="; ".join((reason, *last))
        )

    def _nonsense(self, detail: str) -> Internal:
        return Internal(what=f"the agent on {self._target} answered nonsense", detail=detail)

    def _error(self, failure: Failure, session: str = "") -> DflashError:
        return as_error(self._target, failure, session)


_ALIVE = wire.dump(Alive())
_OF_ARCHIVES = ("damaged", "no_such_archive", "no_zstd", "odd_file", "system")
