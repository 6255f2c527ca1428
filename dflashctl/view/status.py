"""The status table: details for one target, one row each for many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dflashctl.agent.seen import LIVE_STATES
from dflashctl.view import figures
from dflashctl.view.console import ACCENT
from dflashctl.view.gpus import gpu_lines, gpus_in_short
from dflashctl.view.metrics import in_short, metric_lines
from dflashctl.view.nodes import node_lines
from dflashctl.view.sanitize import clean, one_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from dflashctl.agent.seen import BucketsSeen, DiskSeen, Observed, OptimizerSeen
    from dflashctl.agent.watching import RestartSeen
    from dflashctl.errors import DflashError
    from dflashctl.plan.nodes import Across

_STYLES = {
    "RUNNING": "green",
    "ADOPTED": "green",
    "STARTING": "yellow",
    "STALLED": "yellow",
    "ORPHANED": "yellow",
    "INTERRUPTED": "yellow",
    "FAILED": "red",
    "UNREACHABLE": "red",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Something that speaks against a run that is alive. ``since``: epoch seconds."""

    code: str
    since: float | None
    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What is known of one target: what was seen, or why nothing could be.

    ``last``: what was seen before, so long ago, where nothing can be seen now. ``across``: the
    run over several targets that it is a node of.
    """

    target: str
    seen: Observed | None = None
    error: DflashError | None = None
    verdicts: tuple[Verdict, ...] = ()
    last: Observed | None = None
    last_age_s: float | None = None
    across: Across | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunShown:
    """The run that a status speaks of: ours, or the hand-started one that now lives."""

    id: str | None
    pid: int | None
    started_at: float | None
    ended_at: float | None
    elapsed_s: float | None
    exit_code: int | None = None
    exit_name: str | None = None
    signal: str | None = None
    oom: bool | None = None
    release: str | None = None
    buckets: BucketsSeen | None = None


def run_shown(seen: Observed) -> RunShown | None:
    """Of an adopted session it is the session's own process, never an older run of ours."""
    if seen.state == "ADOPTED" and seen.session is not None:
        begun = seen.session.created_at
        return RunShown(
            id=None,
            pid=seen.session.pane_pid,
            started_at=begun,
            ended_at=None,
            elapsed_s=None if begun is None else max(0.0, seen.now - begun),
        )
    run = seen.run
    if run is None:
        return None
    end = run.ended_at if run.ended_at is not None else seen.now
    known = run.ended_at is not None or run.state in LIVE_STATES
    return RunShown(
        id=run.id,
        pid=run.pid,
        started_at=run.started_at,
        ended_at=run.ended_at,
        elapsed_s=max(0.0, end - run.started_at) if known else None,
        exit_code=run.exit_code,
        exit_name=run.exit_name,
        signal=run.signal,
        oom=run.oom,
        release=run.release,
        buckets=run.buckets,
    )


def disk_shown(seen: Observed) -> DiskSeen | None:
    """The disk of the checkpoints, which is the one that fills up; else the first."""
    if seen.checkpoints is not None:
        for disk in seen.disks:
            if disk.path == seen.checkpoints.path:
                return disk
    return seen.disks[0] if seen.disks else None


def fits(console: Console, table: Table, beside: int = 0) -> bool:
    """Whether it can be drawn without cutting anything short, ``beside`` so many columns."""
    from rich.measure import Measurement

    roomy = console.options.update(max_width=10_000)
    return Measurement.get(console, roomy, table).maximum + beside <= console.width


def state_word(report: Report) -> str:
    """The state in a word: the agent's own, or what the way to it makes of it."""
    if report.seen is not None:
        stalled = any(verdict.code == "stalled" for verdict in report.verdicts)
        return "STALLED" if stalled else report.seen.state
    if report.error is not None and report.error.code in ("unreachable", "link_lost"):
        return "UNREACHABLE"
    return "unknown"


def style_of(word: str) -> str:
    """How a state's word is drawn."""
    return _STYLES.get(word, "red" if word == "unknown" else "")


