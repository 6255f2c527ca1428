"""The boundaries with the least padding, for every number of buckets at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from dflashctl.buckets.expected import Expected, Packing
from dflashctl.buckets.histogram import Histogram


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What makes one set of boundaries better than another, and which ones are allowed.

    Attributes:
        align: inner boundaries are multiples of this many tokens.
        minimum_samples: every bucket holds at least this many samples.
        alpha: what a batch costs beside its padded tokens, in tokens.
        last: the last boundary; None: the least multiple of ``align`` above every length.
    """

    align: int = 1
    minimum_samples: int = 1
    alpha: float = 0.0
    last: int | None = None

    def __post_init__(self) -> None:
        if self.align < 1 or self.minimum_samples < 1 or not self.alpha >= 0:
            raise ValueError("align and minimum_samples are at least 1, alpha at least 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketPlan:
    """The boundaries for one number of buckets.

    Attributes:
        boundaries: from 0 to above every length; bucket i is [boundaries[i], boundaries[i + 1]).
        expected: what they will give.
        proved: whether every allowed set of boundaries was tried.
        gap: how far the default search was from the optimum, in percentage points of
            expected efficiency, when that is proved.
    """

    boundaries: tuple[int, ...]
    expected: Expected
    proved: bool
    gap: float | None


def optimize(
    histogram: Histogram,
    counts: Iterable[int],
    packing: Packing,
    rules: Rules | None = None,
    *,
    prove: bool = False,
    progress: Callable[[float], None] | None = None,
) -> dict[int, BucketPlan]:
    """The best boundaries for each number of buckets asked for, in one pass.

    Args:
        histogram: the dataset's lengths.
        counts: the numbers of buckets.
        packing: the limits of a batch.
        rules: the cost and the constraints; None: padded tokens alone, any boundaries.
        prove: try every allowed boundary, which takes minutes.
        progress: called now and then with the share that is done, 0 to 1.

    Raises:
        BadLengths: a sample alone is above the token budget.
        NoSuchPlan: so many buckets cannot be had under these rules.
    """
    raise NotImplementedError
