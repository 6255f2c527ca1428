"""Lengths in files of lines, without numpy: plain numbers, CSV, JSON."""

from __future__ import annotations

import csv as csv_module
import json
import re
from array import array
from collections.abc import Iterator
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from dflashctl.buckets.columns import choose
from dflashctl.buckets.failures import BadDataset, BadLengths

if TYPE_CHECKING:
    Piece = tuple[array[int], float]

_BLOCK = 1 << 22
_ROWS = 1 << 16
_FIELD = (1 << 31) - 1
"""Longer fields are refused: a text of a sample may well be above the csv module's 128 KiB."""


def txt(path: str, _column: str | None) -> Iterator[Piece]:
    """Numbers with anything blank between them."""
    with Path(path).open("rb") as file:
        for block, share, first in _blocks(file):
            try:
                numbers = array("q", map(int, block.split()))
            except ValueError:
                raise _not_numbers(path, block, first) from None
            yield numbers, share


def csv(path: str, column: str | None) -> Iterator[Piece]:
    """Comma-separated columns; ``length,count`` is a histogram."""
    yield from _separated(path, column, ",")


def tsv(path: str, column: str | None) -> Iterator[Piece]:
    """Tab-separated columns."""
    yield from _separated(path, column, "\t")


def jsonl(path: str, column: str | None) -> Iterator[Piece]:
    """An object a line, with a length or a list of tokens."""
    with Path(path).open("rb") as file:
        name: str | None = None
        lists = False
        for block, share, first in _blocks(file):
            if name is None:
                begun = block.lstrip()
                if not begun:
                    continue
                blank = block[: len(block) - len(begun)].count(b"\n")
                record = _object(path, begun.split(b"\n", 1)[0], first + blank)
                name = choose(path, list(record), column)
                lists = isinstance(record[name], list)
            lengths = None if lists else _plain_numbers(block, name)
            if lengths is None:
                lengths = _by_line(path, block, name, first)
            yield lengths, share


def _blocks(file: IO[bytes]) -> Iterator[tuple[bytes, float, int]]:
    """Whole lines, the share of the file that they complete, and the number of the first."""
    size, done, line = file.seek(0, 2), 0, 1
    file.seek(0)
    while block := file.read(_BLOCK):
        block += file.readline()
        done += len(block)
        yield block, done / size, line
        line += block.count(b"\n")


def _separated(path: str, column: str | None, delimiter: str) -> Iterator[Piece]:
    with Path(path).open("rb") as file:
        text = TextIOWrapper(file, encoding="utf-8-sig", newline="")
        size = Path(path).stat().st_size
        csv_module.field_size_limit(_FIELD)
        rows = csv_module.reader(text, delimiter=delimiter)
        header = next(rows, [])
        if len(header) == 1 and column is None and _is_whole(header[0]):
            yield array("q", [int(header[0])]), 0.0
            at, times = 0, None
        else:
            names = [name.strip() for name in header]
            at = names.index(choose(path, names, column))
            times = 1 - at if sorted(names) == ["count", "length"] else None
        while some := list(islice(rows, _ROWS)):
            try:
                kept = [row for row in some if row]
                lengths = array("q", [int(row[at]) for row in kept])
                counts = None if times is None else [int(row[times]) for row in kept]
                if counts and min(counts) < 0:
                    raise ValueError("a count below zero")
            except (ValueError, IndexError) as error:
                raise _bad_row(path, rows.line_num - len(some), some, at) from error
            share = file.tell() / size
            for piece in [lengths] if counts is None else _repeated(lengths, counts):
                yield piece, share


def _bad_row(path: str, line: int, rows: list[list[str]], at: int) -> BadLengths:
    for number, row in enumerate(rows, line + 1):
        value = row[at] if at < len(row) else ""
        if row and not _is_whole(value):
            text = f"{path}, line {number:,}: {value[:40]!r} is no whole number"
            return BadLengths("not-integers", text)
    return BadLengths("not-integers", f"{path} has counts that are none")


def _is_whole(text: str) -> bool:
    try:
        int(text)
    except ValueError:
        return False
    return True


def _repeated(lengths: array[int], counts: list[int]) -> Iterator[array[int]]:
    """A histogram's samples, not too many at a time."""
    for length, count in zip(lengths, counts, strict=True):
        for begin in range(0, count, _BLOCK):
            yield array("q", [length]) * min(_BLOCK, count - begin)


def _plain_numbers(block: bytes, name: str) -> array[int] | None:
    """The numbers of a field, if the lines are so plain that no parsing is needed.

    They are where each line begins with its one brace that opens, and has one that closes and
    one key of this name, before a whole number: then nothing is nested, and in a string the
    key's quotes would be escaped.
    """
    key = json.dumps(name).encode()
    lines = block.count(b"\n") + (not block.endswith(b"\n"))
    begun = block.count(b"\n{") + block.startswith(b"{")
    if not begun == block.count(b"{") == block.count(b"}") == block.count(key) == lines:
        return None
    values = re.findall(re.escape(key) + rb"[ \t]*:[ \t]*(-?\d+)[ \t]*[,}]", block)
    return array("q", map(int, values)) if len(values) == lines else None


def _by_line(path: str, block: bytes, name: str, first: int) -> array[int]:
    key = json.dumps(name).encode()
    lengths = array("q")
    for number, line in enumerate(block.split(b"\n"), first):
        if not line.strip():
            continue
        length = None if name == "attention_mask" else _plain_list(line, key)
        lengths.append(_parsed(path, line, name, number) if length is None else length)
    return lengths


def _plain_list(line: bytes, key: bytes) -> int | None:
    """The length of a list of numbers, by its commas, if the line is as plain as above."""
    at = line.find(key)
    begin = line.find(b"[", at)
    end = line.find(b"]", begin)
    inner = line[begin + 1 : end]
    if (
        min(at, begin, end) < 0
        or line[at + len(key) : begin].strip() != b":"
        or any(mark in inner for mark in (b"[", b'"'))
        or line.find(key, end) >= 0
        or not line.startswith(b"{")
        or line.find(b"{", 1) >= 0
        or not line.rstrip().endswith(b"}")
    ):
        return None
    return inner.count(b",") + 1 if inner.strip() else 0


def _parsed(path: str, line: bytes, name: str, number: int) -> int:
    value = _object(path, line, number).get(name)
    if isinstance(value, list) and name != "attention_mask":
        return len(value)
    if isinstance(value, list) and all(isinstance(each, int) for each in value):
        return sum(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    text = (
        f"{path}, line {number:,}: {name} is {value!r:.40}, neither a whole number nor a fit list"
    )
    raise BadDataset("wrong-column", text, path=path)


def _object(path: str, line: bytes, number: int) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError as error:
        # A whole line ends in a brace: this one was cut.
        problem = "unreadable" if line.rstrip().endswith(b"}") else "truncated"
        text = f"{path}, line {number:,}: {error}"
        raise BadDataset(problem, text, path=path) from error
    if not isinstance(value, dict):
        text = f"{path}, line {number:,} is not a JSON object"
        raise BadDataset("unreadable", text, path=path)
    return value


def _not_numbers(path: str, block: bytes, first: int) -> BadLengths:
    for number, line in enumerate(block.split(b"\n"), first):
        for word in line.split():
            try:
                int(word)
            except ValueError:
                shown = word.decode(errors="replace")[:40]
                return BadLengths("not-integers", f"{path}, line {number:,}: {shown} is no number")
    return BadLengths("not-integers", f"{path} does not hold numbers alone")
