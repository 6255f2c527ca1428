"""How good and how quick the best boundaries are: every figure beside what it must be.

``python tests/bench/buckets.py [--quick]``

Times are of this machine as it is now: the least and the median of several, on the clock and
of the processor. ``--quick`` leaves out what takes minutes: the proofs and the billion samples.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dflashctl.buckets import histogram
from dflashctl.buckets.batching import Settings
from dflashctl.buckets.expected import Packing
from dflashctl.buckets.histogram import Histogram
from dflashctl.buckets.optimize import optimize
from dflashctl.buckets.simulate import samples_of, simulate

ROOT = Path(__file__).parents[2]
RUN = Packing(token_budget=49_152, max_batch_size=64)
SIX = {"P1": 87.80, "P2": 84.48, "P3": 87.99}
SHARD = 100_000_000


def read(name: str) -> Histogram:
    """One of the data sets beside the tests."""
    path = ROOT / "tests" / "data" / f"lengths_{name}.csv"
    table = np.loadtxt(path, dtype=np.int64, delimiter=",", skiprows=1)
    return Histogram(lengths=table[:, 0], counts=table[:, 1])


def row(what: str, must: str, measured: str) -> None:
    """A line of the table."""
    print(f"{what:<46} {must:>14}   {measured}", flush=True)


def timed(work: Callable[[], Any], times: int) -> str:
    """The least and the median seconds of doing it so often."""
    clock, processor = [], []
    for _ in range(times):
        begun = time.perf_counter(), time.process_time()
        work()
        clock.append(time.perf_counter() - begun[0])
        processor.append(time.process_time() - begun[1])
    return (
        f"{min(clock):.2f} s, median {statistics.median(clock):.2f} "
        f"(processor {min(processor):.2f})"
    )


def child(*words: str, times: int = 1) -> tuple[list[float], float]:
    """Seconds that a Python process takes each time, and its peak memory in MB."""
    seconds, memory = [], 0.0
    for _ in range(times):
        begun = time.perf_counter()
        process = subprocess.Popen((sys.executable, *words), cwd=ROOT, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0, words
        seconds.append(time.perf_counter() - begun)
        memory = max(memory, usage.ru_maxrss * 1024 / 1e6)
    return seconds, memory


def six() -> None:
    """Six buckets on each data set: expected and simulated."""
    for name, must in SIX.items():
        plan = optimize(read(name), [6], RUN)[6]
        how = Settings(
            boundaries=plan.boundaries, token_budget=RUN.token_budget, max_batch_size=64, ranks=8
        )
        simulated = simulate(samples_of(read(name)), how, range(3)).mean.efficiency
        row(f"{name}, K = 6, expected", f"{must:.2f} %", f"{100 * plan.expected.efficiency:.4f} %")
        off = 100 * (simulated - plan.expected.efficiency)
        row(f"{name}, K = 6, simulated", "0.05 points", f"{100 * simulated:.4f} % ({off:+.4f})")
        inner = ", ".join(map(str, plan.boundaries[1:-1]))
        row(f"{name}, K = 6, inner boundaries", "-", inner)


def quick_search() -> None:
    """How long the default takes."""
    for name in SIX:
        whole = read(name)
        for counts, words, must in (
            ([6], "K = 6 alone", "0.5 s"),
            (range(1, 9), "every K to 8", "0.5 s"),
            (range(1, 17), "every K to 16", "1.5 s"),
        ):
            row(f"{name}, {words}", must, timed(partial(optimize, whole, counts, RUN), 7))


def proof() -> None:
    """Every token tried: how far the default was off, seconds, memory."""
    for name in SIX:
        whole = read(name)
        shown: list[float] = []
        begun = time.perf_counter(), time.process_time()
        plans = optimize(whole, range(1, 17), RUN, prove=True, progress=shown.append)
        took = time.perf_counter() - begun[0], time.process_time() - begun[1]
        gaps = [plan.gap or 0.0 for plan in plans.values()]
        row(f"{name}, default against proof, K to 8", "0.001 points", f"{max(gaps[:8]):.6f}")
        row(f"{name}, default against proof, K to 16", "0.005 points", f"{max(gaps):.6f}")
        figures = {count: f"{100 * plans[count].expected.efficiency:.3f}" for count in (8, 12, 16)}
        row(f"{name}, proved, K = 8, 12, 16", "-", ", ".join(figures.values()) + " %")
        row(
            f"{name}, proof of every K to 16", "300 s", f"{took[0]:.0f} s (processor {took[1]:.0f})"
        )
    seconds, memory = child(__file__, "prove")
    row(
        "P1, proof of K = 6 alone, a process",
        "300 s, 1000 MB",
        f"{seconds[0]:.0f} s, {memory:.0f} MB",
    )


def whole_process(folder: Path) -> None:
    """From a file of lengths to boundaries, in processes of their own."""
    path = folder / "lengths.npy"
    np.save(path, samples_of(read("P1")).astype(np.int32))
    for most in (6, 8):
        seconds, memory = child(__file__, "optimise", str(path), str(most), times=7)
        row(
            f"file of 902,087 to boundaries, K = {most}",
            "1.0 s",
            f"{min(seconds):.2f} s, median {statistics.median(seconds):.2f}, {memory:.0f} MB",
        )
    seconds, _ = child("-c", "import numpy", times=7)
    row("  of which Python and numpy start", "-", f"{min(seconds):.2f} s")


def billion(folder: Path) -> None:
    """Ten memory-mapped shards of a hundred million lengths each; one file under ten names."""
    first = np.lib.format.open_memmap(
        folder / "shard-0.npy", mode="w+", dtype=np.int32, shape=(SHARD,)
    )
    samples = np.random.Generator(np.random.PCG64(1)).permutation(samples_of(read("P1")))
    for start in range(0, SHARD, samples.size):
        part = first[start : start + samples.size]
        part[:] = samples[: part.size]
    first.flush()
    for number in range(1, 10):
        os.link(folder / "shard-0.npy", folder / f"shard-{number}.npy")
    done = subprocess.run(
        (sys.executable, __file__, "count", str(folder)),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    memory, clock, processor = map(float, done.stdout.split())
    row("histogram of 1e9 lengths, beside the map", "200 MB", f"{memory:.0f} MB")
    row("histogram, each 1e8 lengths", "-", f"{clock / 10:.2f} s (processor {processor / 10:.2f})")


def own_memory() -> float:
    """This process's memory that is not of files, in MB."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    fields = dict(line.split(":", 1) for line in status.splitlines())
    return int(fields["RssAnon"].split()[0]) / 1000


