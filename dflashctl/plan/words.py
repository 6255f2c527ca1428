"""How a plan speaks of sizes, counts, times, and of what runs."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dflashctl.agent.keeping import ArchiveSeen, ClearedSeen
    from dflashctl.agent.seen import CheckpointsSeen, CutTransaction, RunSeen, SessionSeen
    from dflashctl.playbook.boundaries import BucketsFile

# What a cut transaction was at, by the name of its action.
_AT_WORK = {
    "Receive": "receiving files",
    "StopRun": "stopping the run",
    "ClearCheckpoints": "clearing checkpoints",
    "ArchiveCheckpoints": "archiving checkpoints",
    "RestoreCheckpoints": "restoring checkpoints",
    "RestoreCleared": "bringing back what was cleared",
    "PruneCheckpoints": "deleting checkpoints",
    "PurgeCleared": "deleting what was cleared",
    "VerifyArchive": "verifying an archive",
    "PlaceFiles": "putting files in place",
    "StartRun": "starting the run",
    "VerifyRun": "checking the new run",
    "ExecuteCommand": "running a command",
    "ForgetRuns": "forgetting old runs",
    "CancelRestart": "cancelling a restart",
}
LONGEST_COMMAND = 300
_UNITS = ("kB", "MB", "GB", "TB", "PB")


def size(count: int) -> str:
    """Bytes in decimal units, as disks are sold and playbooks written: ``41.2 GB``."""
    if count < 1000:
        return f"{count} bytes"
    value = float(count)
    for unit in _UNITS:
        value /= 1000
        if round(value, 1) < 1000 or unit == _UNITS[-1]:
            break
    return f"{value:.1f} {unit}"


def command(words: tuple[str, ...]) -> str:
    """A command as a shell would take it; of a very long one the beginning."""
    text = shlex.join(words)
    return text if len(text) <= LONGEST_COMMAND else f"{text[:LONGEST_COMMAND]}..."


def counted(count: int, noun: str) -> str:
    """``1 file``, ``3 files``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def listed(items: tuple[str, ...]) -> str:
    """``a, b, c and 4 more``: long lists are cut after three."""
    shown = ", ".join(items[:3])
    return shown if len(items) <= 3 else f"{shown} and {len(items) - 3} more"


def tally(names: tuple[str, ...]) -> tuple[str, ...]:
    """``8x NVIDIA H200``: each name once, with its count."""
    return tuple(f"{names.count(name)}x {name}" for name in dict.fromkeys(names))


def utc(seconds: float) -> datetime | None:
    """A moment, or None when a target's clock says what no calendar holds."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return None


def moment(seconds: float) -> str:
    """Seconds since the epoch as ``2026-11-29 12:06 UTC``."""
    when = utc(seconds)
    return f"{when:%Y-%m-%d %H:%M} UTC" if when else "?"


def running(run: RunSeen) -> str:
    """A run that lives: ``run 2026-... (pid 4242)``."""
    facts = [f"pid {run.pid}"] if run.pid is not None else []
    if run.state == "ORPHANED":
        facts.append("its session or supervisor is gone")
    return f"run {run.id} ({', '.join(facts)})" if facts else f"run {run.id}"


def ended(run: RunSeen) -> str:
    """A run that is over: ``run 2026-... ended 2026-11-29 12:06 UTC (FAILED, exit code 1)``."""
    how: list[str] = [run.state]
    if run.oom:
        how.append("out of memory")
    if run.signal is not None:
        how.append(f"signal {run.signal}")
    elif run.exit_code is not None:
        how.append(f"exit code {run.exit_code}")
    when = f"ended {moment(run.ended_at)}" if run.ended_at is not None else "is over"
    return f"run {run.id} {when} ({', '.join(how)})"


def at_hand(session: SessionSeen) -> str:
    """A session that is not, or no longer, a run of ours."""
    if session.adopted:
        return f"the hand-started session {session.name} (pid {session.pane_pid})"
    return f"the session {session.name} (pid {session.pane_pid}), whose run is over"


def checkpoints(seen: CheckpointsSeen) -> str:
    """``17 checkpoints (1 not complete, 41.2 GB, newest step 3400)``."""
    left = seen.count - seen.complete
    facts = [f"{left} not complete"] if left else []
    facts += [size(seen.size)] if seen.size is not None else []
    if seen.latest_step is not None:
        facts.append(f"newest step {seen.latest_step}")
    text = counted(seen.count, "checkpoint")
    return f"{text} ({', '.join(facts)})" if facts else text


def complete(seen: CheckpointsSeen) -> str:
    """``17 complete checkpoints (newest step 3400)``."""
    step = f" (newest step {seen.latest_step})" if seen.latest_step is not None else ""
    return f"{counted(seen.complete, 'complete checkpoint')}{step}"


def archived(seen: ArchiveSeen) -> str:
    """``17 checkpoints (41.2 GB, newest step 3400)``."""
    step = f", newest step {seen.latest_step}" if seen.latest_step is not None else ""
    return f"{counted(len(seen.names), 'checkpoint')} ({size(seen.size)}{step})"


def cleared(seen: ClearedSeen) -> str:
    """``18 entries (41.2 GB, newest step 3400)``."""
    facts = [size(seen.size)] if seen.size is not None else []
    facts += [f"newest step {seen.latest_step}"] if seen.latest_step is not None else []
    text = f"{seen.count} {'entry' if seen.count == 1 else 'entries'}"
    return f"{text} ({', '.join(facts)})" if facts else text


def cut_short(cut: CutTransaction) -> str:
    """An earlier transaction that did not reach its end: whose, when, at what."""
    work = _AT_WORK.get(cut.step, "making ready")
    return f"what {cut.who} began was cut short on {moment(cut.at)} while {work}"


def boundaries(made: BucketsFile | None) -> str:
    """The boundaries of a release's buckets: how many, how good, and their hash."""
    if made is None:  # an earlier release's, whose file is not here any more
        return "the bucket boundaries"
    count = counted(len(made.boundaries) - 1, "bucket")
    return f"{count} ({made.expected_efficiency:.2%} expected, {made.sha256[:12]})"
