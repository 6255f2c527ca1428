"""The other end of the pane's pipe: what the trainer prints goes into the run's log.

Run by tmux as ``python3 collect.py <run folder>``. It never blocks the trainer: what
cannot be written (a full disk) is dropped, and writing goes on when there is room again.
The log comes first; then the metrics in it are read along, as far as there is time.
"""

from __future__ import annotations

import os
import select
import sys
import time
from contextlib import suppress
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from dflashctl.agent.meter import Meter
from dflashctl.agent.records import RunFolder, read_json
from dflashctl.agent.rotate import Rotating

PIECE = 1 << 16
LOG_LIMIT = 512 << 20
LOG_KEPT = 3
TICK_S = 1.0
MARK_S = 10.0


def collect(folder: str, limit: int = LOG_LIMIT) -> None:
    """Append standard input to the log until it ends; turn to a new file at ``limit`` bytes."""
    log = Rotating(f"{folder}/log", limit, LOG_KEPT)
    # When the log had what size, for those who ask what came since.
    index, marked = Rotating(f"{folder}/log.index", 64 << 20, 1), 0.0
    meter = _meter(RunFolder(path=Path(folder)))
    while True:
        ready = select.select([0], [], [], TICK_S)[0]
        piece = os.read(0, PIECE) if ready else b""
        if piece:
            if time.monotonic() >= marked + MARK_S:
                marked = time.monotonic()
                index.write(f"{time.time():.0f} {log.size}\n".encode())
            log.write(piece)
        if meter is not None:
            try:
                if ready and not piece:
                    meter.close(time.time())
                else:
                    meter.take(piece, time.time())
            except Exception:
                meter = None  # a fault of ours costs the metrics, never the log
        if ready and not piece:
            return


def _meter(folder: RunFolder) -> Meter | None:
    with suppress(Exception):
        record = read_json(folder.run) or {}
        return Meter(folder, record.get("metrics") or {}, record.get("started_at") or time.time())
    return None


if __name__ == "__main__":
    collect(sys.argv[1])
