"""How many samples have which length: all that the mathematics needs to know of a dataset."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dflashctl.buckets.failures import BadLengths

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PIECE = 1 << 18
"""Lengths counted at a time: what bounds the memory, whatever is memory-mapped."""
_DENSE = 1 << 20
"""Lengths below this are counted in an array; longer ones, which are rare, in sorted lists."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Histogram:
    """Sample counts by length.

    Attributes:
        lengths: the lengths that occur, in tokens, strictly ascending, int64.
        counts: how many samples have each of them, at least 1, int64.

    Raises:
        BadLengths: no samples, a length below 1, lengths that do not ascend, a count below 1.
    """

    lengths: NDArray[np.int64]
    counts: NDArray[np.int64]

    def __post_init__(self) -> None:
        if self.lengths.ndim != 1 or self.lengths.shape != self.counts.shape:
            raise BadLengths("shape", "lengths and counts must be two lists of one size")
        for name in ("lengths", "counts"):
            mine = np.array(_integers(getattr(self, name)), dtype=np.int64)
            mine.setflags(write=False)
            object.__setattr__(self, name, mine)
        _check(self.lengths, self.counts)
        if np.any(np.diff(self.lengths) <= 0):
            raise BadLengths("order", "the histogram's lengths do not ascend")
        if np.any(self.counts < 1):
            raise BadLengths("count", "the histogram has counts below 1")

    @cached_property
    def samples(self) -> int:
        """How many samples there are."""
        return int(self.counts.sum())

    @cached_property
    def tokens(self) -> int:
        """The real tokens of all samples together."""
        return int(self.lengths @ self.counts)

    @property
    def longest(self) -> int:
        """The greatest length."""
        return int(self.lengths[-1])

    @cached_property
    def sha256(self) -> str:
        """A fingerprint: equal for equal histograms, on every machine."""
        digest = hashlib.sha256(b"dflashctl histogram 1\n")
        digest.update(self.lengths.astype("<i8").tobytes())
        digest.update(self.counts.astype("<i8").tobytes())
        return digest.hexdigest()

    def quantile(self, share: float) -> int:
        """The smallest length that at least this share (0 to 1) of the samples do not exceed."""
        if not 0 <= share <= 1:
            raise ValueError(f"a share lies between 0 and 1, not {share}")
        reached = np.cumsum(self.counts)
        return int(self.lengths[np.searchsorted(reached, share * self.samples)])


_Counted = tuple["NDArray[np.int64]", "NDArray[np.int64]"]


def of(lengths: NDArray[Any]) -> Histogram:
    """The histogram of one array of lengths, which may be memory-mapped.

    Raises:
        BadLengths: as ``from_chunks``.
    """
    return from_chunks([lengths])


def from_chunks(chunks: Iterable[NDArray[Any]]) -> Histogram:
    """The histogram of many arrays of lengths, in memory that does not grow with them.

    Raises:
        BadLengths: no lengths, not integers, zeros or negatives.
    """
    lengths, counts = counted(chunks)
    return Histogram(lengths=lengths, counts=counts)


def counted(chunks: Iterable[NDArray[Any]]) -> _Counted:
    """The lengths that occur and how often, which may be none at all.

    Raises:
        BadLengths: not integers, negatives.
    """
    dense = np.zeros(0, dtype=np.int64)
    long = (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    for chunk in chunks:
        flat = _integers(chunk).reshape(-1)
        for start in range(0, flat.size, _PIECE):
            piece = flat[start : start + _PIECE].astype(np.int64)
            if piece.min() < 0:
                _check(*np.unique(piece, return_counts=True))
            if piece.max() >= _DENSE:
                is_long = piece >= _DENSE
                found = np.unique(piece[is_long], return_counts=True)
                long = _merged([long, found])
                piece = piece[~is_long]
            counted = np.bincount(piece, minlength=dense.size)
            counted[: dense.size] += dense
            dense = counted
    occur = np.flatnonzero(dense)
    lengths = np.concatenate([occur, long[0]])
    return lengths, np.concatenate([dense[occur], long[1]])


def merge(*histograms: Histogram) -> Histogram:
    """The histogram of all these datasets together."""
    lengths, counts = _merged([(each.lengths, each.counts) for each in histograms])
    return Histogram(lengths=lengths, counts=counts)


def _merged(parts: list[_Counted]) -> _Counted:
    if not parts:
        raise BadLengths("empty", "there are no samples")
    lengths, where = np.unique(np.concatenate([part[0] for part in parts]), return_inverse=True)
    counts = np.zeros(lengths.size, dtype=np.int64)
    np.add.at(counts, where.reshape(-1), np.concatenate([part[1] for part in parts]))
    return lengths, counts


def _integers(array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype.kind not in "iu":
        raise BadLengths("not-integers", f"lengths are whole numbers, not {array.dtype}")
    return array


def _check(lengths: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
    if lengths.size == 0:
        raise BadLengths("empty", "there are no samples")
    for problem, wrong in (("negative", lengths < 0), ("zero", lengths == 0)):
        count = int(counts[wrong].sum())
        if count:
            samples = "1 sample has" if count == 1 else f"{count:,} samples have"
            kind = "a negative length" if problem == "negative" else "length zero"
            raise BadLengths(problem, f"{samples} {kind}", count=count)
