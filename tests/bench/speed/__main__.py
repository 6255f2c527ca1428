"""How long one waits, beside what one would do otherwise: ``make bench``.

``python -m tests.bench.speed [PART...] [--ours-only] [--runs N] [--json FILE]``

Everything is measured in one lab and in turns, so that a busy machine slows all alike. What
the network costs is the slope of the time over the length of a round trip (0, 100, 200 ms).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from importlib import import_module
from pathlib import Path

from tests.bench.speed.lab import lab
from tests.bench.speed.table import Book
from tests.lab.container import why_no_lab

PARTS = ("starts", "reach", "peers", "many", "cost", "bulk")


def main() -> int:
    """Measure and print; 1 where there is no lab."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.speed")
    parser.add_argument(
        "parts", nargs="*", choices=[*PARTS, []], metavar="PART", help=", ".join(PARTS)
    )
    parser.add_argument("--ours-only", action="store_true", help="nothing to compare with")
    parser.add_argument("--runs", type=int, default=5, help="of each way, in turns (5)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="all samples, too")
    chosen = parser.parse_args()
    if reason := why_no_lab():
        print(reason, file=sys.stderr)
        return 1
    book, began = Book(), time.time()
    with lab() as built:
        for name in chosen.parts or PARTS:
            print(f"== {name}, load {os.getloadavg()[0]:.1f}", flush=True)
            part = import_module(f"tests.bench.speed.parts.{name}")
            part.measure(built, book, chosen.runs, ours_only=chosen.ours_only)
    took = time.time() - began
    load, python = os.getloadavg()[2], platform.python_version()
    machine = f"{os.cpu_count()} processors, load {load:.1f}, Python {python}"
    print(f"\n{book.table()}\n\n{machine}, {chosen.runs} runs of each, {took:.0f} s")
    if chosen.json:
        whole = {"machine": machine, "runs": chosen.runs, "took_s": round(took), **book.plain()}
        chosen.json.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
