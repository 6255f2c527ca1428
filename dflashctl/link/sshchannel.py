"""Programs and files over an ssh connection."""

from __future__ import annotations

import logging
import shlex
from typing import TYPE_CHECKING

from dflashctl.errors import DflashError, LinkLost, MissingTool, Unreachable
from dflashctl.link.local import NOT_FOUND
from dflashctl.link.scp import ScpError, send, start
from dflashctl.link.sshwire import Session, SessionRefusedError
from dflashctl.link.streams import DrainedTail
from dflashctl.link.terminal import terminal_on
from dflashctl.link.transport import NoFileChannel, NoScp, Progress, Words

if TYPE_CHECKING:
    from pathlib import Path

    from dflashctl.inventory.model import SshAddress
    from dflashctl.link.ssh import SshHost

_log = logging.getLogger("dflashctl.link")

_EXIT_S = 1.0
_CANNOT_RUN = 126


class SshTransport:
    """Reaches a target through its own sshd."""

    def __init__(self, host: SshHost, address: SshAddress, target: str) -> None:
        self._host, self._address, self._target = host, address, target

    def start(self, words: Words) -> SshChannel:
        """Start a program; the remote shell parses the joined words once."""
        place = self._host.hop.place
        session = self._host.session(self._target)
        try:
            session.run(shlex.join(words))
        except ConnectionError as error:
            raise LinkLost(target=self._target, address=place, reason=str(error)) from error
        except SessionRefusedError as error:
            session.close()
            reason = f"it ran no command: {error}"
            raise Unreachable(target=self._target, address=place, reason=reason) from error
        return SshChannel(session, place)

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
        try:
            session = self._host.spare_session(self._target)
        except SessionRefusedError as error:
            raise NoFileChannel(str(error)) from error
        wire = session.wire
        total = source.stat().st_size
        try:
            with source.open("rb") as content:
                start(session, scp, f"{folder}/{name}")
                send(session, content, total, name, lambda sent: progress(sent, total))
        except (ScpError, ConnectionError, SessionRefusedError, TimeoutError) as error:
            code = session.exit_code(_EXIT_S)
            _log.debug("%s: scp failed with %s: %s", self._target, code, error)
            if wire.has_broken():
                raise wire.broken(error) from error
            if code in (NOT_FOUND, _CANNOT_RUN):
                raise NoScp(str(error)) from error
            raise NoFileChannel(str(error)) from error
        finally:
            session.close()

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

    def __init__(self, session: Session, name: str) -> None:
        self._session = session
        self._tail = DrainedTail(session.read_stderr, name)

    def read(self, timeout_s: float) -> bytes:
        """Some bytes of its standard output; b"" at its end."""
        return self._session.read(timeout_s)

    def write(self, data: bytes) -> None:
        """All of ``data``; a connection that takes none of it for a while is cut."""
        self._session.write(data)

    def close_input(self) -> None:
        """End of its standard input."""
        self._session.close_input()

    def stderr_tail(self) -> str:
        """The last part of its standard error."""
        return self._tail.text(1.0 if self._session.is_over() else 0.0)

    def exit_code(self, timeout_s: float) -> int | None:
        """Its exit code; None when it is not known then, or a signal ended it."""
        return self._session.exit_code(timeout_s)

    def close(self) -> None:
        """Close the channel; the program sees the end of its input."""
        self._session.close()
