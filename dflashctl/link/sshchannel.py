"""Programs and files over an ssh connection: Paramiko's channels, each wait with a deadline."""

from __future__ import annotations

import contextlib
import logging
import shlex
import threading
import time
from typing import TYPE_CHECKING

from dflashctl.errors import DflashError, MissingTool, Unreachable
from dflashctl.link.dial import in_words
from dflashctl.link.local import NOT_FOUND
from dflashctl.link.streams import DrainedTail
from dflashctl.link.terminal import terminal_on
from dflashctl.link.transport import NoFileChannel, NoScp, Progress, Words

if TYPE_CHECKING:
    from pathlib import Path

    import paramiko

    from dflashctl.inventory.model import SshAddress
    from dflashctl.link.ssh import SshHost

_log = logging.getLogger("dflashctl.link")

_ANSWER_S = 30.0
_STALL_S = 30.0
_COPY_STALL_S = 60.0
_PIECE = 1 << 16
_COPY_PIECE = 1 << 18
_CANNOT_RUN = 126


class SshTransport:
    """Reaches a target through its own sshd."""

    def __init__(self, host: SshHost, address: SshAddress, target: str) -> None:
        self._host, self._address, self._target = host, address, target

    def start(self, words: Words) -> SshChannel:
        """Start a program; the remote shell parses the joined words once."""
        from paramiko.ssh_exception import SSHException

        channel = self._host.session(self._target)
        place = self._host.hop.place
        try:
            with _Watchdog(channel.get_transport(), _ANSWER_S):
                channel.exec_command(shlex.join(words))
        except (SSHException, OSError, EOFError) as error:
            channel.close()
            reason = f"it ran no command: {in_words(error)}"
            raise Unreachable(target=self._target, address=place, reason=reason) from error
        return SshChannel(channel, place)

    def send_file(self, source: Path, folder: str, name: str, progress: Progress) -> None:
        """By scp, on a channel of its own."""
        self.send_by_scp(("scp",), source, folder, name, progress)

    def send_by_scp(
        self, scp: Words, source: Path, folder: str, name: str, progress: Progress
    ) -> None:
        """By the program that the words ``scp`` start over there.

        Raises:
            NoScp: there is no such program.
            NoFileChannel: no second channel, or scp could not do it.
            ConnectionError: the connection is gone.
        """
        from paramiko.ssh_exception import ChannelException, SSHException
        from scp import SCPClient, SCPException

        transport = self._host.transport(self._target)
        total = source.stat().st_size
        with _Watchdog(transport, _COPY_STALL_S) as watchdog, source.open("rb") as content:

            def moved(_name: bytes, _size: int, sent: int) -> None:
                watchdog.moved()
                progress(min(sent, total), total)

            client = SCPClient(transport, _COPY_PIECE, _COPY_STALL_S, moved)
            client.scp_command = shlex.join(scp).encode()
            try:
                client.putfo(content, f"{folder}/{name}", mode="0600", size=total)
            except ChannelException as error:
                raise NoFileChannel(error.text) from error
            except (SCPException, SSHException, OSError, EOFError) as error:
                code = _exit_code(client.channel, 1.0) if client.channel is not None else None
                _log.debug("%s: scp failed with %s: %s", self._target, code, in_words(error))
                if not transport.is_active():
                    raise ConnectionError(in_words(error)) from error
                if code in (NOT_FOUND, _CANNOT_RUN):
                    raise NoScp(in_words(error)) from error
                raise NoFileChannel(in_words(error)) from error
            finally:
                if client.channel is not None:
                    client.channel.close()

    def terminal_words(self, words: Words) -> Words:
        """The system's ssh with a terminal."""
        return terminal_on(self._address, words)

    def explain_silence(self, exit_code: int | None, stderr: str) -> DflashError | None:
        """Exit code 127 of ``env``: there is no such interpreter."""
        if exit_code == NOT_FOUND:
            return MissingTool(target=self._target, tool="python3", detail=stderr.strip())
        return None

    def close(self) -> None:
        """The connection is shared: whoever made the host closes it."""


class SshChannel:
    """A program behind sshd. Its standard error is drained from the start."""

    def __init__(self, channel: paramiko.Channel, name: str) -> None:
        self._channel = channel
        self._transport = channel.get_transport()
        self._tail = DrainedTail(lambda: channel.recv_stderr(_PIECE), name)

    def read(self, timeout_s: float) -> bytes:
        """Some bytes of its standard output; b"" at its end."""
        self._channel.settimeout(timeout_s)
        data = self._channel.recv(_PIECE)
        if not data and not self._channel.eof_received and not self._transport.is_active():
            raise ConnectionError("the connection is gone")
        return data

    def write(self, data: bytes) -> None:
        """All of ``data``; a connection that takes none of it for 30 s is closed."""
        self._channel.settimeout(_STALL_S)
        try:
            with _Watchdog(self._transport, _STALL_S) as watchdog:
                for start in range(0, len(data), _PIECE):
                    self._channel.sendall(data[start : start + _PIECE])
                    watchdog.moved()
        except (OSError, EOFError) as error:
            raise ConnectionError(in_words(error)) from error

    def close_input(self) -> None:
        """End of its standard input."""
        with contextlib.suppress(OSError, EOFError):
            self._channel.shutdown_write()

    def stderr_tail(self) -> str:
        """The last part of its standard error."""
        over = self._channel.closed or self._channel.exit_status_ready()
        return self._tail.text(1.0 if over else 0.0)

    def exit_code(self, timeout_s: float) -> int | None:
        """Its exit code; None when it is not known then, or a signal ended it."""
        return _exit_code(self._channel, timeout_s)

    def close(self) -> None:
        """Close the channel; the program sees the end of its input."""
        with contextlib.suppress(OSError, EOFError):
            self._channel.close()


class _Watchdog:
    """Closes a connection on which a call gets nowhere, so that the call fails at last."""

    def __init__(self, transport: paramiko.Transport, stall_s: float) -> None:
        self._transport, self._stall_s = transport, stall_s
        self._moved = time.monotonic()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="ssh watchdog", daemon=True)

    def moved(self) -> None:
        """It got somewhere: the time begins anew."""
        self._moved = time.monotonic()

    def __enter__(self) -> _Watchdog:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()

    def _watch(self) -> None:
        while (left := self._moved + self._stall_s - time.monotonic()) > 0:
            if self._done.wait(left):
                return
        _log.debug("nothing moved for %s s: the connection is closed", self._stall_s)
        self._transport.close()


def _exit_code(channel: paramiko.Channel, timeout_s: float) -> int | None:
    channel.status_event.wait(timeout_s)
    return channel.exit_status if channel.exit_status >= 0 else None
