"""How long `optimize-buckets` takes, from its start to the printed table, for P1's lengths.

``python tests/bench/optimize_buckets.py [TRIES]``

Each figure is the best of a few tries: a busy machine only ever adds to it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

DATA = Path(__file__).parents[1] / "data" / "lengths_P1.csv"
LIMITS = ("--token-budget", "49152", "--max-batch-size", "64")


def seconds(path: Path, count: int) -> float:
    """One whole process, Python's own start included."""
    words = (sys.executable, "-m", "dflashctl", "optimize-buckets", "--where", "here")
    begun = time.monotonic()
    subprocess.run(
        (*words, "--dataset", str(path), "--buckets", str(count), *LIMITS),
        stdout=subprocess.DEVNULL,
        check=True,
        cwd=path.parent,
    )
    return time.monotonic() - begun


def main(tries: int) -> None:
    table = np.loadtxt(DATA, delimiter=",", skiprows=1, dtype=np.int64)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "lengths.npy")
        np.save(path, np.repeat(table[:, 0], table[:, 1]).astype(np.int32))
        for count in (6, 8, 16):
            best = min(seconds(path, count) for _ in range(tries))
            print(f"K = {count:2}: {best:.2f} s for {int(table[:, 1].sum()):,} lengths")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
