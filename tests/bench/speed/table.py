"""The figures beside what they must be."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.bench.speed.timing import Sample, Samples


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure.

    Attributes:
        what: what was measured.
        figure: what came out, in ``unit``.
        most, least: its limits; None: there is none. A row without limits only tells.
        beside: what else there is to know of it.
    """

    what: str
    figure: float
    unit: str
    most: float | None = None
    least: float | None = None
    beside: str = ""

    @property
    def met(self) -> bool | None:
        """Whether it keeps its limits, as it is shown; None: it has none."""
        if self.most is None and self.least is None:
            return None
        shown = float(_number(self.figure))
        return (self.most is None or shown <= self.most) and (
            self.least is None or shown >= self.least
        )

    @property
    def must(self) -> str:
        """Its limit in words."""
        if self.most is not None:
            return f"at most {_with(self.most, self.unit)}"
        return f"at least {_with(self.least, self.unit)}" if self.least is not None else ""


@dataclass(slots=True)
class Book:
    """All that was found out."""

    rows: list[Row] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)

    def add(self, what: str, figure: float, unit: str, **more: Any) -> None:
        """A row; `Row` says what may be given."""
        self.rows.append(Row(what=what, figure=figure, unit=unit, **more))
        print(f"   {_line(self.rows[-1])}", flush=True)

    def keep(self, part: str, measured: Mapping[str, Samples]) -> None:
        """The samples, for the file."""
        self.figures[part] = {
            way: {
                f"{1000 * delay:.0f} ms": [_plain(one) for one in runs]
                for delay, runs in samples.by_delay.items()
            }
            for way, samples in measured.items()
        }

    def skip(self, what: str, why: str) -> None:
        """What could not be measured here."""
        self.skipped.append(f"{what}: {why}")
        print(f"   skipped: {what}: {why}", flush=True)

    def table(self) -> str:
        """The rows as a table of Markdown."""
        head = ["| what | must | measured | |", "|---|---|---|---|"]
        return "\n".join(
            [*head, *map(_line, self.rows), *(f"\nskipped: {one}" for one in self.skipped)]
        )

    def plain(self) -> dict[str, Any]:
        """All of it for JSON."""
        rows = [
            {
                "what": row.what,
                "figure": round(row.figure, 4),
                "unit": row.unit,
                "most": row.most,
                "least": row.least,
                "met": row.met,
                "beside": row.beside,
            }
            for row in self.rows
        ]
        return {"rows": rows, "skipped": self.skipped, "samples": self.figures}


def times(measured: Mapping[str, Samples]) -> str:
    """The medians and slopes of several ways, as a table of Markdown."""
    delays = sorted({delay for samples in measured.values() for delay in samples.by_delay})
    lines = [
        "| way | "
        + " | ".join(f"{1000 * one:.0f} ms" for one in delays)
        + " | slope | chain | pct |",
        "|---|" + "---|" * (len(delays) + 3),
    ]
    for name, samples in measured.items():
        seconds = " | ".join(f"{samples.seconds(one):.2f} s" for one in delays)
        slope = f"{samples.slope():.1f}" if len(delays) > 1 else ""
        chain, pct = samples.least(lambda one: one.round_trips), samples.least(lambda one: one.pct)
        counted = f"{chain:.1f} | {pct:.0f}" if chain else " | "  # else nothing passed the proxy
        lines.append(f"| {name} | {seconds} | {slope} | {counted} |")
    return "\n".join(lines)


def _line(row: Row) -> str:
    verdict = {True: "met", False: "MISSED", None: ""}[row.met]
    measured = " ".join(
        filter(None, (_with(row.figure, row.unit), row.beside and f"({row.beside})"))
    )
    return f"| {row.what} | {row.must} | {measured} | {verdict} |"


def _with(value: float, unit: str) -> str:
    return f"{_number(value)} {unit}".strip()


def _number(value: float) -> str:
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:.{digits}f}".rstrip("0").rstrip(".") if digits else f"{value:.0f}"


def _plain(sample: Sample) -> dict[str, float]:
    return {
        "wall_s": round(sample.wall_s, 4),
        "cpu_s": round(sample.cpu_s, 4),
        "peak_kib": sample.peak_kib,
        "round_trips": sample.round_trips,
        "sent": sample.sent,
        "received": sample.received,
        "pct": sample.pct,
    }
