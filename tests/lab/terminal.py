"""A program on a real terminal of its own, typed to and watched by a test."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

# In a new session the terminal must be claimed before the program may use it as its own.
_CLAIM = (
    "import fcntl, os, sys, termios;"
    "fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
    "os.execvp(sys.argv[1], sys.argv[1:])"
)


@dataclass(slots=True, kw_only=True)
class Terminal:
    """The keyboard and the screen. ``seen`` is all that was written to it so far."""

    process: subprocess.Popen[bytes]
    leader: int
    seen: str = field(default="")

    def type(self, text: str) -> None:
        """Type. A newline is the enter key; ``\\x02d`` is what detaches from tmux."""
        os.write(self.leader, text.replace("\n", "\r").encode())

    def resize(self, columns: int, rows: int) -> None:
        """Change the size of the window; the program is told by SIGWINCH."""
        fcntl.ioctl(self.leader, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def wait_for(self, pattern: str, timeout_s: float = 20) -> str:
        """Wait until the text of a regular expression was seen, and return that text.

        Raises:
            TimeoutError: it was not, with what was seen instead.
        """
        until = time.monotonic() + timeout_s
        while not (found := re.search(pattern, self.seen)):
            if not self._read(until):
                raise TimeoutError(f"no {pattern!r} in {self.seen!r}")
        return found[0]

    def wait(self, timeout_s: float = 20) -> int:
        """Wait for the program's end, while reading what it writes; its exit code."""
        until = time.monotonic() + timeout_s
        while self._read(until):
            pass
        return self.process.wait(max(0.1, until - time.monotonic()))

    def _read(self, until: float) -> bool:
        """Read some; False when the time is over, or nothing will come any more."""
        if not select.select([self.leader], [], [], max(0.0, until - time.monotonic()))[0]:
            return False
        try:
            data = os.read(self.leader, 65536)
        except OSError:  # EIO: nobody has the terminal open any more
            return False
        self.seen += data.decode(errors="replace")
        return bool(data)


@contextmanager
def on_terminal(
    words: Sequence[str | os.PathLike[str]],
    *,
    env: Mapping[str, str] | None = None,
    columns: int = 80,
    rows: int = 24,
) -> Iterator[Terminal]:
    """Run a program on a new terminal of that size; it is killed in the end if need be."""
    leader, follower = pty.openpty()
    try:
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        process = subprocess.Popen(
            [sys.executable, "-ISc", _CLAIM, *words],
            stdin=follower,
            stdout=follower,
            stderr=follower,
            start_new_session=True,
            env=env,
        )
        os.close(follower)
        try:
            yield Terminal(process=process, leader=leader)
        finally:
            process.kill()
            process.wait(10)
    finally:
        os.close(leader)
