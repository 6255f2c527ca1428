"""Lengths out of datasets as they lie: arrays, lists, tables, folders of shards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]

FORMATS = ("npy", "npz", "txt", "csv", "tsv", "jsonl", "parquet", "arrow", "idx")
"""What a file can be; ``auto`` goes by its name's ending."""
COLUMNS = ("length", "num_tokens", "seq_len", "seqlen", "n_tokens", "input_ids", "attention_mask")
"""Where lengths are looked for, in this order."""

Progress = Callable[[int, int], None]
"""Called now and then with the bytes that are read and the bytes there are."""


def chunks(
    source: str,
    *,
    column: str | None = None,
    format: str = "auto",
    progress: Progress | None = None,
) -> Iterator[Integers]:
    """The lengths of a dataset's samples, in its order, some at a time.

    Args:
        source: a file, a folder, or a pattern for several files.
        column: the column, field or array; None: the first of ``COLUMNS`` that is there.
        format: one of ``FORMATS``, or ``auto``.
        progress: see there.

    Raises:
        BadDataset: it is not there, not readable, cut short, or has no such column.
        MissingLibrary: it needs pyarrow.
        BadLengths: some are not whole numbers.
    """
    raise NotImplementedError


def checked(lengths: Iterable[Integers], longest: int | None = None) -> Iterator[Integers]:
    """The same chunks; at their end, complain of what cannot be batched.

    Args:
        lengths: as ``chunks`` gives them.
        longest: the greatest length allowed, in tokens; None: any.

    Raises:
        BadLengths: there are none, or zeros, negatives, lengths above ``longest``; or all
            are equal, so that buckets have no use.
    """
    raise NotImplementedError


def read(source: str, *, column: str | None = None, longest: int | None = None) -> Integers:
    """All lengths of a dataset, checked, in its order: what a batch sampler takes.

    Raises:
        BadDataset, MissingLibrary, BadLengths: as ``chunks`` and ``checked``.
    """
    return np.concatenate(list(checked(chunks(source, column=column), longest)))
