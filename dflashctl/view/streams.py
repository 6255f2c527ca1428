"""The streams of this process for a program elsewhere: byte for byte, nothing cleaned."""

from __future__ import annotations

import os
import sys
from typing import Literal

from dflashctl.view.console import ReaderGone


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
