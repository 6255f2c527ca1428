"""Lengths out of datasets as they lie: arrays, lists, tables, folders of shards."""

from __future__ import annotations

import glob
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dflashctl.buckets import arrays, lines, tables
from dflashctl.buckets.columns import COLUMNS
from dflashctl.buckets.failures import BadDataset, BadLengths, offenders

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]
    Reader = Callable[[str, "str | None"], Iterator[tuple[Integers, float]]]

Progress = Callable[[int, int], None]
"""Called now and then with the bytes that are read and the bytes there are."""

__all__ = ["COLUMNS", "FORMATS", "Progress", "checked", "chunks", "read"]

_READERS: dict[str, Reader] = {
    "parquet": tables.parquet,
    "arrow": tables.arrow,
    "jsonl": lines.jsonl,
    "npy": arrays.npy,
    "npz": arrays.npz,
    "idx": arrays.idx,
    "csv": lines.csv,
    "tsv": lines.tsv,
    "txt": lines.txt,
}
FORMATS = tuple(_READERS)
"""What a file can be. In a folder of several kinds, the first of them counts."""
_ENDINGS = {"ndjson": "jsonl", "feather": "arrow", "json": "jsonl"}
_SHARD = re.compile(r"-\d+-of-\d+$")
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
    path = source
    try:
        shards = _shards(source, format)
        sizes = [_bytes(path) for path, _ in shards]
        for at, (path, reader) in enumerate(shards):
            for lengths, share in reader(path, column):
                yield lengths
                if progress is not None:
                    progress(sum(sizes[:at]) + int(sizes[at] * share), sum(sizes))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        text = f"{path} cannot be read: {getattr(error, 'strerror', None) or error}"
        raise BadDataset("unreadable", text, path=path) from error


def checked(lengths: Iterable[Integers], longest: int | None = None) -> Iterator[Integers]:
    """The same chunks; at their end, complain of what cannot be batched.

    Args:
        lengths: as ``chunks`` gives them.
        longest: the greatest length allowed, in tokens; None: any.

    Raises:
        BadLengths: there are none, or zeros, negatives, lengths above ``longest``; or all
            are equal, so that buckets have no use.
    """
    kinds = [_Kind("negative", "below zero"), _Kind("zero", "of length zero")]
    kinds.append(_Kind("above-longest", f"above {longest:,} tokens" if longest else ""))
    samples, least, most = 0, 0, 0
    for chunk in lengths:
        if chunk.size:
            low, high = int(chunk.min()), int(chunk.max())
            least, most = (min(least, low), max(most, high)) if samples else (low, high)
            if low < 1:
                kinds[0].note(chunk < 0, chunk, samples)
                kinds[1].note(chunk == 0, chunk, samples)
            if longest is not None and high > longest:
                kinds[2].note(chunk > longest, chunk, samples)
            samples += chunk.size
        yield chunk
    for kind in kinds:
        if kind.count:
            raise offenders(kind.problem, kind.words, kind.count, kind.first)
    if samples == 0:
        raise BadLengths("empty", "there are no samples")
    if least == most and samples > 1:
        text = f"all {samples:,} samples have length {most:,}: buckets are of no use to them"
        raise BadLengths("constant", text, count=samples)


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


def _shards(source: str, named: str) -> list[tuple[str, Reader]]:
    """The files to read, in order, each with what reads it."""
    if Path(source).is_dir():
        return _folder(Path(source), named)
    paths = [source] if Path(source).exists() else _matching(source)
    if not paths:
        raise BadDataset("not-found", f"there is no {source}", path=source)
    return [(path, _reader(path, named)) for path in paths]


def _matching(pattern: str) -> list[str]:
    found = glob.glob(pattern, recursive=True)  # noqa: PTH207 - Path.glob takes no absolute one
    return sorted(each for each in found if Path(each).is_file())


def _folder(folder: Path, named: str) -> list[tuple[str, Reader]]:
    if (folder / "dataset_dict.json").exists():
        splits = json.loads((folder / "dataset_dict.json").read_text()).get("splits", [])
        if len(splits) != 1:
            raise _several(folder, [f"{folder}/{split}" for split in splits])
        folder = folder / splits[0]
    if (folder / "state.json").exists():
        return [(str(folder), tables.saved)]
    if (folder / "lengths.npy").exists():
        return [(str(folder / "lengths.npy"), arrays.npy)]
    files = sorted(each for each in folder.iterdir() if each.suffix and each.is_file())
    for kind in FORMATS if named == "auto" else (named,):
        shards = [file for file in files if _kind(file) == kind and kind != "txt"]
        splits = sorted({_SHARD.sub("", file.stem) for file in shards if _SHARD.search(file.stem)})
        if len(splits) > 1:
            raise _several(folder, [f"{folder}/{split}-*.{kind}" for split in splits])
        if shards:
            return [(str(file), _READERS[kind]) for file in shards]
    raise BadDataset("not-found", f"{folder} holds no file with lengths", path=str(folder))


def _several(folder: Path, choices: list[str]) -> BadDataset:
    text = f"{folder} holds several parts; name one: {' or '.join(choices)}"
    return BadDataset("several-splits", text, path=str(folder))


def _kind(path: Path) -> str:
    ending = path.suffix[1:].lower()
    return _ENDINGS.get(ending, ending)


def _reader(path: str, named: str) -> Reader:
    kind = _kind(Path(path)) if named == "auto" else named
    if kind not in _READERS:
        text = (
            f"{path}: the ending says nothing of its format, which is one of {', '.join(FORMATS)}"
        )
        raise BadDataset("unknown-format", text, path=path)
    return _READERS[kind]


def _bytes(path: str) -> int:
    place = Path(path)
    if place.is_dir():
        return sum(each.stat().st_size for each in place.glob("*.arrow"))
    return place.stat().st_size
