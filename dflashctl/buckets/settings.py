"""How training makes its batches: what ``buckets.json`` says, checked."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, get_args

from dflashctl.buckets.failures import BadBoundaries, BadSettings

Strategy = Literal["sorted", "shuffle", "bucketed"]
Order = Literal["random", "stratified"]

VERSION = 1
"""Of the file's form and of the batches it gives: one version, one seed, the same batches."""
_STEP = 1 << 20
"""Batches in a step; an epoch has at least as many, each of which takes memory."""
ENVIRONMENT = "DFLASH_BUCKETS"
"""The variable that names the file where training runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything besides the lengths and the epoch that decides an epoch's batches.

    Attributes:
        token_budget: the most tokens in a batch, padding included.
        max_batch_size: the most samples in a batch.
        boundaries: of half-open buckets, ascending from 0 to above every length. Only
            ``bucketed`` needs them.
        strategy: ``sorted``: by length, the same batches each epoch. ``shuffle``: one bucket
            holds all samples. ``bucketed``: shuffled inside each bucket. All are packed
            greedily; then the batches are put in order.
        order: of an epoch's batches. ``random``: shuffled. ``stratified``: each optimizer
            step takes one batch from each of ranks x accumulation strata of mean length.
        window: after the shuffle, sort so many samples at a time by length; 0: do not.
        jitter: move each inner boundary by up to so many tokens, anew each epoch, so that
            those near a boundary meet others too. Never past halfway to the next one.
        ranks: how many processes share the batches.
        accumulation: batches of each rank in one optimizer step.
        seed: of every shuffle, 0 to 2**64 - 1.

    Raises:
        BadBoundaries: they do not ascend from 0.
        BadSettings: anything else is out of its range.
    """

    token_budget: int
    max_batch_size: int
    boundaries: tuple[int, ...] = ()
    strategy: Strategy = "bucketed"
    order: Order = "stratified"
    window: int = 0
    jitter: int = 0
    ranks: int = 1
    accumulation: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        ranges = dict.fromkeys(("token_budget", "max_batch_size", "ranks", "accumulation"), (1, 40))
        ranges |= {"window": (0, 40), "jitter": (0, 40), "seed": (0, 64)}
        for name, (least, bits) in ranges.items():
            value = getattr(self, name)
            if not _is_integer(value) or not least <= value < 1 << bits:
                text = f"{name} is a whole number from {least} to 2**{bits} - 1, not {value!r}"
                raise BadSettings(text)
        if self.step_batches > _STEP:
            raise BadSettings(
                f"ranks x accumulation is at most {_STEP:,}, not {self.step_batches:,}"
            )
        for name, known in (("strategy", get_args(Strategy)), ("order", get_args(Order))):
            if getattr(self, name) not in known:
                raise BadSettings(f"{name} is {' or '.join(known)}, not {getattr(self, name)!r}")
        edges = self.boundaries
        if not all(map(_is_integer, edges)):
            raise BadBoundaries(f"boundaries are whole numbers, not {list(edges)}")
        if len(edges) > 1 << 16:
            raise BadBoundaries(f"{len(edges):,} boundaries are more than anyone needs")
        if (edges or self.strategy == "bucketed") and (
            len(edges) < 2 or edges[0] != 0 or any(low >= high for low, high in pairwise(edges))
        ):
            raise BadBoundaries(f"boundaries ascend from 0, unlike {list(edges)}")

    @property
    def step_batches(self) -> int:
        """How many batches all ranks together take in one optimizer step."""
        return self.ranks * self.accumulation

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Settings:
        """The settings in the document of a ``buckets.json``.

        ``version``, ``boundaries`` and ``settings`` decide the batches; what else the
        document says (the expected efficiency, the histogram's fingerprint) does not.

        Raises:
            BadSettings: another version, a part is missing, or a setting is unknown.
            BadBoundaries: they do not ascend from 0.
        """
        if document.get("version") != VERSION:
            raise BadSettings(f"this reads version {VERSION}, not {document.get('version')!r}")
        given, boundaries = document.get("settings"), document.get("boundaries")
        if not isinstance(given, Mapping) or not isinstance(boundaries, list):
            raise BadSettings("settings and boundaries are missing or of the wrong kind")
        known = {field.name for field in fields(cls)} - {"boundaries"}
        unknown = sorted(map(str, set(given) - known))
        if unknown:
            raise BadSettings(f"unknown settings: {', '.join(unknown)}")
        missing = sorted({"token_budget", "max_batch_size"} - set(given))
        if missing:
            raise BadSettings(f"settings without {' and '.join(missing)}")
        return cls(boundaries=tuple(boundaries), **given)

    def to_json(self) -> dict[str, Any]:
        """The least document that ``from_json`` reads back as these settings."""
        settings = asdict(self)
        boundaries = list(settings.pop("boundaries"))
        return {"version": VERSION, "boundaries": boundaries, "settings": settings}


def load(path: str | os.PathLike[str] | None = None) -> Settings:
    """The settings in this file; None: the file that ``DFLASH_BUCKETS`` names.

    Raises:
        BadSettings: the variable is not set, or the file cannot be read or is no such file.
        BadBoundaries: its boundaries do not ascend from 0.
    """
    named = path if path is not None else os.environ.get(ENVIRONMENT)
    if not named:
        raise BadSettings(f"{ENVIRONMENT} is not set: it names the file of the boundaries")
    try:
        document = json.loads(Path(named).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadSettings(f"cannot read {os.fspath(named)}: {error}") from error
    if not isinstance(document, dict):
        raise BadSettings(f"{os.fspath(named)} holds no JSON object")
    return Settings.from_json(document)


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
