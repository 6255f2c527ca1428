"""The boundaries with the least padding, for every number of buckets at once.

Dynamic programming tries every set of boundaries out of a list of candidates, with no
assumption on what a bucket costs. By default the candidates are a few hundred places, and
the best of them are then moved to single tokens; to prove an optimum all places are tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from dflashctl.buckets.costs import NEVER, Costs
from dflashctl.buckets.expected import Expected, Packing, check_budget, expected
from dflashctl.buckets.failures import BadBoundaries, NoSuchPlan

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dflashctl.buckets.histogram import Histogram

    Ints = NDArray[np.int64]

_COARSE = 300
"""How many candidates the default search begins with, at most."""
_WINDOW = 9
"""How many places the refinement tries for each boundary at a time."""
MOST_SAMPLES = 1024
"""In a batch; the work grows with its square, and takes half a minute at this size."""
_ROWS = 8
"""Left edges whose costs are worked out together."""


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
        if self.align < 1 or self.minimum_samples < 1 or not 0 <= self.alpha < float("inf"):
            raise ValueError("align and minimum_samples are at least 1, alpha at least 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketPlan:
    """The boundaries for one number of buckets.

    Attributes:
        boundaries: from 0 to above every length; bucket i is [boundaries[i], boundaries[i + 1]).
        expected: what they will give.
        proved: whether every allowed set of boundaries was tried.
        gap: how far the default search was from the optimum, when that is proved: in
            percentage points of efficiency, batches counted as padding where they cost.
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
        prove: try every allowed boundary, which takes a minute where the default takes a
            fraction of a second.
        progress: called now and then with the share that is done, 0 to 1.

    Raises:
        BadLengths: a sample alone is above the token budget.
        BadBoundaries: the last boundary asked for is not above every length.
        NoSuchPlan: so many buckets cannot be had under these rules, or batches of more than
            ``MOST_SAMPLES`` are allowed and possible.
    """
    rules = rules or Rules()
    wanted = sorted(set(counts))
    check_budget(histogram, packing)
    most = min(packing.max_batch_size, packing.token_budget // int(histogram.lengths[0]))
    if most > MOST_SAMPLES:
        raise NoSuchPlan(
            f"batches of up to {most:,} samples are too many to weigh up: take a maximum batch "
            f"size of at most {MOST_SAMPLES:,}"
        )
    search = _Search(histogram, packing, rules)
    search.check(wanted)
    quick = search.quick(wanted, None if prove else progress)
    best = search.every(wanted, progress) if prove else quick
    return {
        count: BucketPlan(
            boundaries=search.boundaries(chosen),
            expected=expected(histogram, search.boundaries(chosen), packing),
            proved=prove,
            gap=100 * search.difference(quick[count], chosen) if prove else None,
        )
        for count, chosen in best.items()
    }


class _Search:
    """The candidates, and the ways to choose among them.

    A choice is a list of nodes, ascending: 0 is the beginning, the last one the end, those
    between are candidates for inner boundaries.
    """

    def __init__(self, histogram: Histogram, packing: Packing, rules: Rules) -> None:
        lengths, align = histogram.lengths, rules.align
        # The first aligned boundary above each length, if it is no later than the next length.
        boundaries = -(-(lengths + 1) // align) * align
        places = np.flatnonzero(boundaries[:-1] <= lengths[1:]) + 1
        last = int(boundaries[-1]) if rules.last is None else rules.last
        if last <= histogram.longest:
            raise BadBoundaries(
                f"the last boundary is to be {last}, and the longest sample has "
                f"{histogram.longest} tokens: it must be above it"
            )
        self._costs = Costs(
            histogram, packing, alpha=rules.alpha, minimum_samples=rules.minimum_samples
        )
        self._places = np.concatenate([[0], places, [lengths.size]])
        self._tokens = np.concatenate([[0], boundaries[places - 1], [last]])
        self._below = np.concatenate([[0], np.cumsum(histogram.counts)])[self._places]
        self._rules = rules
        self._real = histogram.tokens

    def boundaries(self, chosen: Ints) -> tuple[int, ...]:
        return tuple(self._tokens[chosen].tolist())

    def difference(self, worse: Ints, better: Ints) -> float:
        """How much more efficient the better choice is, as a share."""
        cost = [
            sum(
                int(self._costs.of(self._places[[left]], self._places[[right]])[0, 0])
                for left, right in pairwise(chosen)
            )
            for chosen in (worse, better)
        ]
        return self._real / self._costs.unit * (1 / cost[1] - 1 / cost[0])

    def check(self, counts: list[int]) -> None:
        """Raises NoSuchPlan unless that many buckets can be had."""
        most, begun = 0, 0
        for below in self._below[1:].tolist():
            if below - begun >= self._rules.minimum_samples:
                most, begun = most + 1, below
        for count in counts:
            if not 1 <= count <= most:
                raise NoSuchPlan(
                    f"{count} buckets cannot be had: these lengths and rules allow "
                    f"{'none' if most == 0 else f'1 to {most}'}"
                )

    def quick(self, counts: list[int], progress: Callable[[float], None] | None) -> dict[int, Ints]:
        coarse = self._coarse()
        chosen = self._choose(coarse, counts, progress)
        if len(chosen) < len(counts):  # the coarse candidates leave too few samples somewhere
            return self.every(counts, progress)
        return {count: self._refine(coarse, nodes) for count, nodes in chosen.items()}

    def every(self, counts: list[int], progress: Callable[[float], None] | None) -> dict[int, Ints]:
        return self._choose(np.arange(self._places.size), counts, progress)

    def _coarse(self) -> Ints:
        """Some of the nodes, closer together where samples are many.

        Merging two neighbours costs about samples x width. All cells have the same of it
        when they are as dense as the square root of samples per token.
        """
        weight = np.sqrt(np.diff(self._below) * np.diff(self._tokens))
        cells = np.concatenate([[0], np.cumsum(weight)]) * (_COARSE / weight.sum())
        _, first = np.unique(cells.astype(np.int64), return_index=True)
        return np.union1d(first, self._places.size - 1)

    def _choose(
        self, nodes: Ints, counts: list[int], progress: Callable[[float], None] | None
    ) -> dict[int, Ints]:
        """The best choice of each size among all of these nodes; none where none is allowed."""
        places = self._places[nodes]
        best = np.full((max(counts) + 1, nodes.size), NEVER)
        best[0, 0] = 0
        origin = np.zeros(best.shape, dtype=np.int32)
        work = np.cumsum(self._costs.levels(places[:-1]) * np.arange(nodes.size - 1, 0, -1))
        for start in range(0, nodes.size - 1, _ROWS):
            lefts = np.arange(start, min(start + _ROWS, nodes.size - 1))
            cost = self._costs.of(places[lefts], places[start + 1 :])
            for left in lefts.tolist():
                through = best[:-1, left, None] + cost[left - start, left - start :]
                so_far = best[1:, left + 1 :]
                better = through < so_far  # of equals the first one stays
                np.copyto(so_far, through, where=better)
                np.copyto(origin[1:, left + 1 :], left, where=better)
            if progress:
                progress(float(work[lefts[-1]] / work[-1]))
        return {count: nodes[_traced(origin, count)] for count in counts if best[count, -1] < NEVER}

    def _refine(self, coarse: Ints, chosen: Ints) -> Ints:
        """Moves the inner boundaries, all at once, until no small move of them is better."""
        at = np.searchsorted(coarse, chosen)
        lows = coarse[np.maximum(at - 1, 0)]
        highs = coarse[np.minimum(at + 1, coarse.size - 1)]
        cost = NEVER
        while True:
            windows = [
                np.unique([*np.linspace(max(low, 1), high, _WINDOW, dtype=np.int64), node])
                for low, node, high in zip(
                    lows, chosen, np.minimum(highs, self._places.size - 2), strict=True
                )
            ]
            windows[0], windows[-1] = chosen[:1], chosen[-1:]
            step = max(int(np.diff(window).max(initial=1)) for window in windows)
            before = cost
            chosen, cost = self._choose_among(windows)
            if step == 1 and cost == before:
                return chosen
            reach = step - 1 if step > 1 else _WINDOW // 2
            lows, highs = chosen - reach, chosen + reach

    def _choose_among(self, windows: list[Ints]) -> tuple[Ints, int]:
        """The best choice with one node from each window, and its cost."""
        best = np.zeros(1, dtype=np.int64)
        origins = []
        for lefts, rights in pairwise(windows):
            cost = self._costs.of(self._places[lefts], self._places[rights])
            through = np.minimum(best[:, None] + cost, NEVER)
            origins.append(through.argmin(axis=0))
            best = through.min(axis=0)
        at, chosen = 0, [int(windows[-1][0])]
        for origin, lefts in zip(origins[::-1], windows[-2::-1], strict=True):
            at = int(origin[at])
            chosen.append(int(lefts[at]))
        return np.array(chosen[::-1]), int(best[0])


def _traced(origin: NDArray[np.int32], count: int) -> Ints:
    nodes = [origin.shape[1] - 1]
    for buckets in range(count, 0, -1):
        nodes.append(int(origin[buckets, nodes[-1]]))
    return np.array(nodes[::-1])
