"""Many targets at a glance: how many stand how, the sick first, alike ones on one line."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dflashctl.agent.seen import LIVE_STATES
from dflashctl.plan.words import counted
from dflashctl.view import figures
from dflashctl.view.console import ACCENT
from dflashctl.view.metrics import count, rate
from dflashctl.view.nodes import one_a_run
from dflashctl.view.outcome import show_error
from dflashctl.view.sanitize import one_line
from dflashctl.view.status import (
    details,
    ending,
    fits,
    rows_of,
    run_shown,
    state_text,
    state_word,
    style_of,
)
from dflashctl.view.words import words_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

    from dflashctl.agent.seen import Gpu, MetricsSeen
    from dflashctl.view.console import Screen
    from dflashctl.view.status import Report

# So many have rows of their own; more of them would fill a screen.
ROWS = 8
# So many sick ones that are alike keep a line each, since each is to be gone to.
_ALIKE = 3
_UNGROUPED = "in no group"
_CALLED = {"ADOPTED": "started by hand", "NONE": "never started"}
_ORDER = (
    "RUNNING", "ADOPTED", "STARTING", "FINISHED", "STOPPED", "NONE", "STALLED", "ORPHANED",
    "INTERRUPTED", "FAILED", "UNREACHABLE", "unknown",
)  # fmt: skip


def show_status(
    screen: Screen, reports: tuple[Report, ...], groups: Mapping[str, tuple[str, ...]]
) -> None:
    """The answer of ``status``, on standard output; what to do about errors beside it."""
    for part in _whole(screen.out, reports, groups):
        screen.show(part)
    for first, *others in alike(reports):
        assert first.error is not None, "only those with one are told"
        show_error(screen, first.error, tuple(report.target for report in others))


def _whole(
    console: Console, reports: tuple[Report, ...], groups: Mapping[str, tuple[str, ...]]
) -> list[RenderableType]:
    return overview(console, reports, groups) if len(reports) > 1 else [details(reports[0])]


def overview(
    console: Console, reports: tuple[Report, ...], groups: Mapping[str, tuple[str, ...]]
) -> list[RenderableType]:
    """Several targets: a summary, then a row for each, or lines that stand for many."""
    from rich.text import Text

    shown = one_a_run(reports)
    ordered = sick_first(shown)
    if len(shown) == 1:
        return [details(shown[0])]
    if len(shown) > ROWS:
        return [summary(reports), Text(), _lines_table(console, ordered, groups)]
    rows = rows_of(ordered)
    if fits(console, rows):
        return [summary(reports), Text(), rows]
    parts: list[RenderableType] = [summary(reports)]
    for report in ordered:
        parts += [Text(), details(report)]
    return parts


def summary(reports: Sequence[Report]) -> Text:
    """``64 targets: 61 running (2 with a verdict), 1 failed, 2 unreachable``."""
    from rich.text import Text

    states = Counter(map(state_word, reports))
    judged = sum(1 for report in reports if report.verdicts and state_word(report) == "RUNNING")
    text = Text(f"{counted(len(reports), 'target')}: ")
    for number, state in enumerate(sorted(states, key=_ORDER.index)):
        text.append(", " if number else "")
        called = _CALLED.get(state, state.lower())
        text.append(f"{states[state]} {called}", style=style_of(state))
        if state == "RUNNING" and judged:
            text.append(f" ({judged} with a verdict)", style="yellow")
    return text


def sick_first(reports: Sequence[Report]) -> tuple[Report, ...]:
    """What is broken, then what has a verdict against it, then the rest, each as it was."""
    return tuple(sorted(reports, key=_health))


def alike(reports: Iterable[Report]) -> list[list[Report]]:
    """The reports with an error, those of one error together: a dead host has many targets."""
    found: dict[tuple[str, str], list[Report]] = {}
    for report in reports:
        if report.error is not None:
            found.setdefault(_error_key(report), []).append(report)
    return list(found.values())


def _error_key(report: Report) -> tuple[str, str]:
    assert report.error is not None, "only those with one are compared"
    message = words_for(report.error).message
    return report.error.code, message.replace(report.target, "")


def _health(report: Report) -> int:
    if report.error is not None or state_word(report) in {"FAILED", "INTERRUPTED", "ORPHANED"}:
        return 0
    return 1 if report.verdicts else 2


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """Targets that stand alike. ``label``: what they are called together."""

    reports: tuple[Report, ...]
    label: str


def _lines(ordered: Sequence[Report], groups: Mapping[str, tuple[str, ...]]) -> Iterator[_Line]:
    sick = [report for report in ordered if _health(report) < 2]
    together: dict[object, list[Report]] = {}
    for report in sick:
        together.setdefault(_sick_key(report), []).append(report)
    for same in together.values():
        if same[0].error is None and len(same) <= _ALIKE:
            yield from (_Line(reports=(one,), label=one.target) for one in same)
        else:
            more = f" and {len(same) - 1} more" if len(same) > 1 else ""
            yield _Line(reports=tuple(same), label=f"{same[0].target}{more}")
    healthy: dict[tuple[str, str], list[Report]] = {}
    called = _labels([report.target for report in ordered if _health(report) == 2], groups)
    for report in ordered:
        if report.target in called:
            key = (called[report.target], state_word(report))
            healthy.setdefault(key, []).append(report)
    for (label, _), same in healthy.items():
        one = len(same) == 1
        yield _Line(reports=tuple(same), label=same[0].target if one else f"{len(same)} {label}")


def _sick_key(report: Report) -> object:
    if report.error is not None:
        return _error_key(report)
    run = None if report.seen is None else run_shown(report.seen)
    how = ending(run) if run is not None and run.ended_at is not None else ""
    return state_word(report), tuple(verdict.code for verdict in report.verdicts), how


def _labels(names: Sequence[str], groups: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """What each is counted under: its smallest group, else its host, if those are few."""
    smallest = sorted(groups.items(), key=lambda group: len(group[1]), reverse=True)
    within = {name: f"in {group}" for group, members in smallest for name in members}
    hosts = {name.partition("/")[0] for name in names if "/" in name and name not in within}
    few = len(hosts) <= ROWS
    return {
        name: within.get(name)
        or (f"on {name.partition('/')[0]}" if few and "/" in name else _UNGROUPED)
        for name in names
    }


def _lines_table(
    console: Console, ordered: Sequence[Report], groups: Mapping[str, tuple[str, ...]]
) -> Table:
    from rich.table import Table

    lines = list(_lines(ordered, groups))
    columns: list[tuple[str, Callable[[_Line], Text | str]]] = [
        ("TARGETS", _name), ("STATE", _state), ("RUN", _run), ("GPUS", _gpus),
    ]  # fmt: skip

    def table(upto: int) -> Table:
        made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        for title, _ in columns[:upto]:
            made.add_column(title, overflow="fold")
        for line in lines:
            made.add_row(*(cell(line) for _, cell in columns[:upto]))
        return made

    whole = table(4)  # the GPUs can be asked of the few that matter
    return whole if fits(console, whole) else table(3)


def _name(line: _Line) -> Text:
    from rich.text import Text

    return Text(one_line(line.label), style=f"bold {ACCENT}")


def _state(line: _Line) -> Text:
    return state_text(line.reports[0])


def _run(line: _Line) -> Text:
    """How far they are, how it ended, or why it is not known."""
    from rich.text import Text

    first = line.reports[0]
    if first.error is not None:
        told = getattr(first.error, "reason", "") or first.error.code.replace("_", " ")
        return Text(one_line(told), style="red")
    runs = [
        (run, report.seen.now)
        for report in line.reports
        if report.seen is not None and (run := run_shown(report.seen)) is not None
    ]
    ended = [now - run.ended_at for run, now in runs if run.ended_at is not None]
    if ended:
        ago = _spread([max(0.0, each) for each in ended], figures.duration)
        return Text(one_line(f"{ending(runs[0][0])}, {ago} ago"))
    metrics = _metrics(line)
    return Text(", ".join(filter(None, (_progress(metrics), _speed(metrics)))) or "-")


def _progress(metrics: Sequence[MetricsSeen]) -> str:
    shares = [one.step / one.total_steps for one in metrics if one.step and one.total_steps]
    if shares:
        return _spread(shares, "{:.0%}".format)
    steps = [one.step for one in metrics if one.step is not None]
    return f"step {_spread(steps, count)}" if steps else ""


def _speed(metrics: Sequence[MetricsSeen]) -> str:
    tokens = [one.tokens_per_s for one in metrics if one.tokens_per_s]
    if tokens:
        return _spread(tokens, lambda value: rate(value, "tok/s"))
    steps = [one.steps_per_s for one in metrics if one.steps_per_s]
    return _spread(steps, lambda value: rate(value, "steps/s")) if steps else ""


def _gpus(line: _Line) -> str:
    gpus: list[Gpu] = []
    for report in line.reports:
        if report.seen is not None and report.seen.gpus is not None:
            gpus += report.seen.gpus.gpus
    use = [gpu.utilization_pct for gpu in gpus if gpu.utilization_pct is not None]
    return f"{len(gpus)}x {_spread(use, '{:.0f}%'.format)}".rstrip() if gpus else "-"


def _metrics(line: _Line) -> list[MetricsSeen]:
    """Of a run that is over they say nothing about now."""
    return [
        report.seen.metrics
        for report in line.reports
        if report.seen is not None
        and report.seen.metrics is not None
        and report.seen.state in LIVE_STATES
    ]


def _spread(values: Sequence[float], words: Callable[[float], str]) -> str:
    """The lowest and the highest, or the one that all are; the unit once."""
    if not values:
        return ""
    low, high = words(min(values)), words(max(values))
    if low == high:
        return high
    unit = high.lstrip("0123456789.,")
    return f"{low.removesuffix(unit) if unit else low} to {high}"
