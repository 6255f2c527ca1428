"""Root by sudo, where the user we log in as is another: each command is a little longer.

Whether sudo wants a password shows in its prompt, which is a word of our own making; the
answer goes to its standard input, and what follows there is the program's.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from typing import TYPE_CHECKING

from dflashctl.errors import DflashError, LinkLost, MissingTool, SudoRefused
from dflashctl.link.local import NOT_FOUND
from dflashctl.link.transport import Channel, NoFileChannel, NoScp, Progress, Words

if TYPE_CHECKING:
    from pathlib import Path

    from dflashctl.link.asking import Asker
    from dflashctl.link.container import HostTransport

WITHOUT_PASSWORD: Words = ("sudo", "-n", "--")
_POLL_S = 0.05
_EXIT_S = 5.0
# What sudo itself ends with when it refuses.
_REFUSED = 1


class SudoTransport:
    """The way to a host on which everything is done as root."""

    def __init__(self, plain: HostTransport, account: str, asker: Asker, wait_s: float) -> None:
        """``account``: ``user@host``. ``wait_s``: how long a program may say nothing at first."""
        self.plain = plain
        self._account, self._asker, self._wait_s = account, asker, wait_s
        self._wants_password = False

    def start(self, words: Words) -> Channel:
        """Start a program as root, and wait for its first output or its end.

        Raises:
            SudoRefused: sudo does not let us, or wants a password that nobody gives.
            MissingTool: there is no sudo.
        """
        mark = f"dflashctl-{secrets.token_hex(8)}:"
        channel = self.plain.start(("sudo", "-S", "-p", mark, "--", *words))
        try:
            said = self._past_sudo(channel, mark)
            if said == b"":
                self._check_let(channel, mark, words)
        except ConnectionError as error:
            channel.close()
            where = self._account
            raise LinkLost(target=where, address=where, reason=str(error)) from error
        except BaseException:
            channel.close()
            raise
        return _Begun(channel, said, mark)

    def send_file(self, source: Path, folder: str, name: str, progress: Progress) -> None:
        """By scp as root."""
        self.send_by_scp(("scp",), source, folder, name, progress)

    def send_by_scp(
        self, scp: Words, source: Path, folder: str, name: str, progress: Progress
    ) -> None:
        """The same; where sudo wants a password, scp has no place for it.

        Raises:
            NoFileChannel: over the agent's own channel, then.
        """
        if self._wants_password:
            raise NoFileChannel("sudo wants a password")
        try:
            self.plain.send_by_scp((*WITHOUT_PASSWORD, *scp), source, folder, name, progress)
        except NoScp as error:
            # By way of the host, root would read files that its user can exchange.
            raise NoFileChannel(str(error)) from error

    def terminal_words(self, words: Words) -> Words:
        """The host's terminal, on which sudo asks by itself."""
        return self.plain.terminal_words(("sudo", "--", *words))

    def explain_silence(self, exit_code: int | None, stderr: str) -> DflashError | None:
        """As the host itself: that sudo let us was seen when the program was started."""
        return self.plain.explain_silence(exit_code, stderr)

    def close(self) -> None:
        """The host's connection is the host's to close."""
        self.plain.close()

    def _past_sudo(self, channel: Channel, mark: str) -> bytes | None:
        """The program's first output; b"" at its end; None: it says nothing for now."""
        until, asked, password = time.monotonic() + self._wait_s, 0, None
        while time.monotonic() < until:
            with contextlib.suppress(TimeoutError):
                return channel.read(_POLL_S)
            if channel.stderr_tail().count(mark) > asked:
                asked += 1
                self._wants_password = True
                password = self._asker.password(self._account, password)
                if password is None:
                    raise self._refused("it wants a password, and there is no terminal to ask on")
                if not password:
                    raise self._refused("it wants a password, and none was given")
                channel.write(password.encode() + b"\n")
                until = time.monotonic() + self._wait_s
        return None

    def _check_let(self, channel: Channel, mark: str, words: Words) -> None:
        """It ended in silence: was it sudo that refused?"""
        code = channel.exit_code(_EXIT_S)
        if code not in (_REFUSED, NOT_FOUND):
            return
        said = channel.stderr_tail().replace(mark, "").strip().splitlines()[-1:]
        # `sudo -l` with a command tells by its exit code whether it is allowed.
        ask = self.plain.start(("sudo", "-S", "-p", mark, "-l", "--", *words))
        try:
            while self._past_sudo(ask, mark):
                pass
            may = ask.exit_code(_EXIT_S)
        finally:
            ask.close()
        if may == NOT_FOUND:
            raise MissingTool(target=self._account, tool="sudo", detail="; ".join(said))
        if may != 0:
            raise self._refused("; ".join(said) or "it does not let this user")

    def _refused(self, reason: str) -> SudoRefused:
        user, _, host = self._account.rpartition("@")
        return SudoRefused(target=host, user=user, address=host, reason=reason)


class _Begun:
    """A program that sudo has started, with what it has said so far. None: nothing yet."""

    def __init__(self, channel: Channel, said: bytes | None, mark: str) -> None:
        self._channel, self._said, self._mark = channel, said, mark

    def read(self, timeout_s: float) -> bytes:
        """Some bytes of its standard output; b"" at its end."""
        if self._said is None:
            return self._channel.read(timeout_s)
        said, self._said = self._said, None
        return said

    def write(self, data: bytes) -> None:
        """All of ``data`` to its standard input."""
        self._channel.write(data)

    def close_input(self) -> None:
        """End of its standard input."""
        self._channel.close_input()

    def stderr_tail(self) -> str:
        """The last part of its standard error, without sudo's prompt."""
        return self._channel.stderr_tail().replace(self._mark, "")

    def exit_code(self, timeout_s: float) -> int | None:
        """Its exit code; None when it is not known then."""
        return self._channel.exit_code(timeout_s)

    def close(self) -> None:
        """Let go of it."""
        self._channel.close()
