"""``python -m dflashctl.buckets``: the optimiser as a process of its own, in lines of JSON.

It reads a line with an object that holds ``task`` (see ``job``), and ends with its standard
input: nobody is left to listen then. With two arguments it reads the object from the first
file and writes to the second, which it holds locked as long as it lives.

It writes objects: ``progress`` (stage, share from 0 to 1), and at the end ``result`` or
``error`` (code, detail).
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any, TextIO

_EVERY_S = 0.2


class Lines:
    """Where the answers go, with progress at a bearable rate; ``shown``: to people as well."""

    def __init__(self, out: TextIO, shown: TextIO | None) -> None:
        self._out, self._shown = out, shown
        self._told = ("", 0.0)

    def progress(self, stage: str, share: float) -> None:
        """How much of a stage is done."""
        last, when = self._told
        now = time.monotonic()
        if stage == last and now - when < _EVERY_S and share < 1:
            return
        self._told = (stage, now)
        self.write("progress", {"stage": stage, "share": round(share, 4)})
        if self._shown is not None:
            self._shown.write(f"\r\033[K{stage} {share:.0%}")
            self._shown.flush()

    def write(self, kind: str, value: dict[str, Any]) -> None:
        """One object."""
        self._out.write(json.dumps({kind: value}) + "\n")
        self._out.flush()


def _end_with_input() -> None:
    while os.read(0, 1 << 16):
        pass
    os._exit(1)


def main(files: list[str]) -> int:
    """Do the one task; 0 when there is a result."""
    if sys.version_info < (3, 10):  # noqa: UP036 - whoever reads datasets may be older
        detail = {"python": sys.executable, "module": "python>=3.10", "needed": "the optimiser"}
        Lines(sys.stdout, None).write("error", {"code": "missing_module", "detail": detail})
        return 1
    from dflashctl.buckets import job

    if files:
        given = json.loads(Path(files[0]).read_text(encoding="utf-8"))
        out = Path(files[1]).open("a", encoding="utf-8")  # noqa: SIM115 - locked until the end
        fcntl.flock(out, fcntl.LOCK_EX)
        lines = Lines(out, sys.stdout)
    else:
        given = json.loads(_first_line())
        threading.Thread(target=_end_with_input, daemon=True).start()
        lines = Lines(sys.stdout, None)
    try:
        result = job.run(given["task"], lines.progress)
    except job.EXPECTED as error:
        lines.write("error", job.complaint(error, given["task"]))
        return 1
    lines.write("result", result)
    return 0


def _first_line() -> bytes:
    line = b""
    while not line.endswith(b"\n") and (piece := os.read(0, 1 << 16)):
        line += piece
    return line


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
