"""The streams of this process for a program elsewhere: byte for byte, nothing cleaned."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Literal

from dflashctl.view.console import ReaderGone
from dflashctl.view.sanitize import clean, one_line

if TYPE_CHECKING:
    from dflashctl.view.console import Screen

# What has no end of line is shown when there is so much of it.
_LONGEST_LINE = 1 << 16


class OwnStreams:
    """Standard input, output and error."""

    def read(self, size: int) -> bytes:
        """Some bytes of standard input, as they come; b"" at its end, or without one."""
        try:
            return os.read(0, size)
        except OSError:
            return b""

    def write(self, stream: Literal["out", "err"], data: bytes) -> None:
        """Raises ReaderGone when nobody reads standard output any more."""
        to = (sys.stdout if stream == "out" else sys.stderr).buffer
        try:
            to.write(data)
            to.flush()
        except BrokenPipeError as error:
            # Nobody reads what goes wrong: that alone stops nothing.
            if stream == "out":
                raise ReaderGone from error


class NamedLines:
    """For one program of several at once: whole lines, each behind a name; and no input."""

    def __init__(self, screen: Screen, name: str) -> None:
        self._screen, self._name = screen, one_line(name)
        self._rest = {"out": b"", "err": b""}

    def read(self, size: int) -> bytes:
        """b"": there is one input, and several programs that would read it."""
        return b""

    def write(self, stream: Literal["out", "err"], data: bytes) -> None:
        """Raises ReaderGone when nobody reads standard output any more."""
        *lines, rest = (self._rest[stream] + data).split(b"\n")
        if len(rest) > _LONGEST_LINE:
            lines, rest = [*lines, rest], b""
        self._rest[stream] = rest
        self._show(stream, lines)

    def end(self) -> None:
        """What came without an end of line."""
        for stream in ("out", "err"):
            rest, self._rest[stream] = self._rest[stream], b""
            if rest:
                self._show("out" if stream == "out" else "err", [rest])

    def _show(self, stream: Literal["out", "err"], lines: list[bytes]) -> None:
        # What a progress bar draws over itself is a line each time.
        shown = [
            one for line in lines for one in clean(line.decode("utf-8", "replace")).split("\n")
        ]
        text = "".join(f"{self._name}  {one}\n" for one in shown)
        if stream == "out":
            self._screen.write(text)
            return
        with contextlib.suppress(BrokenPipeError):
            sys.stderr.write(text)
            sys.stderr.flush()