def state_text(report: Report) -> Text:
    """The state with what speaks against it, or with the last one known."""
    from rich.text import Text

    word = state_word(report)
    text = Text(word, style=f"bold {style_of(word)}".strip())
    if report.last is not None and report.seen is None:
        text.append(f", {report.last.state} {figures.duration(report.last_age_s)} ago")
    for verdict in report.verdicts:
        if verdict.code == "stalled":
            continue
        text.append(f" {verdict.code.replace('_', ' ')}", style="yellow")
    return text


def details(report: Report, without: str = "") -> Table:
    """One target as a list of what is known; ``without`` one of its facts."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("target", Text(one_line(report.target), style=f"bold {ACCENT}"))
    table.add_row("state", state_text(report))
    if report.across is not None:
        table.add_row("nodes", _lines(node_lines(report.across)))
    if report.error is not None:
        table.add_row("error", Text(report.error.code.replace("_", " ")))
    seen = report.seen or report.last
    if seen is not None:
        for label, lines in _facts(seen):
            if label != without:
                table.add_row(label, _lines(lines))
    for verdict in report.verdicts:
        table.add_row("verdict", Text(one_line(verdict.evidence), style="yellow"))
    return table


def _lines(lines: list[str]) -> Text:
    """Lines that keep their blanks, so that figures stand under one another."""
    from rich.text import Text

    return Text("\n".join(clean(line).replace("\n", " ") for line in lines))


def _facts(seen: Observed) -> Iterable[tuple[str, list[str]]]:
    run = run_shown(seen)
    yield "session", [_session(seen)]
    if run is not None:
        yield "run", [run.id or "started by hand"]
        if run.pid is not None:
            yield "pid", [str(run.pid)]
        if run.started_at is not None:
            yield "since", [f"{figures.moment(run.started_at)}{_elapsed(run)}"]
        if run.ended_at is not None:
            yield "ended", [f"{figures.moment(run.ended_at)}, {ending(run)}"]
    yield from metric_lines(seen)
    if seen.gpus is not None:
        yield "GPUs", gpu_lines(seen)
    if seen.checkpoints is not None:
        yield "checkpoints", [_checkpoints(seen)]
    disk = disk_shown(seen)
    if disk is not None:
        yield "disk", [f"{figures.size(disk.free)} free of {figures.size(disk.total)}"]
    if run is not None and run.release:
        yield "release", [run.release]
    if run is not None and run.buckets is not None:
        yield "buckets", [buckets_line(run.buckets)]
    yield from _beside(seen)


def _beside(seen: Observed) -> Iterable[tuple[str, list[str]]]:
    """What else is at work, or was, on the job."""
    if seen.restart is not None:
        yield "restart", [restart_line(seen.restart, seen.now)]
    if seen.optimizer is not None:
        yield "optimizer", [optimizer_line(seen.optimizer)]
    if seen.lock is not None:
        yield "at work", [f"{seen.lock.who}, since {figures.moment(seen.lock.since)}"]
    if seen.cut is not None:
        yield "cut off", [f"transaction {seen.cut.id} of {seen.cut.who}, in step {seen.cut.step}"]


def _elapsed(run: RunShown) -> str:
    return "" if run.elapsed_s is None else f" ({figures.duration(run.elapsed_s)})"


def _session(seen: Observed) -> str:
    if seen.session is None:
        return "none"
    kind = ", started by hand" if seen.session.adopted else ""
    watched = seen.session.attached
    return f"{seen.session.name}{kind}{f', {watched} attached' if watched else ''}"


def ending(run: RunShown) -> str:
    """How a run ended: exit code, signal, or the kernel's memory killer."""
    parts = []
    if run.oom:
        parts.append("out of memory")
    if run.signal:
        parts.append(f"signal {run.signal}")
    elif run.exit_code is not None:
        name = f" ({run.exit_name})" if run.exit_name not in (None, "finished", "failed") else ""
        parts.append(f"exit code {run.exit_code}{name}")
    return ", ".join(parts) or "how is unknown"


