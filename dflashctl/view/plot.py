"""Curves on a terminal, drawn with Braille dots."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

HEIGHT = 12
# A cell has two columns of four dots; the bits of U+2800 from the top left downwards.
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))


def plot(
    title: str, points: Sequence[tuple[float, float]], width: int, height: int = HEIGHT
) -> list[str]:
    """Lines no wider than ``width``: a title, the curve beside its scale, and where it goes.

    ``points`` are (step or time, value); of several in a column the lowest and the highest
    are joined, so that no spike is lost.
    """
    finite = [(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y)]
    if not finite:
        return [f"{title}: no values"]
    low, high = min(y for _, y in finite), max(y for _, y in finite)
    first, last = min(x for x, _ in finite), max(x for x, _ in finite)
    labels = [_label(high), _label(low / 2 + high / 2), _label(low)]
    margin = max(map(len, labels))
    cells = max(10, width - margin - 2)
    columns, rows = cells * 2, height * 4
    grid = [[0] * cells for _ in range(height)]
    for column, (bottom, top) in _spans(finite, columns, (first, last)).items():
        below, above = _row(bottom, low, high, rows), _row(top, low, high, rows)
        for dot in range(above, below + 1):
            grid[dot // 4][column // 2] |= _DOTS[column % 2][dot % 4]
    names = {0: labels[0], height // 2: labels[1], height - 1: labels[2]}
    drawn = [
        f"{names.get(number, ''):>{margin}} ┤{''.join(chr(0x2800 + bits) for bits in row)}"
        for number, row in enumerate(grid)
    ]
    left, right = _label(first), _label(last)
    foot = f"{' ' * margin} └{left}{' ' * max(1, cells - len(left) - len(right))}{right}"
    return [title, *(line.rstrip("⠀ ") for line in drawn), foot]


def _spans(
    points: Sequence[tuple[float, float]], columns: int, ends: tuple[float, float]
) -> dict[int, tuple[float, float]]:
    """The lowest and the highest value of each column that has one, joined to the one before."""
    first, last = ends
    width = last - first
    found: dict[int, tuple[float, float]] = {}
    before: float | None = None
    for x, y in points:
        column = round((x - first) / width * (columns - 1)) if width > 0 else 0
        bottom, top = found.get(column, (y, y))
        if before is not None and column not in found:
            bottom, top = min(bottom, before), max(top, before)
        found[column] = (min(bottom, y), max(top, y))
        before = y
    return found


def _row(value: float, low: float, high: float, rows: int) -> int:
    # Of halves, as the distance of two floats may be too large for one.
    height = high / 2 - low / 2
    share = (high / 2 - value / 2) / height if height > 0 else 0.5
    return min(rows - 1, max(0, round(share * (rows - 1))))


def _label(value: float) -> str:
    if abs(value) >= 1e6:
        return f"{value:.3g}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
