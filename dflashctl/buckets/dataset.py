"""The lengths of a dataset in numpy's arrays, checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from dflashctl.buckets import files
from dflashctl.buckets.columns import COLUMNS
from dflashctl.buckets.failures import BadLengths, constant, offenders
from dflashctl.buckets.files import FORMATS, Progress

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]

__all__ = ["COLUMNS", "FORMATS", "Progress", "checked", "chunks", "read"]

_OFFENDERS = 5


def chunks(
    source: str,
    *,
    column: str | None = None,
    format: str = "auto",
    progress: Progress | None = None,
) -> Iterator[Integers]:
    """The lengths of a dataset's samples, in its order, some at a time.

    Memory does not grow with the dataset, except for what is stored whole: a compressed
    array, a row group of a table, the lengths that a dataset's indices pick from.

    Args:
        source: a file, a folder (one that ``save_to_disk`` wrote, one with ``lengths.npy``,
            or one of shards), or a pattern for several files.
        column: the column, field or array; None: the first of ``COLUMNS`` that is there.
        format: one of ``FORMATS``, or ``auto``: by the name's ending.
        progress: see there.

    Raises:
        BadDataset: it is not there, not readable, cut short, or has no such column.
        MissingLibrary: it needs pyarrow.
        BadLengths: some are not whole numbers.
    """
    for piece in files.pieces(source, column=column, format=format, progress=progress):
        yield np.asarray(piece).astype(np.int64, copy=False)


def checked(lengths: Iterable[Integers], longest: int | None = None) -> Iterator[Integers]:
    """The same chunks; at their end, complain of what cannot be batched.

    Args:
        lengths: as ``chunks`` gives them.
        longest: the greatest length allowed, in tokens; None: any.

    Raises:
        BadLengths: there are none, or zeros, negatives, lengths above ``longest``; or all
            are equal, so that buckets have no use.
    """
    samples, least, most = 0, 0, 0
    for chunk in sound(lengths, longest):
        if chunk.size:
            low, high = int(chunk.min()), int(chunk.max())
            least, most = (min(least, low), max(most, high)) if samples else (low, high)
            samples += chunk.size
        yield chunk
    if samples == 0:
        raise BadLengths("empty", "there are no samples")
    if least == most and samples > 1:
        raise constant(samples, most)


def sound(lengths: Iterable[Integers], longest: int | None = None) -> Iterator[Integers]:
    """The same chunks; at their end, complain of single lengths that no batch can have.

    Raises:
        BadLengths: zeros, negatives, lengths above ``longest``.
    """
    kinds = [_Kind("negative", "below zero"), _Kind("zero", "of length zero")]
    kinds.append(_Kind("above-longest", f"above {longest:,} tokens" if longest else ""))
    samples = 0
    for chunk in lengths:
        if chunk.size:
            if int(chunk.min()) < 1:
                kinds[0].note(chunk < 0, chunk, samples)
                kinds[1].note(chunk == 0, chunk, samples)
            if longest is not None and int(chunk.max()) > longest:
                kinds[2].note(chunk > longest, chunk, samples)
            samples += chunk.size
        yield chunk
    for kind in kinds:
        if kind.count:
            raise offenders(kind.problem, kind.words, kind.count, kind.first)


def read(source: str, *, column: str | None = None, longest: int | None = None) -> Integers:
    """All lengths of a dataset, checked, in its order: what a batch sampler takes.

    Raises:
        BadDataset, MissingLibrary, BadLengths: as ``chunks`` and ``checked``.
    """
    return np.concatenate(list(checked(chunks(source, column=column), longest)))


@dataclass(slots=True)
class _Kind:
    """One thing that is wrong with lengths."""

    problem: str
    words: str
    count: int = 0
    first: list[tuple[int, int]] = field(default_factory=list)

    def note(self, wrong: NDArray[np.bool_], chunk: Integers, before: int) -> None:
        where = np.flatnonzero(wrong)
        self.count += int(where.size)
        for i in where[: _OFFENDERS - len(self.first)].tolist():
            self.first.append((before + i, int(chunk[i])))
