"""A command as a step of a transaction: with a deadline, its last output kept."""

from __future__ import annotations

import os
import pwd
import select
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress

from dflashctl.agent import login, runs
from dflashctl.agent.failures import AgentError
from dflashctl.agent.protocol import ExecuteCommand

# Of the output, from its end; what came before is gone.
KEPT = 64 << 10
LINES = 20
NOTE_EVERY_S = 1.0
TERM_S = 5.0
# What a command left behind may hold its output open; it is not waited for.
DRAIN_S = 1.0


def execute(action: ExecuteCommand, note: Callable[[str], None]) -> str:
    """Run it to its end; what it printed last. ``note`` hears its newest line now and then.

    Raises:
        AgentError: ``command_failed`` with ``exit_code`` or ``signal``, ``after_s`` and
            the last lines; ``reason`` where it could not be started or took too long.
    """
    begun = time.monotonic()
    child = _start(action)
    output = _Output(child, note)
    try:
        reason = None
        if not output.read_until(begun + action.timeout_s):
            reason = f"it took longer than {action.timeout_s:g} s and was ended"
            _end(child, output)
        code = child.wait()
    finally:
        if child.poll() is None:
            _end(child, output)
        output.close()
    if code != 0 or reason is not None:
        raise AgentError(
            "command_failed",
            command=action.command,
            exit_code=code if code >= 0 else None,
            signal=runs.signal_name(-code) if code < 0 else None,
            after_s=round(time.monotonic() - begun, 1),
            reason=reason,
            log=output.lines()[-LINES:],
        )
    return "\n".join(output.lines()[-LINES:])


def _start(action: ExecuteCommand) -> subprocess.Popen[bytes]:
    account = pwd.getpwuid(os.getuid())
    minimal = action.env_base == "minimal"
    base = login.minimal_environment(account) if minimal else login.login_environment(account)
    try:
        return subprocess.Popen(
            action.command,
            env={**base, **action.env},
            cwd=action.cwd or login.home(account),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise AgentError(
            "command_failed",
            command=action.command,
            exit_code=None,
            signal=None,
            after_s=0.0,
            reason=f"it could not be started: {getattr(error, 'strerror', None) or error}",
            log=[],
        ) from error


def _end(child: subprocess.Popen[bytes], output: _Output) -> None:
    """TERM and then KILL to its own group, which lasts as long as it is not waited for."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(child.pid, number)
        if output.read_until(time.monotonic() + TERM_S):
            return


class _Output:
    """What a command prints: the end of it is kept."""

    def __init__(self, child: subprocess.Popen[bytes], note: Callable[[str], None]) -> None:
        assert child.stdout is not None, "it was started with a pipe"
        self._child, self._stream, self._note = child, child.stdout, note
        self._kept, self._noted, self._open = b"", 0.0, True

    def read_until(self, deadline: float) -> bool:
        """Read on until the command is over, or the time; whether it is over."""
        while time.monotonic() < deadline:
            if self._open:
                self._read(min(0.1, max(0.0, deadline - time.monotonic())))
            else:
                time.sleep(0.02)
            if self._over():
                self._drain()
                return True
        return False

    def _over(self) -> bool:
        """Whether it has ended; it stays a zombie, so that its number stays its own."""
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self._child.pid, flags) is not None

    def _drain(self) -> None:
        deadline = time.monotonic() + DRAIN_S
        while self._open and time.monotonic() < deadline:
            self._read(0.05)

    def _read(self, seconds: float) -> None:
        if not select.select([self._stream], [], [], seconds)[0]:
            return
        piece = os.read(self._stream.fileno(), 1 << 16)
        self._open = bool(piece)
        self._kept = (self._kept + piece)[-KEPT:]
        if time.monotonic() - self._noted > NOTE_EVERY_S and (lines := self.lines()):
            self._noted = time.monotonic()
            self._note(lines[-1])

    def lines(self) -> list[str]:
        """The kept lines that are not blank; of one drawn over itself what was last seen."""
        text = self._kept.decode("utf-8", "replace").replace("\r\n", "\n")
        lines = (line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
        return [line for line in lines if line.strip()]

    def close(self) -> None:
        """Let go of the pipe."""
        self._stream.close()
