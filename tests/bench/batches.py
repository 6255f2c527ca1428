"""How long an epoch's batches take, what they are like, and how quickly lengths are read.

``python tests/bench/batches.py [epoch] [measures] [expected] [reading]``

``epoch``: time and peak memory of one epoch's batches. ``measures``: the table of
docs/batching.md. ``expected``: the closed form against batches that were made, for random
histograms. ``reading``: datasets of every kind.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from dflashctl.buckets import batching, dataset, histogram
from dflashctl.buckets.diversity import padded_tokens
from dflashctl.buckets.expected import Packing, expected
from dflashctl.buckets.simulate import simulate

DATA = Path(__file__).parents[1] / "data"
SIX = batching.Settings(
    boundaries=(0, 784, 1248, 1840, 2864, 4608, 8192),
    token_budget=49_152,
    max_batch_size=64,
    ranks=8,
)
WAYS = {
    "sorted": replace(SIX, strategy="sorted", order="random"),
    "shuffle": replace(SIX, strategy="shuffle", order="random"),
    "bucketed": replace(SIX, order="random"),
    "bucketed, stratified": SIX,
    "bucketed, stratified, window 128": replace(SIX, window=128),
    "bucketed, stratified, window 256": replace(SIX, window=256),
}
CASES, MOST_EPOCHS = 300, 400
NOISE = 0.0125
"""Points: a mean is over so many epochs that its standard error is no more."""


def p1() -> np.ndarray:
    """902,087 lengths in an order like a dataset's."""
    lengths, counts = np.loadtxt(
        DATA / "lengths_P1.csv", dtype=np.int64, delimiter=",", skiprows=1, unpack=True
    )
    samples = np.repeat(lengths, counts)
    return samples[np.argsort(np.arange(samples.size) * 7919 % samples.size, kind="stable")]


def epoch() -> None:
    """Time and memory of one epoch, each way in a process of its own."""
    print(f"{'one epoch of 902,087 samples':40} {'wall s':>8} {'CPU s':>8} {'MiB':>8}")
    for name in WAYS:
        words = (sys.executable, __file__, "one", name)
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        wall, cpu, before, peak = json.loads(done.stdout)
        print(f"{name:40} {wall:8.3f} {cpu:8.3f} {peak - before:8.1f}")


