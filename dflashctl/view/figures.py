"""Figures as people read them, and as programs do."""

from __future__ import annotations

import math

from dflashctl.plan import words

UNKNOWN = "?"
_STEPS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))


def duration(seconds: float | None) -> str:
    """Two units at most: ``45 s``, ``12 min 5 s``, ``2 d 3 h``. Below 10 s one decimal."""
    if seconds is None or seconds != seconds:  # noqa: PLR0124 - only NaN differs from itself
        return UNKNOWN
    seconds = max(0.0, seconds)
    if seconds < 10:
        return f"{seconds:.1f} s"
    left = round(min(seconds, 1e12))
    parts: list[str] = []
    for unit, length in _STEPS:
        count, left = divmod(left, length)
        if count or parts:
            parts.append(f"{count} {unit}" if count else "")
    return " ".join(part for part in parts[:2] if part)


def size(count: float | None) -> str:
    """Bytes as plans write them: ``41.2 GB``."""
    return UNKNOWN if count is None or not math.isfinite(count) else words.size(round(count))


def moment(at: float | None) -> str:
    """Seconds since the epoch as ``2026-11-29 12:06 UTC``."""
    return UNKNOWN if at is None else words.moment(at)


def iso(at: float | None) -> str | None:
    """Seconds since the epoch as ``2026-11-29T12:06:03Z``; unknown stays None."""
    when = None if at is None else words.utc(at)
    return f"{when:%Y-%m-%dT%H:%M:%S}Z" if when else None
