"""tmux, on the machine where it is. Sessions are named exactly.

What changes something goes through libtmux. A question is asked of tmux itself: it is in
every look, and libtmux takes longer to load than the whole rest of a look takes.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from dflashctl.agent import process
from dflashctl.agent.failures import AgentError
from dflashctl.agent.process import Process

if TYPE_CHECKING:
    from libtmux import Server
    from libtmux.common import tmux_cmd

WIDTH, HEIGHT = 200, 50
SERVER_EXIT_S = 10.0
REVIVE_S = 2.0
CALL_S = 10.0
# The name comes last, since it alone may hold blanks.
_FORMAT = "#{pid} #{pane_pid} #{session_created} #{session_attached} #{session_name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pane:
    """One pane of a session: its first process, and the tmux server that holds it."""

    server: Process
    pid: int
    created_at: float
    attached: int
    session: str


class Tmux:
    """The tmux server of this user at one socket."""

    def __init__(self, socket: str | None) -> None:
        """``socket``: a name, or a path if it holds a slash; None: the user's default."""
        self._socket = socket

    @cached_property
    def _server(self) -> Server:
        from libtmux import Server  # 60 ms that few requests need

        if self._socket and "/" in self._socket:
            return Server(socket_path=self._socket)
        return Server(socket_name=self._socket or "default")

    @staticmethod
    def version() -> str | None:
        """What ``tmux -V`` says; None when there is no tmux."""
        if shutil.which("tmux") is None:
            return None
        lines = _asked("-V")
        return lines[0].removeprefix("tmux ") if lines else "unknown"

    def _ask(self, *words: str) -> list[str]:
        """The lines that tmux answers a question with; none when no server runs."""
        socket = self._socket or "default"
        return _asked("-S" if "/" in socket else "-L", socket, *words)

    def _cmd(self, name: str, *words: str) -> tmux_cmd:
        # tmux reads an argument that ends in ";" as the end of a command.
        safe = (f"{w[:-1]}\\;" if w.endswith(";") and w != ";" else w for w in words)
        with _within(CALL_S):
            return self._server.cmd(name, *safe)

    def panes(self) -> tuple[Pane, ...]:
        """All panes of the server; none when it does not run or cannot be reached."""
        if shutil.which("tmux") is None:
            return ()
        found = []
        for line in self._ask("list-panes", "-a", "-F", _FORMAT):
            part = line.split(" ", 4)
            server = process.look(int(part[0]))
            if server is not None:
                found.append(
                    Pane(
                        server=server.process,
                        pid=int(part[1]),
                        created_at=float(part[2]),
                        attached=int(part[3]),
                        session=part[4],
                    )
                )
        return tuple(found)

    def session(self, name: str) -> tuple[Pane, ...]:
        """The panes of the session by exactly this name."""
        return tuple(pane for pane in self.panes() if pane.session == name)

    def revive(self, server: Process) -> None:
        """Ask a server whose socket was cleaned away to make it anew, and wait until it has."""
        process.send(server, signal.SIGUSR1)
        deadline = time.monotonic() + REVIVE_S
        while not self.panes() and process.is_alive(server) and time.monotonic() < deadline:
            time.sleep(process.POLL_S)

    def start(self, name: str, words: tuple[str, ...], pipe: str) -> None:
        """A detached session running ``words``, all of its output going to ``pipe``.

        It is one command list, so that tmux begins the pipe before it reads the first
        line. ``pipe`` is shell text (tmux takes nothing else); ``%`` and ``#``, which
        tmux would expand in it, are escaped here.

        Raises:
            AgentError: ``start_failed`` with tmux's own words.
        """
        here = f"={name}:"
        literal = pipe.replace("#", "##").replace("%", "%%")
        answer = self._cmd(
            "new-session", "-d", "-s", name, "-x", str(WIDTH), "-y", str(HEIGHT), *words,
            ";", "set-option", "-t", here, "destroy-unattached", "off",
            ";", "set-option", "-w", "-t", here, "remain-on-exit", "off",
            ";", "pipe-pane", "-t", here, literal,
        )  # fmt: skip
        # Some of its failures tmux reports on standard error alone.
        if answer.returncode != 0 or (answer.stderr and not self.session(name)):
            raise AgentError("start_failed", reason="tmux: " + " ".join(answer.stderr))

    def start_beside(self, name: str, words: tuple[str, ...]) -> None:
        """A detached session for a program of ours whose output is for onlookers only.

        Raises:
            AgentError: ``start_failed`` with tmux's own words.
        """
        here = f"={name}:"
        answer = self._cmd(
            "new-session", "-d", "-s", name, "-x", str(WIDTH), "-y", str(HEIGHT), *words,
            ";", "set-option", "-t", here, "destroy-unattached", "off",
            ";", "set-option", "-w", "-t", here, "remain-on-exit", "off",
        )  # fmt: skip
        if answer.returncode != 0:
            raise AgentError("start_failed", reason="tmux: " + " ".join(answer.stderr))

    def close(self, name: str) -> None:
        """End the session by exactly this name, if it is still there."""
        if self.session(name):
            self._cmd("kill-session", "-t", f"={name}")

    def settle(self, server: Process) -> None:
        """After a session's end: if it was the server's last, wait until the server is gone.

        A server that is about to exit still takes a new session, and takes it with it.
        """
        deadline = time.monotonic() + SERVER_EXIT_S
        while process.is_alive(server) and time.monotonic() < deadline:
            if self.panes():
                return
            if self._ask("show-options", "-s", "-v", "exit-empty") == ["off"]:
                return
            time.sleep(process.POLL_S)


def _asked(*words: str) -> list[str]:
    """What tmux says to these words, by line. Raises AgentError: ``no_tmux``, as below."""
    try:
        done = subprocess.run(
            ("tmux", *words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
            errors="backslashreplace",
            timeout=CALL_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _mute(CALL_S) from None
    return done.stdout.split("\n")[:-1]


def _mute(seconds: float) -> AgentError:
    return AgentError("no_tmux", reason=f"its server does not answer within {seconds:g} s")


@contextmanager
def _within(seconds: float) -> Iterator[None]:
    """A deadline for what waits without one; only in the main thread, as signals are.

    Raises:
        AgentError: ``no_tmux``: the server is there and does not answer.
    """

    def late(*_: object) -> None:
        raise _mute(seconds)

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def load_ahead() -> None:
    """Load libtmux, which takes a while, in the time until the next request comes."""

    def load() -> None:
        import libtmux  # noqa: F401 - it is for whoever needs it next

    threading.Thread(target=load, name="libtmux", daemon=True).start()


def leaders(panes: Iterable[Pane], rows: process.Table) -> set[Process]:
    """The panes' first processes that live. A dead pane's pid may be a stranger's by now."""
    found = {rows[p.pid] for p in panes if p.pid in rows and rows[p.pid].parent == p.server.pid}
    return {row.process for row in found}


def clean_environment() -> None:
    """Forget what would lead tmux to another server or into its sessions."""
    for name in ("TMUX", "TMUX_PANE", "TMUX_TMPDIR"):
        os.environ.pop(name, None)
