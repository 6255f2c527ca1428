"""Lengths counted without numpy: the plain forms only, for a target whose Python has none."""

from __future__ import annotations

import ast
import base64
import csv
import glob
import json
import sys
import zlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from dflashctl.buckets.failures import BadDataset, BadLengths, MissingLibrary

_PIECE = 1 << 20
_CODES = {"i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I", "i8": "q", "u8": "Q"}
_COLUMNS = ("length", "num_tokens", "seq_len", "seqlen", "n_tokens", "input_ids", "attention_mask")


def count(path: str, column: str | None, tell: Callable[[str, float], None]) -> Counter[int]:
    """How many samples have which length.

    Raises:
        BadDataset: it is not there, cut short, or has no such column.
        BadLengths: some are no lengths.
        MissingLibrary: it takes numpy to read this kind.
    """
    place = Path(path)
    if place.is_dir():
        files = sorted(place.iterdir())
    else:
        found = glob.glob(path)  # noqa: PTH207 - it has no part without a wildcard to begin from
        files = [place] if place.exists() else sorted(map(Path, found))
    if not files:
        raise BadDataset("not-found", "it is not there", path=path)
    counted: Counter[int] = Counter()
    for number, file in enumerate(files):
        for lengths in _lengths(file, column):
            counted.update(lengths)
            tell("reading", number / len(files))
    if not counted:
        raise BadLengths("empty", "there are no samples")
    short = sum(number for length, number in counted.items() if length < 1)
    if short:
        raise BadLengths("zero", f"{short:,} samples have length zero or less", count=short)
    return counted


def packed(counted: Counter[int]) -> str:
    """The counts as short text."""
    return base64.b64encode(zlib.compress(json.dumps(sorted(counted.items())).encode())).decode()


def unpacked(text: str) -> dict[int, int]:
    """What ``packed`` made text of."""
    return dict(json.loads(zlib.decompress(base64.b64decode(text))))


def _lengths(file: Path, column: str | None) -> Iterator[array[int] | list[int]]:
    kind = file.suffix.lower()
    if kind == ".npy":
        with file.open("rb") as data:
            yield from _npy(file, data)
        return
    if kind not in (".txt", ".csv", ".tsv", ".jsonl"):
        raise MissingLibrary("numpy", path=str(file))
    with file.open(encoding="utf-8", newline="") as text:
        try:
            if kind == ".txt":
                yield from ([int(line)] for line in text if line.strip())
                return
            rows: Iterator[dict[str, object]]
            if kind == ".jsonl":
                rows = (json.loads(line) for line in text if line.strip())
            else:
                rows = iter(csv.DictReader(text, delimiter="\t" if kind == ".tsv" else ","))
            for row in rows:
                name = column or next((name for name in _COLUMNS if name in row), "")
                if name not in row:
                    known = ", ".join(map(str, row))
                    wanted = f"no column {column}" if column else "no column of lengths"
                    raise BadDataset(
                        "no-column", f"there is {wanted} among {known}", path=str(file)
                    )
                value = row[name]
                yield [len(value) if isinstance(value, list) else int(str(value))]
        except ValueError as error:
            raise BadLengths("not-integers", f"{file}: {error}") from error


def _npy(file: Path, data: IO[bytes]) -> Iterator[array[int]]:
    head = data.read(8)
    size = int.from_bytes(data.read(2 if head[6:7] == b"\x01" else 4), "little")
    try:
        about = ast.literal_eval(data.read(size).decode("latin-1").strip())
        order, code = about["descr"][0], _CODES[about["descr"][1:]]
        left = about["shape"][0]
    except (KeyError, IndexError, SyntaxError, TypeError, ValueError):
        raise MissingLibrary("numpy", path=str(file)) from None
    if head[:6] != b"\x93NUMPY" or len(about["shape"]) != 1:
        raise MissingLibrary("numpy", path=str(file))
    while left:
        piece = array(code)
        try:
            piece.fromfile(data, min(left, _PIECE))
        except EOFError:
            raise BadDataset("truncated", "it ends too early", path=str(file)) from None
        if order != "|" and (order == ">") == (sys.byteorder == "little"):
            piece.byteswap()
        left -= len(piece)
        yield piece
