"""One ssh connection and the sessions on it: Paramiko, with one error for all that breaks.

Paramiko raises SSHException, EOFError or OSError out of whatever it sends, be it a receipt or
a goodbye, and waits without end here and there. Everything that goes over a connection passes
through here, so that a break is a ConnectionError, and each wait has a deadline.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

from paramiko.ssh_exception import AuthenticationException, ChannelException, SSHException
from paramiko.transport import ServiceRequestingTransport

from dflashctl.link.dial import in_words
from dflashctl.link.sshlogin import Foreseen, Login, service_request

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import paramiko

    from dflashctl.link.deadlines import Deadlines

_log = logging.getLogger("dflashctl.link")

_PIECE = 1 << 16
# What Paramiko's thread needs to notice and to tell that a connection is gone.
_NOTICE_S = 1.0
_PAUSE_S = 0.05


class SessionRefusedError(Exception):
    """The server opens no further channel; the connection is well."""


class TurnedAwayError(ConnectionError):
    """The server hung up before it said what it is, as one does that has no room (MaxStartups)."""


class Wire(ServiceRequestingTransport):
    """A connection to one sshd.

    Every call raises ConnectionError when the connection is gone, or nothing moves on it.
    """

    def __init__(
        self, sock: Any, beneath: Wire | None, deadlines: Deadlines, **options: Any
    ) -> None:
        """``beneath``: the connection that ``sock`` is a tunnel through."""
        super().__init__(sock, **options)
        self.beneath, self.deadlines = beneath, deadlines
        self.banner_timeout = deadlines.banner_s
        # Paramiko's own deadlines come second: they do not say what they are.
        self.handshake_timeout = 2 * deadlines.handshake_s
        self.auth_timeout = 2 * deadlines.answer_s
        self.channel_timeout = 2 * deadlines.answer_s
        self._words = self._stalled = ""
        self._cause: Exception | None = None
        self._foresees = False
        self._foreseen: list[Foreseen] = []

    def start_client(
        self, event: threading.Event | None = None, timeout: float | None = None
    ) -> None:
        """Agree on keys with the server. Raises TurnedAwayError, too."""
        with self.breaks(), Watchdog(self, timeout or self.deadlines.handshake_s):
            try:
                super().start_client(event)
            except (SSHException, OSError, EOFError) as error:
                cause = self._why() or error
                hung_up = isinstance(cause.__context__ or cause, EOFError | ConnectionError)
                if self.remote_version or self._stalled or not hung_up:
                    raise
                raise TurnedAwayError(in_words(cause)) from error

    def foresee(self) -> None:
        """The next key is sure to be accepted: a first session is asked for along with it."""
        self._foresees = True

    def ensure_session(self) -> None:
        """Ask for the login service, once. Whatever the answer, a login may follow at once."""
        if not self.is_active() or not self.initial_kex_done:
            raise SSHException("there is no connection")
        if self.auth_handler is None:
            self.auth_handler = Login(self, self._on_login)
            transport: Any = self  # Paramiko's own sending is not in its stubs
            transport._send_message(service_request())

    def _on_login(self) -> None:
        if self._foresees:
            self._foreseen.append(Foreseen(self.open_session))

    def offer(self, user: str, key: paramiko.PKey) -> list[str]:
        """Offer a key.

        Returns:
            What the server also wants; empty: we are in.

        Raises:
            AuthenticationException: the server does not take it.
            SSHException: the key cannot be used.
        """
        try:
            with Watchdog(self, self.deadlines.answer_s):
                return list(self.auth_publickey(user, key))
        except (SSHException, OSError, EOFError) as error:
            if self.is_active():
                raise
            cause = self._why()
            if self._words:
                raise AuthenticationException(self._words) from error
            if self._stalled or cause is None or not isinstance(cause, SSHException):
                raise self.broken() from error
            # Paramiko signs in its thread; what fails there ends the connection.
            raise cause from error

    def session(self) -> Session:
        """A session for one program. Raises SessionRefusedError."""
        with self._opening():
            try:
                foreseen = self._foreseen.pop()
            except IndexError:
                return Session(self, self.open_session())
            return Session(self, foreseen.channel())

    def tunnel(self, host: str, port: int) -> Tunnel:
        """A connection from the server to somewhere else. Raises SessionRefusedError."""
        with self._opening():
            return Tunnel(self, self.open_channel("direct-tcpip", (host, port), ("", 0)))

    @contextlib.contextmanager
    def _opening(self) -> Iterator[None]:
        """What Paramiko raises in here on a connection that is well is a refusal.

        It keeps one reason for all: of those who are refused at once, one is told it.
        """
        with self.breaks(), Watchdog(self, self.deadlines.answer_s):
            try:
                yield
            except ChannelException as error:
                raise SessionRefusedError(error.text) from error
            except SSHException as error:
                if self._stalled or not self.is_active():
                    raise
                raise SessionRefusedError(in_words(error)) from error

    @contextlib.contextmanager
    def breaks(self) -> Iterator[None]:
        """Whatever Paramiko raises in here because of a break is a ConnectionError."""
        try:
            yield
        except ConnectionError:
            raise
        except (SSHException, OSError, EOFError) as error:
            raise self.broken(error) from error

    def broken(self, error: BaseException | None = None) -> ConnectionError:
        """The error that tells of a break, in the words that say most."""
        cause = self._why() or error
        said = self._words and f"it said: {self._words}"
        known = said or self._stalled or (in_words(cause) if cause is not None else "")
        return ConnectionError(known or "the connection was closed")

    def has_broken(self) -> bool:
        """Whether the connection is gone, after a sign that it may be."""
        if self is not threading.current_thread():
            self.join(_NOTICE_S)
        return not self.is_active()

    def sever(self, why: str) -> None:
        """Cut it, without a goodbye: whoever waits for it waits no longer."""
        self._stalled = self._stalled or why
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close it, in peace where that can be had."""
        with (
            contextlib.suppress(SSHException, OSError, EOFError),
            Watchdog(self, self.deadlines.farewell_s),
        ):
            super().close()

    def get_exception(self) -> Exception | None:
        """What ended the connection: SSHException, OSError or EOFError, whatever was sent."""
        error = super().get_exception()
        if error is not None and not isinstance(error, SSHException | OSError | EOFError):
            nonsense = SSHException(f"it sent nonsense ({type(error).__name__}: {error})")
            nonsense.__cause__ = error
            error = nonsense
        if not isinstance(error, ChannelException):  # which ends no connection
            self._cause = error or self._cause
        return error

    def _why(self) -> Exception | None:
        # Paramiko forgets it when it has told it once.
        return self.get_exception() or self._cause

    def _parse_disconnect(self, message: paramiko.Message) -> None:
        message.get_int()
        self._words = message.get_text().strip()


