"""Lengths in numpy's files and in Megatron's indices, a piece at a time."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from dflashctl.buckets.columns import COLUMNS, OFFSETS, choose
from dflashctl.buckets.failures import BadDataset, BadLengths

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]
    Piece = tuple[Integers, float]

_PIECE = 1 << 20
_IDX = struct.Struct("<9sQBQQ")
"""Megatron's header: magic, version, a code for the tokens' type, sequences, documents."""
_IDX_MAGIC = b"MMIDIDX\x00\x00"


def npy(path: str, _column: str | None) -> Iterator[Piece]:
    """A file of one array: lengths, or offsets if its name says so."""
    with Path(path).open("rb") as file:
        pieces = _array(file, path)
        stem = Path(path).stem
        yield from _differences(pieces) if stem.endswith(OFFSETS) else pieces


def npz(path: str, column: str | None) -> Iterator[Piece]:
    """One array of an archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name.removesuffix(".npy") for name in archive.namelist()]
            known = (*COLUMNS[:-2], "lengths", *OFFSETS)
            only = names[0] if len(names) == 1 and column is None else None
            name = only or choose(path, names, column, known)
            with archive.open(f"{name}.npy") as file:
                pieces = _array(file, path)
                yield from _differences(pieces) if name.endswith(OFFSETS) else pieces
    except zipfile.BadZipFile as error:
        raise _truncated(path, str(error)) from error


def idx(path: str, _column: str | None) -> Iterator[Piece]:
    """The index beside Megatron's tokens: the length of every sequence."""
    with Path(path).open("rb") as file:
        head = file.read(_IDX.size)
        if len(head) < _IDX.size or not head.startswith(_IDX_MAGIC):
            text = f"{path} does not begin as a Megatron index does"
            raise BadDataset("unreadable", text, path=path)
        _, _, _, sequences, documents = _IDX.unpack(head)
        # After the lengths (4 bytes each) come where they begin, and the documents.
        if Path(path).stat().st_size < _IDX.size + 12 * sequences + 8 * documents:
            raise _truncated(path, f"{sequences:,} sequences do not fit into it")
        yield from _pieces(file, path, np.dtype("<i4"), sequences)


def _array(file: IO[bytes], path: str) -> Iterator[Piece]:
    try:
        version = np.lib.format.read_magic(file)
        header = (
            np.lib.format.read_array_header_1_0
            if version == (1, 0)
            else np.lib.format.read_array_header_2_0
        )
        shape, _, dtype = header(file)
    except (ValueError, EOFError) as error:
        raise BadDataset("unreadable", f"{path}: {error}", path=path) from error
    if len(shape) != 1 or dtype.kind not in "iu":
        text = f"{path} holds {dtype} of shape {shape}; lengths are one row of whole numbers"
        raise BadLengths("not-integers", text)
    yield from _pieces(file, path, dtype, shape[0])


def _pieces(file: IO[bytes], path: str, dtype: np.dtype[Any], count: int) -> Iterator[Piece]:
    done = 0
    while done < count:
        wanted = min(_PIECE, count - done)
        data = file.read(wanted * dtype.itemsize)
        if len(data) < wanted * dtype.itemsize:
            got = done + len(data) // dtype.itemsize
            raise _truncated(path, f"it holds {got:,} of {count:,} lengths")
        done += wanted
        yield np.frombuffer(data, dtype=dtype).astype(np.int64), done / count


def _differences(pieces: Iterator[Piece]) -> Iterator[Piece]:
    """Lengths of what lies between offsets."""
    last = np.zeros(0, dtype=np.int64)
    for piece, share in pieces:
        yield np.diff(piece, prepend=last), share
        last = piece[-1:]


def _truncated(path: str, why: str) -> BadDataset:
    return BadDataset("truncated", f"{path} is cut short: {why}", path=path)
