"""The runs on record: a row each, one in full, or what sets two apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dflashctl.agent.seen import LIVE_STATES
from dflashctl.plan import words
from dflashctl.view import figures
from dflashctl.view.console import ACCENT
from dflashctl.view.diff import show_diffs, show_lines
from dflashctl.view.sanitize import clean, one_line
from dflashctl.view.status import fits, restart_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.table import Table
    from rich.text import Text

    from dflashctl.agent.recorded import RunRecord, RunsListed, Source
    from dflashctl.agent.seen import MetricsSeen, RunSeen
    from dflashctl.plan.runs import Differing, RunDiff
    from dflashctl.view.console import Screen

_STYLES = {"RUNNING": "green", "STARTING": "yellow", "ORPHANED": "yellow", "FAILED": "red"}
FILES_SHOWN = 12
DIFF_SHOWN = 40


def show_runs(screen: Screen, target: str, listed: RunsListed) -> None:
    """A row a run, the oldest first, the current one marked with a star."""
    from rich.text import Text

    if not listed.runs:
        screen.show(Text(f"no run on record on {one_line(target)}"))
        return
    # Where the window is too narrow for all columns, the last of them are left out.
    tables = [_rows(listed, _COLUMNS[:count]) for count in _COUNTS]
    screen.show(next((table for table in tables if fits(screen.out, table)), tables[-1]))


_COUNTS = (7, 5, 4, 2, 1)
_COLUMNS = ("RUN", "STATE", "LASTED", "STEP", "RELEASE", "LOSS", "BY")


def _rows(listed: RunsListed, columns: tuple[str, ...]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for title in columns:
        right = title in ("STEP", "LOSS")
        table.add_column(
            title,
            no_wrap=title != "RUN",
            overflow="fold",
            justify="right" if right else "left",
        )
    for run in listed.runs:
        name = Text(one_line(run.id), style=f"bold {ACCENT}" if run.id == listed.current else "")
        if run.id == listed.current:
            name.append(" *", style="green")
        last = listed.metrics.get(run.id)
        cells = (
            name,
            _state(run),
            Text(figures.duration(elapsed(run, listed.now))),
            Text("" if last is None or last.step is None else f"{last.step:.0f}"),
            Text(run.release),
            Text("" if last is None or last.loss is None else f"{last.loss:.4g}"),
            Text(one_line(run.started_by)),
        )
        table.add_row(*cells[: len(columns)])
    return table


def elapsed(run: RunSeen, now: float) -> float | None:
    """Seconds from its start to its end, or until now while it lives; else unknown."""
    if run.ended_at is not None:
        return max(0.0, run.ended_at - run.started_at)
    return max(0.0, now - run.started_at) if run.state in LIVE_STATES else None


def _state(run: RunSeen) -> Text:
    from rich.text import Text

    return Text(run.state, style=_STYLES.get(run.state, ""))


def show_run(screen: Screen, record: RunRecord, *, whole: bool) -> None:
    """One run in full. ``whole``: its uncommitted changes too, however many."""
    from rich.text import Text

    table = _labelled()
    run = record.run
    table.add_row("run", Text(one_line(run.id), style=f"bold {ACCENT}"))
    table.add_row("state", _state(run))
    for label, lines in _facts(record):
        text = "\n".join(clean(line).replace("\n", " ") for line in lines)
        table.add_row(label, Text(text))
    screen.show(table)
    source = record.source
    if source is not None and source.diff:
        lines = source.diff.splitlines()
        if whole or len(lines) <= DIFF_SHOWN:
            show_lines(screen.out, lines)


def _labelled() -> Table:
    from rich.table import Table

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    return table


def _facts(record: RunRecord) -> Iterator[tuple[str, list[str]]]:
    run = record.run
    tool = f" with dflashctl {record.version}" if record.version else ""
    yield "started", [f"{figures.moment(run.started_at)} by {run.started_by}{tool}"]
    if (made := record.attempt) is not None:
        yield "restart", [f"attempt {made.number} of {made.limit}, since run {made.of} failed"]
    if record.repeats:
        yield "repeats", [f"run {record.repeats}"]
    if run.ended_at is not None:
        lasted = figures.duration(run.ended_at - run.started_at)
        yield "ended", [f"{figures.moment(run.ended_at)}, after {lasted}{_how(run)}"]
    elif (so_far := elapsed(run, record.now)) is not None:
        yield "for", [figures.duration(so_far)]
    if record.restart is not None:
        yield "then", [restart_line(record.restart, record.now)]
    if record.metrics is not None:
        yield "reached", [_reached(record.metrics)]
    yield "command", [words.command(run.command)]
    where = record.cwd or "the home folder"
    yield "in", [f"{where}, as {record.user}" if record.user else where]
    yield "environment", _environment(record)
    yield "resumed from", [record.resumed_from or "no checkpoint was there"]
    if record.boundaries is not None:
        yield "boundaries", [", ".join(map(str, record.boundaries))]
    yield "release", _files(record)
    if record.source is not None:
        yield "commit", [_commit(record.source)]
    if (facts := record.facts) is not None:
        known = [
            *words.tally(facts.gpus),
            *([f"driver {facts.driver}"] if facts.driver else []),
            *([f"Python {facts.python}"] if facts.python else []),
            *([f"torch {facts.torch}"] if facts.torch else []),
        ]
        yield "target", [", ".join(known) or "nothing is known"]


def _reached(last: MetricsSeen) -> str:
    facts = []
    if last.step is not None:
        total = f" of {last.total_steps:.0f}" if last.total_steps else ""
        facts.append(f"step {last.step:.0f}{total}")
    if last.loss is not None:
        facts.append(f"loss {last.loss:.4g}")
    if last.tokens_per_s is not None:
        facts.append(f"{last.tokens_per_s:.0f} tokens/s")
    return ", ".join(facts) or "no step yet"


def _how(run: RunSeen) -> str:
    facts = [f"exit code {run.exit_code}"] if run.exit_code is not None else []
    if run.signal:
        facts.append(f"signal {run.signal}")
    if run.oom:
        facts.append("out of memory")
    if run.stopped_by:
        facts.append(f"stopped by {run.stopped_by}")
    return "".join(f", {fact}" for fact in facts)


def _environment(record: RunRecord) -> list[str]:
    base = "the login environment" if record.env_base == "login" else "nearly nothing"
    own = [f"{name}={value}" for name, value in record.run.env.items()]
    secret = [f"{name} (secret, not recorded)" for name in record.secrets]
    return [f"{base}, and" if own or secret else base, *own, *secret]


def _files(record: RunRecord) -> list[str]:
    total = words.size(sum(file.size for file in record.files))
    lines = [f"{record.run.release}: {words.counted(len(record.files), 'file')} ({total})"]
    # The others have places of ours, and come along with the boundaries.
    own = [file for file in record.files if file.dest.startswith("/")]
    for file in own[:FILES_SHOWN]:
        gone = "" if file.kept else "  (not kept any more)"
        lines.append(f"{file.sha256[:12]}  {file.mode:04o}  {file.dest}{gone}")
    if len(own) > FILES_SHOWN:
        lines.append(f"and {len(own) - FILES_SHOWN} more (--json lists all)")
    if brought := len(record.files) - len(own):
        lines.append(f"and {words.counted(brought, 'file')} that the boundaries come with")
    return lines


def _commit(source: Source) -> str:
    branch = f" ({source.branch})" if source.branch else ""
    if not source.dirty:
        return f"{source.commit[:12]}{branch}"
    count = len(source.diff.splitlines())
    cut = "" if source.whole else "; the record's limit cut them short"
    more = f" ({count} lines, --diff shows them{cut})" if count > DIFF_SHOWN else ""
    return f"{source.commit[:12]}{branch} with uncommitted changes{more}"


def show_run_diff(screen: Screen, found: RunDiff) -> None:
    """What sets two runs apart: settings, variables, boundaries, files."""
    from rich.text import Text

    out = screen.out
    out.print(Text.assemble(("- ", "red"), one_line(found.first)), soft_wrap=True)
    out.print(Text.assemble(("+ ", "green"), one_line(found.second)), soft_wrap=True)
    boundaries = found.boundaries
    if not (found.settings or found.env or boundaries or found.files):
        out.print(Text("the same release, command, environment and boundaries"))
        return
    for one in found.settings:
        _show_differing(screen, one.name.replace("_", " "), one)
    for one in found.env:
        _show_differing(screen, f"env {one.name}", one)
    if boundaries is not None:
        old, new = (", ".join(map(str, b)) if b else None for b in boundaries)
        _show_lines(screen, "boundaries", old, new)
    show_diffs(out, found.files, whole=True)


def _show_differing(screen: Screen, label: str, one: Differing) -> None:
    _show_lines(screen, label, one.first, one.second)


def _show_lines(screen: Screen, label: str, old: str | None, new: str | None) -> None:
    from rich.text import Text

    screen.out.print(Text(f"  {one_line(label)}", style="bold"), soft_wrap=True)
    lines = ([f"-{old}"] if old is not None else []) + ([f"+{new}"] if new is not None else [])
    show_lines(screen.out, lines)
