"""The batches of an epoch, as training takes them and as the simulator measures them.

In a training script::

    from dflashctl.buckets import batching

    settings = batching.load()                     # the file that DFLASH_BUCKETS names
    sampler = batching.BatchSampler(lengths, settings, rank=rank)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for batch in DataLoader(dataset, batch_sampler=sampler, collate_fn=pad):
            ...

An epoch's batches are a function of lengths, settings and epoch alone. Each rank works out
the same list and takes every ``ranks``-th batch of it, so ranks need not talk. Every rank
takes equally many. Where the number of batches is no multiple of ranks x accumulation, those
with the most samples are cut in half, as many as are missing: no sample is lost or repeated,
no batch is above the budget and none is empty. (Only where no batch with two samples is left
to cut are the missing ones empty: a dataset with hardly more samples than batches.)

The same everywhere: raw words of a counter-based generator are ordered by a stable sort, and
all that decides anything is an integer.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from dflashctl.buckets.failures import BadLengths, offenders
from dflashctl.buckets.settings import Settings, load

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Integers = NDArray[np.int64]

__all__ = ["BatchSampler", "EpochBatches", "Settings", "epoch_batches", "load"]

# What a generator's words are for: each use has words of its own.
_SAMPLES, _BATCHES, _RANKS, _BOUNDARIES = range(4)
_FINE = 1 << 20
"""Mean lengths are compared to this part of a token."""
_OFFENDERS = 5
"""Of samples that cannot be batched, so many are named."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EpochBatches(Sequence["Integers"]):
    """All batches of one epoch, in the order in which they are taken.

    Batch ``i`` belongs to rank ``i % ranks`` and to optimizer step
    ``i // (ranks * accumulation)``. As a sequence: each batch's sample numbers.

    Attributes:
        samples: every sample's number once, batch after batch.
        offsets: batch i is samples[offsets[i]:offsets[i + 1]].
        ranks: how many processes share them.
        accumulation: batches of each rank in one optimizer step.
    """

    samples: Integers
    offsets: Integers
    ranks: int
    accumulation: int

    def __len__(self) -> int:
        return self.offsets.size - 1

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        index = range(len(self))[index]
        return self.samples[self.offsets[index] : self.offsets[index + 1]]

    @property
    def steps(self) -> int:
        """How many optimizer steps there are in the epoch."""
        return len(self) // (self.ranks * self.accumulation)

    def of_rank(self, rank: int, first_step: int = 0) -> Iterator[list[int]]:
        """The batches of one rank from this optimizer step on, as lists of sample numbers."""
        first = first_step * self.ranks * self.accumulation + rank
        for index in range(first, len(self), self.ranks):
            yield self[index].tolist()


class BatchSampler:
    """One rank's batches, epoch by epoch; what PyTorch calls a ``batch_sampler``.

    Attributes:
        settings: as given. ``ranks`` must be the number of processes that train.
        rank: which of them this is.
        epoch: the epoch that an iteration gives; ``set_epoch`` changes it.
        step: the optimizer step at which an iteration begins.

    Raises:
        BadLengths: as ``epoch_batches``.
        ValueError: no such rank.
    """

    def __init__(self, lengths: ArrayLike, settings: Settings, *, rank: int = 0) -> None:
        if not 0 <= rank < settings.ranks:
            raise ValueError(f"rank {rank} of {settings.ranks}")
        self._lengths = _checked(lengths, settings)
        self.settings, self.rank = settings, rank
        self.epoch, self.step = 0, 0
        self._made: tuple[int, EpochBatches] | None = None

    def set_epoch(self, epoch: int, step: int = 0) -> None:
        """Have the next iteration give this epoch, from this optimizer step on.

        To resume, give what was saved after an optimizer step: the epoch, and how many of
        its steps are done. Nothing is replayed.

        Raises:
            ValueError: one of them is negative.
        """
        if epoch < 0 or step < 0:
            raise ValueError(f"epochs and steps are counted from 0, not {epoch}, {step}")
        self.epoch, self.step = epoch, step

    def __iter__(self) -> Iterator[list[int]]:
        """The rank's batches from ``step`` on, as lists of sample numbers."""
        return self._batches().of_rank(self.rank, self.step)

    def __len__(self) -> int:
        """How many batches an iteration gives, the same for every rank."""
        return max(0, self.steps - self.step) * self.settings.accumulation

    @property
    def steps(self) -> int:
        """How many optimizer steps the whole epoch has."""
        return self._batches().steps

    @property
    def fingerprint(self) -> str:
        """Equal where lengths and settings are: an (epoch, step) means the same batches."""
        document = json.dumps(self.settings.to_json(), sort_keys=True)
        digest = hashlib.sha256(document.encode())
        digest.update(self._lengths.astype("<i8").tobytes())
        return digest.hexdigest()

    def _batches(self) -> EpochBatches:
        if self._made is None or self._made[0] != self.epoch:
            self._made = None  # one epoch's worth of memory is enough
            self._made = self.epoch, epoch_batches(self._lengths, self.settings, self.epoch)
        return self._made[1]


