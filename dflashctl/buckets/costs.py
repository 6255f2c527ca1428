"""The closed form of ``expected`` for many buckets at once: every left edge by every right edge.

With F = G / N, where G counts samples from the left edge on and N those in the bucket, all
that depends on the lengths inside are the left edge's moments: sums of gap x G^j over the
lengths of which n, but not n + 1, make a batch. All right edges share them, so the greater
part of the work is two products of matrices. ``docs/buckets.md`` has the formulas.

Names: n and k are batch sizes; in arrays they run from the least in the tile, ``first``,
upwards. ``q`` is the share of the bucket's samples that fit a batch of n.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dflashctl.buckets.expected import Packing
from dflashctl.buckets.histogram import Histogram

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

NEVER = 1 << 61
"""The cost of a bucket that may not be; two of them can still be added."""
_RESOLUTION = 36
"""Costs are whole multiples of 2^-36 of all tokens: rounding errors, smaller, decide nothing."""
_SPAN = 1e250
"""How much (samples up to the last right edge / samples in the bucket)^n may be in one tile."""
_NOTHING = 1e-270
"""Smaller moments count for nothing, even times _SPAN, and numbers near 1e-308 are slow."""
_NUMBERS = 1 << 17
"""How many numbers an array of a tile holds: those in work should stay in the cache."""
_ALONE = 1 << 18
"""Multiplications in a product that OpenBLAS does in one thread. Its threads wait for each
other by spinning, which on a machine with other work to do took five times as long."""
_HIGH = 64
"""Rows of such a product."""


class Costs:
    """What buckets cost, as whole numbers of a small fraction of a token, ``unit``.

    An edge is a place in the histogram's list of lengths: a bucket holds the lengths from
    its left edge up to, and not including, its right edge.

    Args:
        histogram: the dataset's lengths, none above the token budget.
        packing: the limits of a batch.
        alpha: what a batch costs beside its padded tokens, in tokens.
        minimum_samples: a bucket with fewer samples may not be.
    """

    def __init__(
        self, histogram: Histogram, packing: Packing, *, alpha: float, minimum_samples: int
    ) -> None:
        self.unit = 2.0 ** (histogram.tokens.bit_length() - _RESOLUTION)
        self._lengths = histogram.lengths
        self._budget = packing.token_budget
        self._alpha = alpha
        self._minimum = minimum_samples
        self._below = np.concatenate([[0], np.cumsum(histogram.counts)])
        self._gaps = np.append(np.diff(histogram.lengths), 0).astype(np.float64)
        # How many samples of this length make a batch.
        self._fits = np.minimum(packing.max_batch_size, self._budget // histogram.lengths)

    def of(self, lefts: Ints, rights: Ints) -> Ints:
        """Each bucket's cost, one row a left edge, one column a right edge; both ascend."""
        samples = self._below[rights] - self._below[lefts][:, None]
        cost = np.full(samples.shape, NEVER)
        allowed = samples >= max(1, self._minimum)
        for columns in self._tiles(lefts, rights, samples):
            if allowed[:, columns].any():
                inside = samples[:, columns]
                size, padded = self._batch(lefts, rights[columns], inside)
                tokens = inside * ((padded + self._alpha) / size)
                units = np.minimum(np.rint(tokens / self.unit), NEVER).astype(np.int64)
                cost[:, columns] = np.where(allowed[:, columns], units, NEVER)
        return cost

    def levels(self, lefts: Ints) -> Ints:
        """How much work a bucket with this left edge is, in proportion: its largest batch."""
        return self._fits[lefts]

    def _tiles(self, lefts: Ints, rights: Ints, samples: Ints) -> Iterator[slice]:
        """Runs of columns that together neither overflow a power nor fill the cache."""
        most = int(self._fits[lefts[0]])
        begin, stop = int(np.searchsorted(rights, lefts[0], "right")), rights.size
        while stop > begin:
            levels = most - int(self._fits[rights[stop - 1] - 1]) + 1
            start = max(begin, stop - max(1, _NUMBERS // (levels * lefts.size)))
            reference = samples[:, stop - 1 : stop]
            inside = samples[:, start:stop]
            near = (inside <= 0) | (inside * _SPAN ** (1 / most) >= reference)
            far = np.flatnonzero(~near.all(axis=0))
            if far.size:
                start += int(far[-1]) + 1
            yield slice(start, stop)
            stop = start

    def _batch(self, lefts: Ints, rights: Ints, inside: Ints) -> tuple[Floats, Floats]:
        """The mean batch of each bucket: how many samples, and how many tokens with padding."""
        first, most = int(self._fits[rights[-1] - 1]), int(self._fits[lefts[0]])
        sizes = np.arange(first, most + 1)
        held = np.append(np.searchsorted(self._lengths, self._budget // sizes, "right"), 0)
        reference = np.maximum(self._below[rights[-1]] - self._below[lefts], 1)
        fitting = np.maximum(self._below[held] - self._below[lefts][:, None], 0)
        shares = np.minimum(fitting / reference[:, None], 1.0)
        scale = np.where(inside > 0, reference[:, None] / np.maximum(inside, 1), 1.0)
        q = np.minimum(shares[:, :, None] * scale[:, None, :], 1.0)
        powers = np.empty((lefts.size, sizes.size, rights.size))  # scale^(n - 1)
        powers[:, 0] = scale ** (first - 1)
        for i in range(1, sizes.size):
            np.multiply(powers[:, i - 1], scale, out=powers[:, i])

        line = _first_sample(q, shares, powers, first, inside)

        longest = self._lengths[rights - 1]
        after = self._lengths[np.minimum(held[:-1], self._lengths.size - 1)]
        upto = np.minimum(after[:, None], longest)
        size = (first - 1) + line.reaches.sum(axis=1) / line.end
        padded = (first - 1) * longest + (line.reaches * upto).sum(axis=1) / line.end

        moments = self._moments(lefts, rights, held, reference)
        weights = (sizes[:, None] * (1.0 - q[:, 1:])) * powers
        lower = np.tril(np.ones((sizes.size, sizes.size)), -1)
        own = sizes[:, None] * powers
        ones = _product(moments.whole[:, :, :-1] * lower, weights)
        ones += np.diagonal(moments.whole[:, :, :-1], axis1=1, axis2=2)[:, :, None] * own
        more = _product(moments.whole[:, :, 1:] * lower, weights)
        more += np.diagonal(moments.whole[:, :, 1:], axis1=1, axis2=2)[:, :, None] * own
        ones *= line.base
        more *= line.slope
        more *= scale[:, None, :]
        ones += more
        mine = self._fits[rights - 1]
        ones *= sizes[:, None] > mine
        below = ones.sum(axis=1)  # sums over all lengths of n, then those of the longest's own n
        at, columns = mine - first, np.arange(rights.size)
        below += own[:, at, columns] * (
            line.base[:, at, columns] * moments.part
            + line.slope[:, at, columns] * scale * moments.part_more
        )
        return size, padded - below / line.end

    def _moments(self, lefts: Ints, rights: Ints, held: Ints, reference: Ints) -> _Moments:
        lo, hi = int(lefts[0]), int(max(rights[-1], lefts[-1] + 1))
        places = np.arange(lo, hi)
        counted = np.maximum(self._below[lo + 1 : hi + 1] - self._below[lefts][:, None], 0)
        g = np.minimum(counted / reference[:, None], 1.0)
        edges = np.clip(held, lo, hi) - lo
        sizes = held.size - 1
        first = int(self._fits[rights[-1] - 1])
        now = np.where(places >= lefts[:, None], self._gaps[lo:hi], 0.0) * g ** (first - 1)
        whole = np.zeros((lefts.size, sizes, sizes + 1))
        part, part_more = np.zeros_like(g), np.zeros_like(g)
        filled = np.flatnonzero(edges[:-1] > edges[1:])[::-1]  # ascending in places
        starts = edges[filled + 1]
        for j in range(sizes + 1):  # the power first - 1 + j, needed for n >= that
            stop = int(edges[max(j - 1, 0)])
            if j < sizes:
                mine = slice(int(edges[j + 1]), int(edges[j]))
                part[:, mine] = now[:, mine]
            if j:
                mine = slice(int(edges[j]), int(edges[j - 1]))
                part_more[:, mine] = now[:, mine]
            used = starts < stop
            if used.any():
                now = now[:, :stop]
                whole[:, filled[used], j] = np.add.reduceat(now, starts[used], axis=1)
                now = now * g[:, :stop]
        whole[whole < _NOTHING] = 0.0
        begun = edges[self._fits[rights - 1] - first + 1]
        ended = rights - 1 - lo
        return _Moments(whole, _between(part, begun, ended), _between(part_more, begun, ended))


@dataclass(frozen=True, slots=True)
class _Line:
    """The distribution of a batch's first sample as a broken line, not yet divided by its end.

    Over the lengths of n it is base + slope x F. ``reaches``: how likely a batch is once n
    samples that all fit a batch of n.
    """

    base: Floats
    slope: Floats
    reaches: Floats
    end: Floats


def _first_sample(q: Floats, shares: Floats, powers: Floats, first: int, inside: Ints) -> _Line:
    """The same walk as in ``expected``, for all buckets at once, from the largest batch down."""
    base, slope, reaches = np.empty_like(powers), np.empty_like(powers), np.empty_like(powers)
    rises, line = np.ones(inside.shape), np.zeros(inside.shape)
    for i in range(powers.shape[1] - 1, -1, -1):
        base[:, i] = line - rises * q[:, i + 1]
        slope[:, i] = rises
        line = line + rises * (q[:, i] - q[:, i + 1])
        if i:
            raised = shares[:, i, None] ** (first + i - 2) * powers[:, i - 1]  # q^(n - 2)
            step = line * np.minimum(raised, 1.0)
            reaches[:, i] = step * q[:, i]
            rises = rises + step
    end = np.where(inside > 0, line, 1.0)
    reaches[:, 0] = end  # every batch is at some time as large as the bucket's longest allow
    return _Line(base, slope, reaches, end)


@dataclass(frozen=True, slots=True)
class _Moments:
    """Sums of gap x G^j.

    ``whole[left edge, n, j]``: over all lengths of n, j counted from first - 1. ``part`` and
    ``part_more`` [left edge, right edge]: up to there, over the lengths of that one's n, with
    j = n - 1 and j = n.
    """

    whole: Floats
    part: Floats
    part_more: Floats


def _product(left: Floats, right: Floats) -> Floats:
    """The matrix products, in pieces small enough to need no threads; left is below a diagonal."""
    sizes = left.shape[1]
    out = np.empty((left.shape[0], sizes, right.shape[2]))
    for first in range(0, sizes, _HIGH):
        n, k = slice(first, first + _HIGH), slice(0, first + _HIGH)
        wide = max(8, _ALONE // (_HIGH * min(k.stop, sizes)))
        for start in range(0, right.shape[2], wide):
            piece = slice(start, start + wide)
            np.matmul(left[:, n, k], right[:, k, piece], out=out[:, n, piece])
    return out


def _between(numbers: Floats, begun: Ints, ended: Ints) -> Floats:
    sums = np.zeros((numbers.shape[0], numbers.shape[1] + 1))
    np.cumsum(numbers, axis=1, out=sums[:, 1:])
    return np.where(ended > begun, sums[:, np.maximum(ended, 0)] - sums[:, begun], 0.0)