class Session:
    """A program's channel."""

    def __init__(self, wire: Wire, channel: paramiko.Channel) -> None:
        self.wire, self._channel = wire, channel

    def run(self, command: str) -> None:
        """Start the program. Raises SessionRefusedError: the server starts none."""
        with self.wire.breaks(), Watchdog(self.wire, self.wire.deadlines.answer_s):
            try:
                self._channel.exec_command(command)  # words, joined with shlex.join  # nosec B601
            except SSHException as error:
                if self.wire.has_broken():
                    raise
                raise SessionRefusedError(in_words(error)) from error

    def read(self, timeout_s: float) -> bytes:
        """Some bytes of its standard output; b"" at its end. Raises TimeoutError."""
        with self.wire.breaks():
            self._channel.settimeout(timeout_s)
            data = self._piece(self._channel.recv)
        if data is None:
            raise TimeoutError(f"no output for {timeout_s} s")
        self._check_end(data)
        return data

    def read_stderr(self) -> bytes:
        """Some bytes of its standard error, waiting for them; b"" at its end."""
        with self.wire.breaks():
            # The channel's deadline is that of whoever reads the standard output.
            while (data := self._piece(self._channel.recv_stderr)) is None:
                time.sleep(_PAUSE_S)
        return data

    def write(self, data: bytes) -> None:
        """All of ``data``; a connection that takes none of it for a while is cut."""
        self.stream((data,))

    def stream(self, pieces: Iterable[bytes], stall_s: float | None = None) -> None:
        """Piece after piece; a connection that takes none of it for ``stall_s`` is cut."""
        stall_s = stall_s or self.wire.deadlines.stall_s
        with self.wire.breaks(), Watchdog(self.wire, stall_s) as watchdog:
            self._channel.settimeout(stall_s)
            for piece in pieces:
                for start in range(0, len(piece), _PIECE):
                    self._channel.sendall(piece[start : start + _PIECE])
                    watchdog.moved()

    def close_input(self) -> None:
        """End of its standard input."""
        with self._farewell():
            self._channel.shutdown_write()

    def is_over(self) -> bool:
        """Whether the program has ended, or the channel has."""
        return self._channel.closed or self._channel.exit_status_ready()

    def exit_code(self, timeout_s: float) -> int | None:
        """Its exit code; None when it is not known then, or a signal ended it."""
        self._channel.status_event.wait(timeout_s)
        return self._channel.exit_status if self._channel.exit_status >= 0 else None

    def close(self) -> None:
        """Close the channel; the program sees the end of its input."""
        with self._farewell():
            self._channel.close()

    @contextlib.contextmanager
    def _farewell(self) -> Iterator[None]:
        with (
            contextlib.suppress(SSHException, OSError, EOFError),
            Watchdog(self.wire, self.wire.deadlines.farewell_s),
        ):
            yield

    def _piece(self, receive: Any) -> bytes | None:
        """None: nothing came in time."""
        try:
            data: bytes = receive(_PIECE)
        except TimeoutError:
            return None
        return data

    def _check_end(self, data: bytes) -> None:
        if not data and not self._channel.eof_received and self.wire.has_broken():
            raise self.wire.broken()


