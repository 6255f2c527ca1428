"""What a set of boundaries will give, in closed form: no simulation, no random numbers.

``docs/buckets.md`` derives the formula. In short: inside one bucket the packer is a
renewal process. Let p be the law of a sample's length, F its distribution function, and
c(n) = token_budget // n the longest sample that a batch of n may hold. A batch's first
sample is one that the batch before it turned away, so it has a law of its own, with
distribution function S. A batch reaches n samples of at most m <= c(n) tokens with
probability S(m) F(m)^(n - 1), and everything follows from that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from dflashctl.buckets.failures import BadBoundaries, BadLengths
from dflashctl.buckets.histogram import Histogram

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """How batches are filled: greedily, a sample at a time, until one more would break a limit.

    Attributes:
        token_budget: the most tokens in a batch, padding included.
        max_batch_size: the most samples in a batch.
    """

    token_budget: int
    max_batch_size: int

    def __post_init__(self) -> None:
        if self.token_budget < 1 or self.max_batch_size < 1:
            raise ValueError("a token budget and a maximum batch size are at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketExpected:
    """What to expect of the samples whose length lies in [low, high).

    Attributes:
        low: the least length, in tokens.
        high: one more than the greatest length.
        samples: how many samples lie here.
        tokens: their real tokens.
        padded_tokens: the tokens that training will process for them.
        batches: how many batches they fill.
        mean_batch_size: samples in a batch.
        efficiency: real over padded tokens, 0 to 1.
        budget_fill: real tokens over batches x token budget, 0 to 1.
    """

    low: int
    high: int
    samples: int
    tokens: int
    padded_tokens: float
    batches: float
    mean_batch_size: float
    efficiency: float
    budget_fill: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What to expect of an epoch: each bucket, and all of them together.

    A bucket without samples counts nothing: its efficiency, budget fill and mean batch
    size are 0. The other figures are as in ``BucketExpected``.
    """

    per_bucket: tuple[BucketExpected, ...]
    samples: int
    tokens: int
    padded_tokens: float
    batches: float
    mean_batch_size: float
    efficiency: float
    budget_fill: float


def expected(histogram: Histogram, boundaries: Sequence[int], packing: Packing) -> Expected:
    """What shuffling inside each bucket and packing greedily gives, on average.

    Args:
        histogram: the dataset's lengths.
        boundaries: of half-open buckets, from 0 to above every length.
        packing: the limits of a batch.

    Raises:
        BadBoundaries: they do not ascend from 0 to above every length.
        BadLengths: a sample alone is above the token budget.
    """
    check_boundaries(histogram, boundaries)
    check_budget(histogram, packing)
    edges = np.searchsorted(histogram.lengths, boundaries)
    per_bucket = tuple(
        _bucket(histogram, packing, (low, high), slice(start, stop))
        for low, high, start, stop in zip(
            boundaries[:-1], boundaries[1:], edges[:-1], edges[1:], strict=True
        )
    )
    batches = sum(bucket.batches for bucket in per_bucket)
    padded = sum(bucket.padded_tokens for bucket in per_bucket)
    return Expected(
        per_bucket=per_bucket,
        samples=histogram.samples,
        tokens=histogram.tokens,
        padded_tokens=padded,
        batches=batches,
        mean_batch_size=histogram.samples / batches,
        efficiency=histogram.tokens / padded,
        budget_fill=histogram.tokens / (batches * packing.token_budget),
    )


def check_boundaries(histogram: Histogram, boundaries: Sequence[int]) -> None:
    """Raises BadBoundaries unless they ascend from 0 to above every length."""
    if len(boundaries) < 2 or boundaries[0] != 0:
        raise BadBoundaries("boundaries begin with 0 and name at least one bucket")
    if any(low >= high for low, high in pairwise(boundaries)):
        raise BadBoundaries("boundaries ascend, none of them twice")
    if boundaries[-1] <= histogram.longest:
        raise BadBoundaries(
            f"the last boundary is {boundaries[-1]}, and the longest sample has "
            f"{histogram.longest} tokens: it must be above it"
        )


