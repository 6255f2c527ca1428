"""Lengths counted without numpy, for a target whose Python has none."""

from __future__ import annotations

import base64
import json
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from dflashctl.buckets import files


def count(task: dict[str, Any], progress: files.Progress) -> Counter[int]:
    """How many samples have which length; whether they can be batched is not looked at.

    Raises:
        BadDataset, MissingLibrary, BadLengths: as ``dataset.chunks``; numpy is among what tables
            take.
    """
    counted: Counter[int] = Counter()
    for lengths in files.pieces(
        task["path"], column=task["column"], format=task["format"], progress=progress
    ):
        counted.update(lengths)
    return counted


def packed(counted: Counter[int]) -> str:
    """The counts as short text."""
    return base64.b64encode(zlib.compress(json.dumps(sorted(counted.items())).encode())).decode()


def unpacked(text: str) -> dict[int, int]:
    """What ``packed`` made text of."""
    return dict(json.loads(zlib.decompress(base64.b64decode(text))))


def added(counts: Iterable[Mapping[int, int]]) -> Counter[int]:
    """The counts of all parts together."""
    every: Counter[int] = Counter()
    for each in counts:
        every.update(each)
    return every
