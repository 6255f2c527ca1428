"""What the bucket optimiser found: boundaries, tables, and the lengths drawn."""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import TYPE_CHECKING, Any

from dflashctl.plan.throughput import Calibration, predicted
from dflashctl.view import figures
from dflashctl.view.console import ACCENT
from dflashctl.view.sanitize import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rich.table import Table

    from dflashctl.view.again import Again
    from dflashctl.view.console import Screen

_HEIGHT = 8
_EIGHTHS = " ▁▂▃▄▅▆▇█"


def show_report(
    screen: Screen, report: dict[str, Any], path: str, measured: tuple[Calibration, ...]
) -> None:
    """The answer of ``optimize-buckets``."""
    from rich.text import Text

    screen.show(_head(report, path))
    screen.show(Text())
    screen.show(_per_bucket(report))
    screen.show(Text())
    screen.show(_drawing(report, screen.out.width))
    if report["strategies"] is not None:
        screen.show(Text())
        screen.show(_strategies(report, measured))
        if (simulated := report["strategies"][0]["samples"]) < report["samples"]:
            screen.show(Text(f"simulated with {simulated:,} of the samples; POOL is of these"))
    if measured:
        runs = ", ".join(f"{run.ktok_s:.1f} Ktok/s at {run.efficiency:.1%}" for run in measured)
        if report["strategies"] is None:
            screen.show(Text(f"\npredicted {_range(report, None, measured)} Ktok/s, from {runs}"))
        else:
            screen.show(Text(f"Ktok/s from {runs}, with and without waiting for the slowest rank"))


def show_parts(screen: Screen, parts: Mapping[str, Mapping[str, int | None]]) -> None:
    """What each target has of the dataset; nothing where it lies in one place."""
    from rich.table import Table
    from rich.text import Text

    if not parts:
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("TARGET", overflow="fold")
    for title in ("SAMPLES", "TOKENS", "SHORTEST", "LONGEST"):
        table.add_column(title, justify="right", no_wrap=True)
    for target, part in parts.items():
        row = (part[name] for name in ("samples", "tokens", "shortest", "longest"))
        name = Text(one_line(target), style=f"bold {ACCENT}")
        table.add_row(name, *("-" if each is None else f"{each:,}" for each in row))
    screen.show(table)
    screen.show(Text())


def show_detached(screen: Screen, again: Again, session: str) -> None:
    """An optimiser is at work on its own."""
    screen.write(f"at work      in tmux session {one_line(session)}\n")
    screen.write(f"look         {again.typed('status')}\n")
    screen.write(f"result       {again.typed('optimize-buckets', '--fetch')}\n")


def show_cancelled(screen: Screen, session: str) -> None:
    """A detached optimiser was ended."""
    screen.write(f"ended        tmux session {one_line(session)}; nothing of it is left to fetch\n")


def report_object(
    report: dict[str, Any],
    dataset: dict[str, Any],
    measured: tuple[Calibration, ...],
    written: Path | None,
) -> dict[str, Any]:
    """One target of ``optimize-buckets --json``."""

    def speed(efficiency: float, balance: float | None) -> dict[str, float] | None:
        if not measured:
            return None
        low, high = _speed(report, efficiency, balance, measured)
        return {"low_ktok_s": low, "high_ktok_s": high}

    strategies = report["strategies"]
    if strategies is not None:
        strategies = [
            {**one, "throughput": speed(one["efficiency"], one["rank_balance"])}
            for one in strategies
        ]
    return {
        **report,
        "strategies": strategies,
        "throughput": speed(report["expected_efficiency"], None),
        "dataset": dataset,
        "written": None if written is None else str(written),
        "error": None,
    }


def _head(report: dict[str, Any], path: str) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row(
        "dataset",
        Text(
            f"{one_line(path)}: {report['samples']:,} samples, {report['tokens']:,} tokens, "
            f"lengths {report['shortest']:,} to {report['longest']:,}"
        ),
    )
    edges = ", ".join(map(str, report["boundaries"]))
    table.add_row("boundaries", Text(f"[{edges}]", style=f"bold {ACCENT}"))
    if report["current"] is not None:
        edges = ", ".join(map(str, report["current"]["boundaries"]))
        table.add_row("in use now", Text(f"[{edges}]"))
    if report["proved"]:
        gap = "" if report["gap"] is None else f"; the quick search was off by {report['gap']:.4f}"
        table.add_row("proved", Text(f"no allowed boundaries are better{gap} points"))
    return table


