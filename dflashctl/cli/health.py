"""What a look at a target means: what speaks against the run, and the exit code."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dflashctl.agent.seen import LIVE_STATES
from dflashctl.plan.nodes import across
from dflashctl.view.status import Report, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dflashctl.agent.seen import Observed, State
    from dflashctl.errors import DflashError
    from dflashctl.inventory.model import Target
    from dflashctl.plan.nodes import Across


def report(target: Target, found: Observed | DflashError) -> Report:
    """One target's part of a status."""
    if isinstance(found, Exception):
        return Report(target=target.name, error=found)
    return Report(target=target.name, seen=found, verdicts=verdicts(found))


def together(reports: Sequence[Report]) -> tuple[Report, ...]:
    """The reports, with what those of one run over several targets say of each other."""
    runs = across({one.target: one.seen for one in reports})
    for run in runs:
        reports = [_of_the_run(one, run) for one in reports]
    return tuple(reports)


def _of_the_run(report: Report, run: Across) -> Report:
    names = {node.name for node in run.nodes}
    mine = report.seen.run if report.seen else None
    if report.target not in names or (mine is not None and mine.id != run.run_id):
        return report
    lives = report.seen is not None and report.seen.state in LIVE_STATES
    found = tuple(
        Verdict(code=one.code, since=one.since, evidence=one.evidence)
        for name, one in run.verdicts
        # A node that is lost speaks against those that are left.
        if (lives if one.code == "node_lost" else name == report.target)
    )
    return replace(report, across=run, verdicts=(*report.verdicts, *found))


def verdicts(seen: Observed) -> tuple[Verdict, ...]:
    """What speaks against a run; of one that is over only what its end leaves unsaid."""
    if seen.state not in LIVE_STATES:
        return tuple(
            Verdict(code=one.code, since=one.since, evidence=one.evidence) for one in seen.verdicts
        )
    found = []
    if seen.state == "ORPHANED":
        number = seen.run.processes if seen.run else 0
        evidence = f"{number} of its processes live, without their supervisor or session"
        found.append(Verdict(code="orphaned", since=None, evidence=evidence))
    if seen.gpus is not None and seen.gpus.status in ("unresponsive", "unreadable"):
        evidence = seen.gpus.error or f"nvidia-smi: {seen.gpus.status}"
        found.append(Verdict(code=f"gpus_{seen.gpus.status}", since=None, evidence=evidence))
    if seen.cut is not None:
        evidence = f"transaction {seen.cut.id} was cut in step {seen.cut.step}"
        found.append(Verdict(code="cut_off", since=seen.cut.at, evidence=evidence))
    found += [
        Verdict(code=one.code, since=one.since, evidence=one.evidence) for one in seen.verdicts
    ]
    return tuple(found)


def exit_code(report: Report) -> int:
    """What the shell is told of one target."""
    if report.error is not None:
        return report.error.exit_code
    if report.verdicts and report.seen is not None and report.seen.state in LIVE_STATES:
        return 5
    return _OF_STATE[report.seen.state] if report.seen is not None else 1


_OF_STATE: dict[State, int] = {
    "NONE": 3,
    "STARTING": 0,
    "RUNNING": 0,
    "ADOPTED": 0,
    "STOPPED": 3,
    "FINISHED": 3,
    "FAILED": 4,
    "ORPHANED": 5,
    "INTERRUPTED": 4,
}