def check_budget(histogram: Histogram, packing: Packing) -> None:
    """Raises BadLengths when a sample alone is above the token budget."""
    if histogram.longest > packing.token_budget:
        above = histogram.lengths > packing.token_budget
        count = int(histogram.counts[above].sum())
        raise BadLengths(
            "above-budget",
            f"{count:,} {'sample is' if count == 1 else 'samples are'} longer than the token "
            f"budget of {packing.token_budget:,}, the longest {histogram.longest:,} tokens",
            count=count,
        )


def _bucket(
    histogram: Histogram, packing: Packing, interval: tuple[int, int], inside: slice
) -> BucketExpected:
    lengths, counts = histogram.lengths[inside], histogram.counts[inside]
    samples, tokens = int(counts.sum()), int(lengths @ counts)
    size, padded = batch(lengths, counts, packing) if samples else (1.0, 1.0)
    return BucketExpected(
        low=interval[0],
        high=interval[1],
        samples=samples,
        tokens=tokens,
        padded_tokens=samples * padded / size,
        batches=samples / size,
        mean_batch_size=size if samples else 0.0,
        efficiency=tokens * size / (samples * padded) if samples else 0.0,
        budget_fill=tokens * size / (samples * packing.token_budget) if samples else 0.0,
    )


def batch(
    lengths: NDArray[np.int64], counts: NDArray[np.int64], packing: Packing
) -> tuple[float, float]:
    """One bucket's mean batch: how many samples it holds, how many tokens with its padding."""
    most = min(packing.max_batch_size, packing.token_budget // int(lengths[0]))
    held = np.searchsorted(lengths, packing.token_budget // np.arange(1, most + 1), "right")
    f = np.cumsum(counts) / counts.sum()
    q = np.append(np.append(0.0, f)[held], 0.0)  # q[n - 1]: a sample fits a batch of n
    s = _first_sample(f, q)
    gaps = np.diff(lengths)
    size = padded = 0.0
    for n in range(most, 0, -1):
        fit, fit_more = int(held[n - 1]), int(held[n]) if n < most else 0
        reaches = s[:fit] * f[:fit] ** (n - 1)  # ... n samples, none longer than this
        size += reaches[-1] if fit else 0.0
        grows = q[n] * _longest(lengths, gaps, reaches[:fit_more])
        padded += n * (_longest(lengths, gaps, reaches) - grows)
    return float(size), float(padded)


def _longest(
    lengths: NDArray[np.int64], gaps: NDArray[np.int64], reaches: NDArray[np.float64]
) -> float:
    """The mean of the longest sample, counted where it is one of the first so many lengths."""
    last = reaches.size - 1
    return float(lengths[last] * reaches[last] - gaps[:last] @ reaches[:last]) if last >= 0 else 0.0


def _first_sample(f: NDArray[np.float64], q: NDArray[np.float64]) -> NDArray[np.float64]:
    """S at every length: how likely a batch's first sample is no longer.

    A batch of n - 1 samples, all at most c(n), turns a sample away just when that is longer
    than c(n); any other batch that is full turns away whatever comes. So the density of S is
    that of F times a step function with a step at each c(n), and S, as a function of F, is
    a broken line from 0 to 1. A step is what the line has reached times q^(n - 2): from the
    shortest c(n) to the longest each follows from those before it; no iteration is needed.
    """
    s = np.zeros_like(f)
    slope, reached, at = 1.0, 0.0, 0.0
    for n in range(q.size - 1, 1, -1):
        here = (f > at) & (f <= q[n - 1])
        s[here] = reached + slope * (f[here] - at)
        reached += slope * (q[n - 1] - at)
        at = q[n - 1]
        slope += reached * at ** (n - 2)
    here = f > at
    s[here] = reached + slope * (f[here] - at)
    return s / (reached + slope * (1.0 - at))