class Tunnel:
    """What Paramiko takes for the socket of a connection through another one."""

    def __init__(self, wire: Wire, channel: paramiko.Channel) -> None:
        self._wire, self._channel = wire, channel
        self._shut = False

    def settimeout(self, timeout_s: float | None) -> None:
        """As a socket's."""
        self._channel.settimeout(timeout_s)

    def recv(self, size: int) -> bytes:
        """As a socket's. Raises TimeoutError, ConnectionError."""
        with self._quick():
            return b"" if self._shut else self._channel.recv(size)

    def send(self, data: bytes) -> int:
        """As a socket's. Raises TimeoutError, ConnectionError."""
        if self._shut:
            raise BrokenPipeError("it was cut")
        with self._quick():
            return self._channel.send(data)

    def shutdown(self, _how: int) -> None:
        """Cut it: what comes or is sent from now on is the end."""
        self._shut = True

    def close(self) -> None:
        """As a socket's."""
        self._shut = True
        with contextlib.suppress(SSHException, OSError, EOFError):
            self._channel.close()

    def getpeername(self) -> Any:
        """That of the connection it goes through."""
        return self._channel.getpeername()

    @property
    def _closed(self) -> bool:
        # Paramiko asks its sockets for it.
        return self._shut or self._channel.closed

    @contextlib.contextmanager
    def _quick(self) -> Iterator[None]:
        try:
            yield
        except TimeoutError:
            raise
        except (SSHException, OSError, EOFError) as error:
            raise self._wire.broken(error) from error


class Watchdog:
    """Cuts a connection on which a call gets nowhere, so that the call fails at last."""

    def __init__(self, wire: Wire, stall_s: float) -> None:
        self._wire, self._stall_s = wire, stall_s
        self._moved = time.monotonic()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="ssh watchdog", daemon=True)

    def moved(self) -> None:
        """It got somewhere: the time begins anew."""
        self._moved = time.monotonic()

    def __enter__(self) -> Watchdog:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()

    def _watch(self) -> None:
        while (left := self._moved + self._stall_s - time.monotonic()) > 0:
            if self._done.wait(left):
                return
        _log.debug("nothing moved for %s s: the connection is cut", self._stall_s)
        wire: Wire | None = self._wire
        # A call may hang in what a tunnel leads through, as well; others share that.
        while wire is not None and not self._done.is_set():
            wire.sever(f"nothing moved for {self._stall_s:g} s")
            self._done.wait(_NOTICE_S)
            wire = wire.beneath
