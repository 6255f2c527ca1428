"""The other end of the pane's pipe: what the trainer prints goes into the run's log.

Run by tmux as ``python3 collect.py <run folder>``. It never blocks the trainer: what
cannot be written (a full disk) is dropped, and writing goes on when there is room again.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

PIECE = 1 << 16


def collect(folder: str) -> None:
    """Append standard input to the log until it ends."""
    log = os.open(f"{folder}/log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    while piece := os.read(0, PIECE):
        with suppress(OSError):
            while piece:
                piece = piece[os.write(log, piece) :]


if __name__ == "__main__":
    collect(sys.argv[1])