def _checkpoints(seen: Observed) -> str:
    store = seen.checkpoints
    if store is None:
        return "not in the playbook"
    if not store.exists:
        return "no folder yet"
    if not store.count:
        return "none"
    age = "" if store.latest_at is None else f" ({_ago(seen, store.latest_at)})"
    return f"{store.count}, latest {store.latest or figures.UNKNOWN}{age}, " + figures.size(
        store.size
    )


def _ago(seen: Observed, at: float) -> str:
    return f"{figures.duration(max(0.0, seen.now - at))} ago"


def rows_of(reports: tuple[Report, ...]) -> Table:
    """Many targets, two lines each."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for title in ("TARGET", "RUN", "GPUS"):
        table.add_column(title, no_wrap=True)
    table.add_column("CHECKPOINTS")
    for report in reports:
        first = Text(one_line(report.target), style=f"bold {ACCENT}")
        cells = [first.append("\n").append_text(state_text(report))]
        if report.seen is not None:
            columns = (_run_in_short(report.seen), gpus_in_short(report.seen),
                       _store_in_short(report.seen))  # fmt: skip
            cells += [_lines(lines) for lines in columns]
        elif report.error is not None:
            cells.append(Text(report.error.code.replace("_", " "), style="red"))
        table.add_row(*cells)
    return table


def _run_in_short(seen: Observed) -> list[str]:
    run = run_shown(seen)
    if run is None:
        return ["-"]
    if run.ended_at is not None:
        how = f"{ending(run)}, {_ago(seen, run.ended_at)}"
    else:
        pid = "" if run.pid is None else f"pid {run.pid}, "
        how = f"{pid}{figures.duration(run.elapsed_s)}"
    live = run.ended_at is None and seen.metrics is not None
    progress = [in_short(seen.metrics)] if seen.metrics is not None and live else []
    return [run.id or "started by hand", how, *filter(None, progress)]


def _store_in_short(seen: Observed) -> list[str]:
    store, disk = seen.checkpoints, disk_shown(seen)
    lines = []
    if store is not None and not store.exists:
        lines.append("no folder yet")
    elif store is not None:
        latest = store.latest if store.latest_step is None else f"step {store.latest_step}"
        lines.append(f"{store.count}, {latest}" if store.count else "none")
        if store.count:
            lines.append(figures.size(store.size))
    if disk is not None:
        lines.append(f"{figures.size(disk.free)} free")
    return lines or ["-"]


def buckets_line(buckets: BucketsSeen) -> str:
    """A run's boundaries in short: hash, how many, and what they were to give."""
    count = len(buckets.boundaries) - 1
    expected = buckets.expected_efficiency
    given = "" if expected is None else f", {expected:.2%} expected"
    return f"{buckets.sha256}, {count} buckets{given}"


def restart_line(restart: RestartSeen, now: float) -> str:
    """What the watchdog does about a failure."""
    attempt = f"attempt {restart.number} of {restart.limit}"
    due = figures.moment(restart.due_at)
    match restart.came:
        case "waits":
            left = figures.duration(max(0.0, restart.due_at - now))
            return f"{attempt} due {due} (in {left}); dflashctl stop cancels it"
        case "started":
            return f"{attempt} made: run {restart.why}"
        case "cancelled":
            return f"{attempt} cancelled by {restart.why}"
        case "given_up":
            return f"given up: {restart.why}"
        case "unwatched":
            return f"{attempt} was due {due}, but the watchdog is gone: dflashctl start makes it"


def optimizer_line(seen: OptimizerSeen) -> str:
    """How a detached optimiser stands, for ``status``."""
    if seen.state == "working":
        share = "" if seen.share is None else f" {seen.share:.0%}"
        return f"at work in tmux session {seen.session}: {seen.stage or 'starting'}{share}"
    ended = "" if seen.ended_at is None else f" at {figures.moment(seen.ended_at)}"
    if seen.state == "done":
        return f"done{ended}; optimize-buckets --fetch"
    return f"failed{ended}; optimize-buckets --fetch tells why"
