"""What a set of boundaries will give, in closed form: no simulation, no random numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dflashctl.buckets.histogram import Histogram


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
    raise NotImplementedError