def epoch_batches(lengths: ArrayLike, settings: Settings, epoch: int) -> EpochBatches:
    """The batches of one epoch, for all ranks.

    A batch is filled in the order given: a sample joins while there are fewer than
    ``max_batch_size`` and (count + 1) x the greatest length stays within ``token_budget``;
    otherwise the batch is closed and the sample opens the next one.

    Args:
        lengths: of every sample, in tokens; a sample's number is its place here.
        settings: see there.
        epoch: which one, from 0.

    Raises:
        BadLengths: none at all, not integers, below 1, above the token budget, or at or
            above the last boundary.
    """
    sizes = _checked(lengths, settings)
    draw = _Words(settings.seed, epoch)
    order, buckets = _arranged(sizes, settings, draw)
    arranged = sizes[order]
    counts = np.concatenate(
        [pack(arranged[low:high], settings) for low, high in pairwise(buckets) if low < high]
    )
    counts = _whole_steps(counts, settings.step_batches)
    starts = np.cumsum(counts) - counts
    tokens = np.diff(np.concatenate([[0], np.cumsum(arranged)])[np.append(starts, sizes.size)])
    sequence = _sequence(tokens, counts, settings, draw)
    offsets = np.concatenate([[0], np.cumsum(counts[sequence])])
    moved = np.repeat(starts[sequence] - offsets[:-1], counts[sequence])
    return EpochBatches(
        samples=order[moved + np.arange(sizes.size)],
        offsets=offsets,
        ranks=settings.ranks,
        accumulation=settings.accumulation,
    )


class _Words:
    """The random words of an epoch."""

    def __init__(self, seed: int, epoch: int) -> None:
        if not 0 <= epoch < 1 << 56:
            raise ValueError(f"epochs are counted from 0, not {epoch}")
        self._key = seed, epoch << 8

    def __call__(self, use: int, count: int) -> NDArray[np.uint64]:
        # The key is given whole: what numpy would derive from a seed is its own affair.
        key = np.array([self._key[0], self._key[1] | use], dtype=np.uint64)
        return np.asarray(np.random.Philox(key=key).random_raw(count), dtype=np.uint64)


def _arranged(
    lengths: Integers, settings: Settings, draw: _Words
) -> tuple[Integers, Sequence[int]]:
    """The samples in the order in which they are packed, and where each bucket begins."""
    if settings.strategy == "sorted":
        return np.argsort(lengths, kind="stable"), (0, lengths.size)
    order = np.argsort(draw(_SAMPLES, lengths.size), kind="stable")
    edges: Sequence[int] = (0, lengths.size)
    if settings.strategy == "bucketed":
        inner = _jittered(settings, draw)
        bucket = np.searchsorted(inner, lengths, side="right").astype(np.uint16)
        order = order[np.argsort(bucket[order], kind="stable")]
        edges = [0, *np.cumsum(np.bincount(bucket, minlength=inner.size + 1)).tolist()]
    if settings.window > 1:
        place = np.arange(lengths.size) - np.repeat(edges[:-1], np.diff(edges))
        piece = np.cumsum(place % settings.window == 0)
        order = order[np.lexsort((lengths[order], piece))]
    return order, edges


