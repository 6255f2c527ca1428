"""A TCP proxy on loopback that delays, throttles, counts, falls silent and cuts."""

from __future__ import annotations

import contextlib
import queue
import socket
import struct
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

_CHUNK = 16 * 1024
# When it is due, how many trips led to it, and the bytes.
_Load = tuple[float, int, bytes]
_END: _Load = (0.0, 0, b"")


@dataclass(slots=True)
class Direction:
    """Bytes one way.

    Attributes:
        delay_s: how long each byte is on its way.
        bytes_per_s: how many fit through; None: as many as come.
        cut_after: all connections are cut once that many bytes have passed, in all.
        count: how many bytes have passed.
        pieces: how many pieces, as they were received, came to be passed on.
        before: called with a piece's number, from 1, before it is passed on.
    """

    delay_s: float = 0.0
    bytes_per_s: float | None = None
    cut_after: int | None = None
    count: int = 0
    pieces: int = 0
    before: Callable[[int], None] | None = None


@dataclass(slots=True)
class Chain:
    """How long the longest chain of messages is that waited for one another.

    Whatever its sender had got when it sent a message is taken for its cause, so that this is
    never less than what the line's length costs, and the same on a machine that is busy.

    Attributes:
        up, down: the trips, both ways counted, of the longest whose last one goes that way.
    """

    up: int = 0
    down: int = 0

    @property
    def round_trips(self) -> float:
        """Until the client had all that it waited for."""
        return self.down / 2


@dataclass(slots=True, kw_only=True)
class Proxy:
    """Listens on ``port`` and connects each client to ``target``. A context manager.

    ``up`` is client to server and ``down`` is server to client; both may be changed while
    connections are open. ``connections`` counts all that there ever were. ``chain`` is of the
    connections made since it was set.
    """

    target: tuple[str, int]
    up: Direction = field(default_factory=Direction)
    down: Direction = field(default_factory=Direction)
    chain: Chain = field(init=False, default_factory=Chain)
    port: int = field(init=False, default=0)
    connections: int = field(init=False, default=0)
    _listener: socket.socket = field(init=False)
    _open: list[socket.socket] = field(init=False, default_factory=list)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)
    _silent: threading.Event = field(init=False, default_factory=threading.Event)
    _refusing: threading.Event = field(init=False, default_factory=threading.Event)
    _threads: list[threading.Thread] = field(init=False, default_factory=list)

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._spawn(self._accept)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Wakes the thread in accept(), which closing alone would not.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join(10)

    def cut(self) -> None:
        """Reset every open connection, on both sides. New ones are taken."""
        with self._lock:
            gone, self._open = self._open, []
        for end in gone:
            _reset(end)

    def end(self) -> None:
        """End every open connection in order, on both sides. New ones are taken."""
        with self._lock:
            for end in self._open:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
            self._open = []

    def fall_silent(self) -> None:
        """Swallow all that comes from now on, both ways; nobody is told."""
        self._silent.set()

    def refuse(self) -> None:
        """Reset every open connection, and each new one at once."""
        self._refusing.set()
        self.cut()

    def recover(self) -> None:
        """Take connections and pass bytes again. What was swallowed stays lost."""
        self._silent.clear()
        self._refusing.clear()

    def _spawn(self, work: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=work, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._refusing.is_set():
                _reset(client)
                continue
            try:
                server = socket.create_connection(self.target, timeout=10)
            except OSError:
                _reset(client)
                continue
            server.settimeout(None)
            self.connections += 1
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._open += [client, server]
            chain = self.chain
            self._join(client, server, self.up, chain)
            self._join(server, client, self.down, chain)

    def _join(
        self, source: socket.socket, sink: socket.socket, way: Direction, chain: Chain
    ) -> None:
        # Bounded, so that a sender feels a slow link as it would a real one.
        road: queue.Queue[_Load] = queue.Queue(64)
        self._spawn(self._read, source, road, way, chain)
        self._spawn(self._write, sink, road, way, chain)

    def _read(
        self, source: socket.socket, road: queue.Queue[_Load], way: Direction, chain: Chain
    ) -> None:
        free_at = 0.0
        with contextlib.suppress(OSError):
            while data := source.recv(_CHUNK):
                free_at = max(time.monotonic(), free_at)
                if way.bytes_per_s is not None:
                    free_at += len(data) / way.bytes_per_s
                led = chain.down if way is self.up else chain.up
                road.put((free_at + way.delay_s, led + 1, data))
        road.put(_END)

    def _write(
        self, sink: socket.socket, road: queue.Queue[_Load], way: Direction, chain: Chain
    ) -> None:
        broken = False
        while (item := road.get()) != _END:
            due, trips, data = item
            time.sleep(max(0.0, due - time.monotonic()))
            way.pieces += 1
            if way.before is not None:
                way.before(way.pieces)
            if broken or self._silent.is_set():
                continue
            cut = way.cut_after is not None and way.count + len(data) >= way.cut_after
            if cut and way.cut_after is not None:
                data = data[: max(0, way.cut_after - way.count)]
            # Before it is there: the answer must not be quicker than the count.
            if way is self.up:
                chain.up = max(chain.up, trips)
            else:
                chain.down = max(chain.down, trips)
            try:
                sink.sendall(data)
                way.count += len(data)
            except OSError:
                broken = True
            if cut:
                way.cut_after = None
                self.cut()
        # After a cut an orderly end must not come before the reset.
        with self._lock, contextlib.suppress(OSError):
            if sink in self._open and not self._silent.is_set():
                sink.shutdown(socket.SHUT_WR)


def _reset(end: socket.socket) -> None:
    """Close so that the other side sees a reset instead of an orderly end."""
    with contextlib.suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    # A thread in recv() holds the connection open until it is woken.
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RD)
    end.close()
