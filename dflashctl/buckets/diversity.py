"""How random an epoch's batches are, and what they cost: measures, which decide nothing.

1 is as random as a full shuffle for ``deff``; docs/batching.md says what each one means.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dflashctl.buckets.batching import EpochBatches, Integers

_BINS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """What an epoch's batches are like.

    Attributes:
        efficiency: real over padded tokens, 0 to 1.
        budget_fill: real tokens over batches x token budget, 0 to 1.
        batches: how many there are.
        mean_batch_size: samples in a batch.
        deff: the variance of the optimizer steps' mean log-length, over that of steps drawn
            at random. nan where all lengths are equal.
        tv16: how far a step's mix of lengths is from the dataset's, on average: total
            variation over 16 quantile bins, 0 to 1.
        pool: how many different samples one can share a batch with, epoch after epoch. inf
            where no pair was together in both of two epochs.
        icc: how alike the log-lengths in a batch are, up to 1. nan where nothing varies.
        rank_balance: mean over greatest of the ranks' padded tokens in a step: what share
            of the time the ranks are not waiting for the slowest.
    """

    efficiency: float
    budget_fill: float
    batches: float
    mean_batch_size: float
    deff: float
    tv16: float
    pool: float
    icc: float
    rank_balance: float


def measure(lengths: Integers, first: EpochBatches, second: EpochBatches, budget: int) -> Measures:
    """All measures of an epoch; ``second`` is another one, for the pool.

    Args:
        lengths: of every sample, in tokens.
        first: the epoch's batches.
        second: another epoch's.
        budget: the token budget.
    """
    real, padded = int(lengths.sum()), int(padded_tokens(lengths, first).sum())
    return Measures(
        efficiency=real / padded,
        budget_fill=real / (len(first) * budget),
        batches=len(first),
        mean_batch_size=lengths.size / len(first),
        deff=deff(lengths, first),
        tv16=tv16(lengths, first),
        pool=pool(first, second),
        icc=icc(lengths, first),
        rank_balance=rank_balance(lengths, first),
    )


def padded_tokens(lengths: Integers, batches: EpochBatches) -> Integers:
    """The padded tokens of each batch: its samples x the longest of them."""
    counts = np.diff(batches.offsets)
    padded = np.zeros(counts.size, dtype=np.int64)
    filled = counts > 0
    starts = batches.offsets[:-1][filled]
    padded[filled] = np.maximum.reduceat(lengths[batches.samples], starts) * counts[filled]
    return padded


def deff(lengths: Integers, batches: EpochBatches) -> float:
    """The design effect of the optimizer steps on the mean log-length.

    The steps' variance of it, weighted by samples, over the one that as many steps of
    samples drawn at random would have.
    """
    logs = np.log(lengths)
    variance = logs.var()
    if variance == 0:
        return float("nan")
    step, steps = _step_of_samples(batches), batches.steps
    sizes = np.bincount(step, minlength=steps)
    means = np.bincount(step, weights=logs[batches.samples], minlength=steps) / sizes
    between = (sizes * (means - logs.mean()) ** 2).sum() / lengths.size
    return float(between / (variance * steps / lengths.size))


def tv16(lengths: Integers, batches: EpochBatches) -> float:
    """The mean total-variation distance of a step's mix of lengths from the dataset's."""
    ranks = (np.arange(1, _BINS) * lengths.size + _BINS - 1) // _BINS - 1
    edges = np.sort(lengths)[np.maximum(ranks, 0)]
    bins = np.searchsorted(edges, lengths, side="left")
    cells = _step_of_samples(batches) * _BINS + bins[batches.samples]
    mix = np.bincount(cells, minlength=batches.steps * _BINS).reshape(-1, _BINS)
    shares = mix / mix.sum(axis=1, keepdims=True)
    whole = np.bincount(bins, minlength=_BINS) / lengths.size
    return float(np.abs(shares - whole).sum(axis=1).mean() / 2)


def pool(first: EpochBatches, second: EpochBatches) -> float:
    """The partners that a sample has, over the chance that a pair meets again next epoch."""
    both = np.empty((2, first.samples.size), dtype=np.int64)
    for row, batches in zip(both, (first, second), strict=True):
        row[batches.samples] = _batch_of_samples(batches)
    together = np.unique(both[0] * len(second) + both[1], return_counts=True)[1]
    counts = np.diff(first.offsets)
    pairs = int((counts * (counts - 1)).sum())
    again = int((together * (together - 1)).sum())
    if again == 0:
        return float("inf") if pairs else 0.0
    return (pairs / first.samples.size) / (again / pairs)


def icc(lengths: Integers, batches: EpochBatches) -> float:
    """The intraclass correlation of log-length, batches being the classes (one-way)."""
    counts = np.diff(batches.offsets)
    counts = counts[counts > 0]
    samples = lengths.size
    if not 1 < counts.size < samples:
        return float("nan")
    logs = np.log(lengths)
    which = _batch_of_samples(batches)
    sums = np.bincount(which, weights=logs[batches.samples], minlength=len(batches))
    sizes = np.bincount(which, minlength=len(batches))
    means = sums / np.maximum(sizes, 1)
    between = (sizes * (means - logs.mean()) ** 2).sum() / (counts.size - 1)
    within = ((logs[batches.samples] - means[which]) ** 2).sum() / (samples - counts.size)
    typical = (samples - (counts.astype(np.float64) ** 2).sum() / samples) / (counts.size - 1)
    whole = between + (typical - 1) * within
    return float((between - within) / whole) if whole > 0 else float("nan")


def rank_balance(lengths: Integers, batches: EpochBatches) -> float:
    """The ranks' mean over their greatest padded tokens in a step, over all steps."""
    shape = (batches.steps, batches.accumulation, batches.ranks)
    loads = padded_tokens(lengths, batches).reshape(shape).sum(axis=1)
    return float(loads.mean(axis=1).sum() / loads.max(axis=1).sum())


def _batch_of_samples(batches: EpochBatches) -> NDArray[np.int64]:
    return np.repeat(np.arange(len(batches)), np.diff(batches.offsets))


def _step_of_samples(batches: EpochBatches) -> NDArray[np.int64]:
    return _batch_of_samples(batches) // (batches.ranks * batches.accumulation)