def count(folder: str) -> None:
    """The child that counts: the most memory of its own, looked at all the time; its seconds."""
    most, over = 0.0, threading.Event()

    def look() -> None:
        nonlocal most
        while not over.wait(0.002):
            most = max(most, own_memory())

    looking = threading.Thread(target=look)
    looking.start()
    begun = time.perf_counter(), time.process_time()
    shards = (np.load(path, mmap_mode="r") for path in sorted(Path(folder).glob("shard-*.npy")))
    counted = histogram.from_chunks(shards)
    took = time.perf_counter() - begun[0], time.process_time() - begun[1]
    over.set()
    looking.join()
    assert counted.samples == 10 * SHARD
    print(most, *took)


def main(words: list[str]) -> None:
    """All rows, or one of the children's tasks."""
    match words:
        case ["optimise", path, most]:
            whole = histogram.of(np.load(path, mmap_mode="r"))
            print(optimize(whole, [int(most)], RUN)[int(most)])
        case ["prove"]:
            optimize(read("P1"), [6], RUN, prove=True)
        case ["count", folder]:
            count(folder)
        case [] | ["--quick"]:
            row("what", "must", "measured")
            with tempfile.TemporaryDirectory() as folder:
                whole_process(Path(folder))  # first: a child begins with its parent's memory
                six()
                quick_search()
                if not words:
                    proof()
                    billion(Path(folder))
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
