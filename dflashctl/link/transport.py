"""What a way to a target must be able to do; ``local``, ``ssh`` and ``container`` do it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from dflashctl.errors import DflashError

Words = tuple[str, ...]
# Called with the bytes sent so far and the bytes in all.
Progress = Callable[[int, int], None]


class NoFileChannel(Exception):
    """This way has no channel for files; send them over the agent's own channel."""


class NoScp(NoFileChannel):
    """There is no scp program on the target."""


class Channel(Protocol):
    """A process on the target: its standard streams and its end."""

    def read(self, timeout_s: float) -> bytes:
        """Some bytes of its standard output; b"" when that is closed.

        Standard error is drained meanwhile. Raises TimeoutError after ``timeout_s``
        seconds of silence, and ConnectionError when the connection is gone.
        """

    def write(self, data: bytes) -> None:
        """All of ``data`` to its standard input. Raises ConnectionError when it is gone."""

    def close_input(self) -> None:
        """End of its standard input."""

    def stderr_tail(self) -> str:
        """The last part of its standard error, for messages; never for decisions."""

    def exit_code(self, timeout_s: float) -> int | None:
        """Its exit code; None when it is not known within ``timeout_s``."""

    def close(self) -> None:
        """Let go of it. A process that reads its input sees the end of it."""


class Transport(Protocol):
    """A way to start programs on one target and to bring files there."""

    def start(self, words: Words) -> Channel:
        """Start a program there: an argv, never shell text."""

    def send_file(self, source: Path, folder: str, name: str, progress: Progress) -> None:
        """Bring a file into an existing folder there. Raises NoFileChannel."""

    def terminal_words(self, words: Words) -> Words:
        """An argv that, run here, runs ``words`` there on a real terminal."""

    def explain_silence(self, exit_code: int | None, stderr: str) -> DflashError | None:
        """Why a program there gave no greeting, if this way can tell; else None."""

    def close(self) -> None:
        """Close all that was opened. May be called again."""