def _per_bucket(report: dict[str, Any]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("BUCKET", no_wrap=True)
    for title in ("SAMPLES", "TOKENS", "BATCH", "EFFICIENCY", "BUDGET FILL"):
        table.add_column(title, justify="right", no_wrap=True)
    for bucket in report["per_bucket"]:
        share = bucket["tokens"] / report["tokens"]
        table.add_row(
            f"{bucket['low']:>6} to {bucket['high'] - 1:>6}",
            f"{bucket['samples']:,}",
            f"{share:.1%}",
            f"{bucket['mean_batch_size']:.1f}",
            _percent(bucket["efficiency"]),
            _percent(bucket["budget_fill"]),
        )
    windowed = report["settings"]["window"] > 1
    table.add_row(
        f"in total, window {report['settings']['window']}" if windowed else "in total",
        f"{report['samples']:,}",
        "100.0%",
        f"{report['mean_batch_size']:.1f}",
        Text(_percent(report["expected_efficiency"]), style=f"bold {ACCENT}"),
        _percent(report["budget_fill"]),
    )
    current = report["current"]
    if current is None:
        return table
    if current["expected_efficiency"] is None:
        table.add_row("in use now", "", "", "", "too short", "")
        return table
    table.add_row(
        "in use now",
        "",
        "",
        f"{current['mean_batch_size']:.1f}",
        _percent(current["expected_efficiency"]),
        _percent(current["budget_fill"]),
    )
    if current["boundaries"] == report["boundaries"]:
        table.add_row("gain", "none", "", "", "", "")
        return table
    points = 100 * (report["expected_efficiency"] - current["expected_efficiency"])
    fewer = 1 - current["expected_efficiency"] / report["expected_efficiency"]
    gain = Text(f"{points:+.2f}", style="bold green" if points > 0 else "")
    words = "fewer" if fewer >= 0 else "more"
    table.add_row("gain, points", f"{abs(fewer):.1%} {words} padded", "", "", gain, "")
    return table


def _percent(share: float | None) -> str:
    return figures.UNKNOWN if share is None else f"{share:.2%}"


def _drawing(report: dict[str, Any], width: int) -> Any:
    """The samples by length, columns growing with the length, the boundaries under them."""
    from rich.text import Text

    edges, samples = report["histogram"]["edges"], report["histogram"]["samples"]
    together = -(-len(samples) // width)  # a narrow terminal has room for fewer columns
    edges = [*edges[:-1:together], edges[-1]]
    samples = [sum(samples[at : at + together]) for at in range(0, len(samples), together)]
    # A column's height is samples for each bit of width, so that wider ones do not tower.
    heights = [
        count / math.log(high / low)
        for count, low, high in zip(samples, edges, edges[1:], strict=False)
    ]
    top = max(heights)
    inner = [edge for edge in report["boundaries"][1:-1] if edges[0] <= edge < edges[-1]]
    marked = {max(0, bisect_right(edges, edge) - 1) for edge in inner}
    text = Text()
    for row in reversed(range(_HEIGHT)):
        for column, height in enumerate(heights):
            eighths = round(height / top * _HEIGHT * 8) - 8 * row
            block = _EIGHTHS[max(0, min(8, eighths))]
            between = block == " " and column in marked
            text.append("│" if between else block, style=ACCENT if column in marked else "dim")
        text.append("\n")
    text.append(
        "".join("┴" if column in marked else "─" for column in range(len(heights))) + "\n", "dim"
    )
    text.append(_labels(edges, inner, len(heights)), "dim")
    return text


def _labels(edges: list[int], inner: list[int], width: int) -> str:
    """The boundaries under their columns, those that have room."""
    line = [" "] * (width + 8)

    def put(at: int, label: str) -> None:
        if all(char == " " for char in line[max(0, at - 1) : at + len(label) + 1]):
            line[at : at + len(label)] = label

    put(0, str(edges[0]))
    put(max(0, width - len(str(edges[-1] - 1))), str(edges[-1] - 1))
    for edge in inner:
        column = max(0, bisect_right(edges, edge) - 1)
        put(max(0, column - len(str(edge)) // 2), str(edge))
    return "".join(line).rstrip()


def _strategies(report: dict[str, Any], measured: tuple[Calibration, ...]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("STRATEGY", min_width=12)
    for title in ("EFF.", "FILL", "DEFF", "TV16", "POOL", "RANKS"):
        table.add_column(title, justify="right", no_wrap=True)
    if measured:
        table.add_column("KTOK/S", justify="right", no_wrap=True)
    for one in report["strategies"]:
        row = [
            Text(one["name"], style=f"bold {ACCENT}" if one["chosen"] else ""),
            Text(f"{one['efficiency']:.1%}"),
            Text(f"{one['budget_fill']:.1%}"),
            Text(_short(one["deff"])),
            Text(_short(one["tv16"])),
            Text(_pool(one["pool"])),
            Text(_short(one["rank_balance"])),
        ]
        if measured:
            row.append(Text(_range(report, one, measured)))
        table.add_row(*row)
    return table


def _short(value: float | None) -> str:
    return figures.UNKNOWN if value is None else f"{value:.2f}" if value < 10 else f"{value:.0f}"


def _pool(value: float | None) -> str:
    if value is None:
        return "all"
    return f"{value:.0f}" if value < 1000 else f"{value / 1000:.0f}k"


def _range(
    report: dict[str, Any], strategy: dict[str, Any] | None, measured: tuple[Calibration, ...]
) -> str:
    """The Ktok/s of a strategy, or of the boundaries that were found."""
    efficiency = strategy["efficiency"] if strategy else report["expected_efficiency"]
    balance = strategy["rank_balance"] if strategy else None
    low, high = _speed(report, efficiency, balance, measured)
    return f"{low:.1f}" if f"{low:.1f}" == f"{high:.1f}" else f"{low:.1f}-{high:.1f}"


def _speed(
    report: dict[str, Any],
    efficiency: float,
    balance: float | None,
    measured: tuple[Calibration, ...],
) -> tuple[float, float]:
    """Ktok/s; the measured runs are taken to have had the buckets that are in use now."""
    then = None
    if balance is not None:
        named = {one["name"]: one["rank_balance"] for one in report["strategies"] or ()}
        then = named.get("buckets in use now", named.get("buckets, random order"))
    return predicted(efficiency, balance, measured, then)
