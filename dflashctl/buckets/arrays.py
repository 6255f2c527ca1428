"""Lengths in numpy's files and in Megatron's indices, a piece at a time, without numpy."""

from __future__ import annotations

import ast
import struct
import sys
import zipfile
from array import array
from collections.abc import Iterator
from itertools import chain, islice
from operator import sub
from pathlib import Path
from typing import IO, TYPE_CHECKING

from dflashctl.buckets.columns import COLUMNS, OFFSETS, choose
from dflashctl.buckets.failures import BadDataset, BadLengths

if TYPE_CHECKING:
    Piece = tuple[array[int], float]

_PIECE = 1 << 20
_MAGIC = b"\x93NUMPY"
_CODES = {"i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I", "i8": "q", "u8": "q"}
"""How numpy names the kinds of whole numbers, and how Python's arrays do. No length needs the
64th bit: where it is set, the number is refused as one below zero."""
_HEADER = 10_000
"""Longer headers are not parsed, nor does numpy: that of one array of numbers is short."""
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
            names = [
                name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")
            ]
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
        yield from _pieces(file, path, "<i4", sequences)


def _array(file: IO[bytes], path: str) -> Iterator[Piece]:
    head = file.read(8)
    width = 2 if head[6:7] == b"\x01" else 4
    size = int.from_bytes(file.read(width), "little")
    text = file.read(size) if head.startswith(_MAGIC) and size <= _HEADER else b""
    try:
        header = ast.literal_eval(text.decode("latin-1").strip())
        kind, shape = str(header["descr"]), tuple(header["shape"])
    except (KeyError, MemoryError, RecursionError, SyntaxError, TypeError, ValueError) as error:
        text_of = f"{path} does not begin as numpy's files of one array do"
        raise BadDataset("unreadable", text_of, path=path) from error
    if kind[1:] not in _CODES or len(shape) != 1 or type(shape[0]) is not int:
        what = f"{path} holds {kind[:40]} of shape {str(shape)[:40]}"
        raise BadLengths("not-integers", f"{what}; lengths are one row of whole numbers")
    yield from _pieces(file, path, kind, shape[0])


def _pieces(file: IO[bytes], path: str, kind: str, count: int) -> Iterator[Piece]:
    swapped = kind[0] == (">" if sys.byteorder == "little" else "<")
    done = 0
    while done < count:
        piece = array(_CODES[kind[1:]])
        wanted = min(_PIECE, count - done)
        data = file.read(wanted * piece.itemsize)
        if len(data) < wanted * piece.itemsize:
            got = done + len(data) // piece.itemsize
            raise _truncated(path, f"it holds {got:,} of {count:,} lengths")
        piece.frombytes(data)
        if swapped:
            piece.byteswap()
        done += wanted
        yield piece, done / count


def _differences(pieces: Iterator[Piece]) -> Iterator[Piece]:
    """Lengths of what lies between offsets."""
    last: list[int] = []
    for piece, share in pieces:
        before = chain(last, piece)
        yield array("q", map(sub, piece if last else islice(piece, 1, None), before)), share
        last = [piece[-1]]


def _truncated(path: str, why: str) -> BadDataset:
    return BadDataset("truncated", f"{path} is cut short: {why}", path=path)