def one(name: str) -> None:
    """What ``epoch`` asks a process for."""
    lengths = p1()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    wall, cpu = time.perf_counter(), time.process_time()
    batching.epoch_batches(lengths, WAYS[name], 1)
    took = time.perf_counter() - wall, time.process_time() - cpu
    print(json.dumps([*took, before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))


def measures() -> None:
    """The table of measures on P1, over five seeds."""
    lengths = p1()
    names = ("efficiency", "budget_fill", "deff", "tv16", "pool", "icc", "rank_balance")
    print(" ".join([f"{'5 seeds':34}", *(f"{name:>21}" for name in names)]))
    for name, how in WAYS.items():
        found = simulate(lengths, how, range(5))
        figures = [(getattr(found.mean, each), getattr(found.spread, each)) for each in names]
        print(" ".join([f"{name:34}", *(f"{m:12.5g} ± {s:6.2g}" for m, s in figures)]), flush=True)


def random_case(rng: np.random.Generator) -> tuple[histogram.Histogram, Packing]:
    """A histogram of one of several shapes, and limits that suit it."""
    low = int(rng.integers(1, 2000))
    high = low + int(rng.integers(1, 6000))
    samples = int(rng.integers(20_000, 60_000))
    kind = rng.integers(4)
    if kind == 0:
        lengths = rng.integers(low, high, samples)
    elif kind == 1:
        lengths = low + (rng.lognormal(0, 1, samples) * (high - low) / 8).astype(np.int64)
    elif kind == 2:  # a few lengths only
        few = rng.integers(low, high, int(rng.integers(2, 6)))
        lengths = rng.choice(few, samples)
    else:  # two heaps far apart
        lengths = np.where(rng.random(samples) < rng.random(), low, high) + rng.integers(0, 50)
    lengths = np.minimum(lengths, high + 50)
    budget = int(high + 50) * int(rng.integers(1, 40))
    packing = Packing(token_budget=budget, max_batch_size=int(rng.integers(1, 129)))
    return histogram.of(lengths), packing


def against_expected() -> None:
    """The closed form and the mean of batches that were made, for 300 random histograms."""
    rng = np.random.default_rng(20)
    apart = []
    for case in range(CASES):
        counted, packing = random_case(rng)
        bounds = (0, counted.longest + 1)
        lengths = np.repeat(counted.lengths, counted.counts)
        how = batching.Settings(
            boundaries=bounds,
            token_budget=packing.token_budget,
            max_batch_size=packing.max_batch_size,
        )
        given: list[float] = []
        error = np.inf
        while len(given) < 8 or (error > NOISE and len(given) < MOST_EPOCHS):
            batches = batching.epoch_batches(lengths, how, len(given))
            given.append(100 * lengths.sum() / padded_tokens(lengths, batches).sum())
            error = np.std(given, ddof=1) / np.sqrt(len(given)) if len(given) > 1 else np.inf
        said = expected(counted, bounds, packing)
        points = abs(np.mean(given) - 100 * said.efficiency)
        apart.append((points, error, len(given), said.batches, case))
    apart.sort(reverse=True)
    print(f"{CASES} random histograms: points between the closed form and the mean of batches made")
    print(f"at most {apart[0][0]:.4f}; above 0.05: {sum(each[0] > 0.05 for each in apart)}")
    for points, error, epochs, count, case in apart[:5]:
        print(f"  case {case}: {points:.4f} ± {error:.4f}, {epochs} epochs of {count:.0f} batches")


def reading() -> None:
    """Every kind of dataset, by the time that 902,087 rows would take."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    lengths = p1()
    lines = [f'{{"id": {i}, "seq_len": {n}}}\n' for i, n in enumerate(lengths.tolist())]
    few = lengths[:20_000]
    tokens = np.arange(few.sum(), dtype=np.int32) % 32_000
    offsets = np.concatenate([[0], np.cumsum(few)]).astype(np.int32)
    lists = pa.table({"input_ids": pa.ListArray.from_arrays(offsets, tokens)})
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder)
        np.save(at / "lengths.npy", lengths.astype(np.int32))
        (at / "lengths.txt").write_text("\n".join(map(str, lengths.tolist())))
        rows = "".join(f"{i},{n}\n" for i, n in enumerate(lengths.tolist()))
        (at / "length.csv").write_text("id,length\n" + rows)
        (at / "seq_len.jsonl").write_text("".join(lines))
        pq.write_table(pa.table({"length": lengths}), at / "length.parquet")
        pq.write_table(lists, at / "input_ids.parquet", row_group_size=1000)
        with (
            pa.OSFile(f"{at}/input_ids.arrow", "wb") as sink,
            pa.ipc.new_stream(sink, lists.schema) as writer,
        ):
            writer.write_table(lists, max_chunksize=1000)
        with (at / "input_ids.jsonl").open("w") as file:
            for begin, end in pairwise(offsets[:2001]):
                file.write(json.dumps({"input_ids": tokens[begin:end].tolist()}) + "\n")
        print(f"{'read, scaled to 902,087 rows':40} {'wall s':>8} {'CPU s':>8}")
        for path in sorted(at.iterdir()):
            list(dataset.chunks(str(path)))
            wall, cpu = time.perf_counter(), time.process_time()
            count = sum(chunk.size for chunk in dataset.chunks(str(path)))
            scale = lengths.size / count
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            print(f"{path.name:40} {wall * scale:8.3f} {cpu * scale:8.3f}")


PARTS = {"epoch": epoch, "measures": measures, "expected": against_expected, "reading": reading}

if __name__ == "__main__":
    if sys.argv[1:2] == ["one"]:
        one(sys.argv[2])
    else:
        for part in sys.argv[1:] or PARTS:
            PARTS[part]()
            print()
