"""The rows of a run's metrics: as a table, as CSV, as curves, as JSON; and two runs' together."""

from __future__ import annotations

import csv
import io
import json
import math
from typing import TYPE_CHECKING, Any

from dflashctl.agent.metrics import METRICS
from dflashctl.plan import words
from dflashctl.view import figures
from dflashctl.view.metrics import rate, short
from dflashctl.view.plot import plot

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.table import Table

Row = dict[str, float]
# What people call the metrics in --plot.
NAMES = {
    "throughput": "tokens_per_s",
    "lr": "learning_rate",
    "acc": "accuracy",
    "grad": "grad_norm",
}
_TITLES = {
    "total_steps": "of", "accuracy": "acc", "learning_rate": "lr", "grad_norm": "grad",
    "tokens_per_s": "tok/s", "steps_per_s": "steps/s", "samples_per_s": "samples/s",
    "eta_s": "left",
}  # fmt: skip
COMPARED = 12


def read_rows(text: str) -> list[Row]:
    """Lines of ``metrics.jsonl``; a line that is none is passed over."""
    rows = []
    for line in text.splitlines():
        try:
            value = json.loads(line)
            rows.append({str(name): float(item) for name, item in value.items()})
        except (ValueError, TypeError, AttributeError):
            continue
    return [row for row in rows if "t" in row]


def since(rows: Sequence[Row], seconds: float | None) -> list[Row]:
    """The rows of the last so many seconds before the newest one."""
    if seconds is None or not rows:
        return list(rows)
    return [row for row in rows if row["t"] >= rows[-1]["t"] - seconds]


def columns(rows: Iterable[Row]) -> list[str]:
    """The metrics that any row has."""
    there = {name for row in rows for name in row}
    return [name for name in METRICS if name in there]


def table(rows: Sequence[Row]) -> Table:
    """A line for each row."""
    from rich.table import Table

    names = [name for name in columns(rows) if name != "total_steps"]
    drawn = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    drawn.add_column("time", no_wrap=True)
    for name in names:
        drawn.add_column(_TITLES.get(name, name), justify="right", no_wrap=True)
    for row in rows:
        when = words.utc(row["t"])
        clock = f"{when:%m-%d %H:%M:%S}" if when else figures.UNKNOWN
        drawn.add_row(clock, *(_cell(name, row.get(name)) for name in names))
    return drawn


def _cell(name: str, value: float | None) -> str:
    if value is None:
        return ""
    if not math.isfinite(value):
        return str(value)
    if name in ("step", "tokens"):
        return f"{value:,.0f}"
    if name == "eta_s":
        return figures.duration(value)
    if name.endswith("_per_s"):
        return rate(value, "").strip()
    return short(value)


def as_csv(rows: Sequence[Row]) -> str:
    """All of it, with a header; times in ISO 8601."""
    names = columns(rows)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["time", *names])
    for row in rows:
        cells = ("" if name not in row else f"{row[name]:.15g}" for name in names)
        writer.writerow([_iso(row["t"]), *cells])
    return out.getvalue()


def as_objects(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """For JSON: what is not finite is null."""
    return [
        {"time": _iso(row["t"])}
        | {name: row[name] if math.isfinite(row[name]) else None for name in row if name != "t"}
        for row in rows
    ]


def _iso(at: float) -> str:
    when = words.utc(at)
    if when is None:
        return figures.UNKNOWN
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def curves(rows: Sequence[Row], names: Sequence[str], width: int) -> str:
    """A plot for each name, over the steps, or over the time where there are none."""
    lines = []
    for name in names:
        points = [
            (row.get("step", row["t"] - rows[0]["t"]), row[name]) for row in rows if name in row
        ]
        lines += [*plot(name, points, width), ""]
    return "\n".join(lines[:-1]) + "\n"


def compared(first: Sequence[Row], second: Sequence[Row]) -> list[dict[str, float | None]]:
    """Both runs at the same steps: means over equal stretches of the steps that both have.

    Each entry has ``step`` (the stretch's end), and of each run ``loss``, ``tokens_per_s``
    and ``seconds`` since its first row, under ``a_`` and ``b_``.
    """
    runs = [[row for row in rows if "step" in row] for rows in (first, second)]
    if not all(runs):
        return []
    low = max(min(row["step"] for row in rows) for rows in runs)
    high = min(max(row["step"] for row in rows) for rows in runs)
    if high < low:
        return []
    found = []
    for number in range(COMPARED):
        start = low + (high - low) * number / COMPARED
        end = low + (high - low) * (number + 1) / COMPARED
        entry: dict[str, float | None] = {"step": round(end)}
        for letter, rows in zip("ab", runs, strict=True):
            inside = [row for row in rows if start < row["step"] <= end or row["step"] == end]
            for name in ("loss", "tokens_per_s"):
                entry[f"{letter}_{name}"] = _mean([row[name] for row in inside if name in row])
            entry[f"{letter}_seconds"] = inside[-1]["t"] - rows[0]["t"] if inside else None
        found.append(entry)
    return [entry for entry in found if any(v is not None for n, v in entry.items() if n != "step")]


def _mean(values: Sequence[float]) -> float | None:
    finite = [value for value in values if math.isfinite(value)]
    return sum(finite) / len(finite) if finite else None


def comparison(entries: Sequence[dict[str, float | None]]) -> Table:
    """Two runs side by side."""
    from rich.table import Table

    drawn = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for title in ("step", "loss A", "loss B", "tok/s A", "tok/s B", "time A", "time B"):
        drawn.add_column(title, justify="right", no_wrap=True)
    for entry in entries:
        cells = [f"{entry['step']:,.0f}"]
        cells += [_cell("loss", entry[f"{letter}_loss"]) for letter in "ab"]
        cells += [_cell("tokens_per_s", entry[f"{letter}_tokens_per_s"]) for letter in "ab"]
        cells += [_cell("eta_s", entry[f"{letter}_seconds"]) for letter in "ab"]
        drawn.add_row(*cells)
    return drawn
