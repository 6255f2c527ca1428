"""Lengths out of datasets as they lie: arrays, lists, tables, folders of shards.

Nothing here needs numpy, so that a Python without it can count lengths, too; tables do.
"""

from __future__ import annotations

import csv
import json
import re
import zlib
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from dflashctl.buckets import arrays, lines, tables
from dflashctl.buckets.failures import BadDataset, BadLengths

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = array[int] | NDArray[np.int64]
    Reader = Callable[[str, "str | None"], Iterator[tuple[Numbers, float]]]

Progress = Callable[[int, int], None]
"""Called now and then with the bytes that are read and the bytes there are."""

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
_UNREADABLE = (
    OSError, EOFError, UnicodeDecodeError, json.JSONDecodeError, csv.Error, zlib.error,
    RuntimeError,  # of an archive that is encrypted, of JSON that is nested too deeply
)  # fmt: skip


def pieces(
    source: str, *, column: str | None, format: str, progress: Progress | None
) -> Iterator[Numbers]:
    """The lengths of a dataset's samples, in its order, some at a time.

    Args and Raises: as ``dataset.chunks``.
    """
    path = source
    try:
        shards = _shards(source, format)
        sizes = [_bytes(path) for path, _ in shards]
        before, total = 0, sum(sizes)
        for (path, reader), size in zip(shards, sizes, strict=True):
            for lengths, share in reader(path, column):
                yield lengths
                if progress is not None:
                    progress(before + int(size * share), total)
            before += size
    except _UNREADABLE as error:
        text = f"{path} cannot be read: {getattr(error, 'strerror', None) or error}"
        raise BadDataset("unreadable", text, path=path) from error
    except OverflowError as error:
        text = f"{path} holds a number that is too great for a length"
        raise BadLengths("not-integers", text) from error


def _shards(source: str, named: str) -> list[tuple[str, Reader]]:
    """The files to read, in order, each with what reads it."""
    if Path(source).is_dir():
        return _folder(Path(source), named)
    paths = [source] if Path(source).is_file() else _matching(source)
    if not paths and Path(source).exists():
        text = f"{source} is neither a file nor a folder"
        raise BadDataset("unreadable", text, path=source)
    if not paths:
        raise BadDataset("not-found", f"there is no {source}", path=source)
    return [(path, _reader(path, named)) for path in paths]


def _matching(pattern: str) -> list[str]:
    # Not glob.glob: its ** follows links to folders, round and round where they make a loop.
    anchor = Path(pattern).anchor
    try:
        found = Path(anchor).glob(pattern.removeprefix(anchor).lstrip("/"))
        files = [str(each) for each in found if each.name[0] != "." and each.is_file()]
    except ValueError:  # it is no pattern
        return []
    return sorted(files)


def _folder(folder: Path, named: str) -> list[tuple[str, Reader]]:
    if (folder / "dataset_dict.json").exists():
        match json.loads((folder / "dataset_dict.json").read_text(encoding="utf-8")):
            case {"splits": [str(split)]}:
                folder /= split
            case {"splits": [*splits]} if splits:
                raise _several(folder, [f"{folder}/{split}" for split in splits])
            case _:
                text = f"{folder}/dataset_dict.json names no splits"
                raise BadDataset("unreadable", text, path=str(folder))
    if (folder / "state.json").exists():
        return [(str(folder), tables.saved)]
    if (folder / "lengths.npy").exists():
        return [(str(folder / "lengths.npy"), arrays.npy)]
    kinds: dict[str, list[Path]] = {}
    for file in sorted(folder.iterdir()):
        if file.suffix and file.name[0] != "." and file.is_file():
            kinds.setdefault(_kind(file), []).append(file)
    # A text in a folder says what the others are, unless texts are asked for.
    for kind in FORMATS[:-1] if named == "auto" else (named,):
        shards = kinds.get(kind, [])
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