def _jittered(settings: Settings, draw: _Words) -> Integers:
    """The inner boundaries of this epoch."""
    edges = np.array(settings.boundaries, dtype=np.int64)
    gaps = np.diff(edges)
    # Two neighbours that each move less than half their distance do not meet.
    reach = np.minimum(settings.jitter, (np.minimum(gaps[:-1], gaps[1:]) - 1) // 2)
    words = draw(_BOUNDARIES, reach.size)
    moves: Integers = (words % (2 * reach + 1).astype(np.uint64)).astype(np.int64) - reach
    return edges[1:-1] + moves


def pack(lengths: Integers, settings: Settings) -> Integers:
    """The sizes of the batches into which these samples fall, in their order.

    For every sample at once: how many would be in a batch that it opens. A batch's padded
    size only grows with each sample, so the number is found bit by bit, from the highest:
    do twice as many still fit? Then one walk from batch to batch.
    """
    most = min(settings.max_batch_size, lengths.size)
    within = settings.token_budget // np.arange(1, most + 1)  # a batch of n: its longest sample
    greatest = [lengths]  # the greatest of 1, 2, 4, ... samples from each one on
    while 2 << (len(greatest) - 1) <= most:
        wide, reach = greatest[-1], 1 << (len(greatest) - 1)
        greatest.append(np.maximum(wide[:-reach], wide[reach:]))
    fitting = np.zeros(lengths.size, dtype=np.int64)
    longest = np.zeros(lengths.size, dtype=np.int64)
    place = np.arange(lengths.size)
    for bit in reversed(range(len(greatest))):
        begin = place + fitting
        more = fitting + (1 << bit)
        last = greatest[bit].size - 1
        with_more = np.maximum(longest, greatest[bit][np.minimum(begin, last)])
        fits = (begin <= last) & (more <= most)
        fits &= with_more <= within[np.minimum(more, most) - 1]
        fitting = np.where(fits, more, fitting)
        longest = np.where(fits, with_more, longest)
    steps, at, counts = fitting.data, 0, []
    while at < lengths.size:
        counts.append(steps[at])
        at += steps[at]
    return np.array(counts, dtype=np.int64)


def _whole_steps(counts: Integers, step_batches: int) -> Integers:
    """The batches' sizes, with the largest cut in half until they fill whole steps."""
    while missing := -counts.size % step_batches:
        largest = np.argsort(-counts, kind="stable")[:missing]
        largest = np.sort(largest[counts[largest] > 1])
        if largest.size == 0:
            return np.concatenate([counts, np.zeros(missing, dtype=np.int64)])
        halves = counts[largest] // 2
        counts[largest] -= halves
        counts = np.insert(counts, largest + 1, halves)
    return counts


def _sequence(tokens: Integers, counts: Integers, settings: Settings, draw: _Words) -> Integers:
    """The order in which the batches are taken."""
    words = draw(_BATCHES, counts.size)
    if settings.order == "random":
        return np.argsort(words, kind="stable")
    means = tokens * _FINE // np.maximum(counts, 1)
    strata = np.argsort(means, kind="stable").reshape(settings.step_batches, -1)
    shuffled = np.argsort(words.reshape(strata.shape), axis=1, kind="stable")
    steps = np.take_along_axis(strata, shuffled, axis=1).T
    to_ranks = np.argsort(draw(_RANKS, counts.size).reshape(steps.shape), axis=1, kind="stable")
    return np.take_along_axis(steps, to_ranks, axis=1).reshape(-1)


def _checked(lengths: ArrayLike, settings: Settings) -> Integers:
    given = np.asarray(lengths)
    if given.size == 0:
        raise BadLengths("empty", "there are no samples")
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise BadLengths("not-integers", f"lengths are a list of whole numbers, not {given.dtype}")
    sizes = np.ascontiguousarray(given, dtype=np.int64)
    limits = [
        (
            "above-budget",
            settings.token_budget,
            f"above {settings.token_budget:,} tokens, the budget",
        )
    ]
    if settings.strategy == "bucketed":
        limits.append(("above-boundaries", settings.boundaries[-1] - 1, "past the last boundary"))
    for problem, most, words in limits:
        _refuse(sizes, sizes > most, problem, words)
    _refuse(sizes, sizes < 1, "zero", "below 1 token")
    return sizes


def _refuse(lengths: Integers, wrong: NDArray[np.bool_], problem: str, words: str) -> None:
    where = np.flatnonzero(wrong)
    if where.size:
        first = [(i, int(lengths[i])) for i in where[:_OFFENDERS].tolist()]
        raise offenders(problem, words, int(where.size), first)
