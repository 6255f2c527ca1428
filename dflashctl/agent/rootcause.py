"""Which of its processes torchrun saw fail first: it says so at the end of a run's output.

Nothing is decided by that. It tells people which node of a run to look at.
"""

from __future__ import annotations

import re
import time
from contextlib import suppress
from pathlib import Path

from dflashctl.agent.fabric import FirstFailure

TAIL = 64 << 10
_TIME = "%Y-%m-%d_%H:%M:%S"
_SAID = re.compile(
    r"Root Cause \(first observed failure\):.*?"
    r"time\s*:\s*(\d{4}-\d\d-\d\d_\d\d:\d\d:\d\d).*?"
    r"rank\s*:\s*(\d+).*?exitcode\s*:\s*(-?\d+)",
    re.DOTALL,
)


def first_failure(log: Path) -> FirstFailure | None:
    """The last one that the output tells of, if it does; its time is of that machine's zone."""
    with suppress(OSError, ValueError, OverflowError), log.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - TAIL))
        text = file.read().decode("utf-8", "replace")
        found = list(_SAID.finditer(text))
        if found:
            at, rank, code = found[-1].groups()
            moment = time.mktime(time.strptime(at, _TIME))
            return FirstFailure(rank=int(rank), exit_code=int(code), at=moment)
    return None
