"""How much of a core the collector needs.

``python tests/bench/collector.py [LINES_PER_S [SECONDS]]``

Three kinds of output, each at the given rate: a metric in every line, in one of ten, in none.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COLLECT = Path(__file__).parents[2] / "dflashctl" / "agent" / "collect.py"
METRIC = "step {0} loss={1:.4f} acc=0.31 lr=3.0e-04 grad=1.2 25.1 Ktok/s\r\n"
OTHER = "[2026-11-29 12:00:01] worker {0} fetched shard 17 of something in {1:.1f} s\r\n"


def measure(every: int, rate: int, seconds: float) -> tuple[float, float, float]:
    """Share of a core, peak memory in MiB, and the share of the lines that is in the log."""
    with tempfile.TemporaryDirectory() as folder:
        words = (sys.executable, "-I", "-S", "-X", "utf8", str(COLLECT), folder)
        child = subprocess.Popen(words, stdin=subprocess.PIPE)
        assert child.stdin is not None
        lines = [
            (METRIC if every and number % every == 0 else OTHER).format(number, number / 1000)
            for number in range(rate)
        ]
        tenth = [("".join(lines[start::10])).encode() for start in range(10)]
        begun = time.monotonic()
        for tick in range(int(seconds * 10)):
            child.stdin.write(tenth[tick % 10])
            child.stdin.flush()
            time.sleep(max(0.0, begun + (tick + 1) / 10 - time.monotonic()))
        took = time.monotonic() - begun
        child.stdin.close()
        _, _, usage = os.wait4(child.pid, 0)
        child.returncode = 0
        size = Path(folder, "log").stat().st_size
        written = sum(map(len, tenth)) * int(seconds * 10) / 10
        return (usage.ru_utime + usage.ru_stime) / took, usage.ru_maxrss / 1024, size / written


def main() -> None:
    """Print a line for each kind."""
    rate = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 5.0
    for every, name in ((1, "all metrics"), (10, "one in ten"), (0, "none")):
        share, memory, kept = measure(every, rate, seconds)
        print(
            f"{rate} lines/s, {name}: {share:.0%} of a core, {memory:.0f} MiB, "
            f"{kept:.2%} of the bytes are in the log"
        )


if __name__ == "__main__":
    main()
