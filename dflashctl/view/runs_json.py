"""What ``runs --json`` prints. docs/json.md describes each shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dflashctl.view import figures, json
from dflashctl.view.metrics import metrics_object
from dflashctl.view.runs import elapsed

if TYPE_CHECKING:
    from dflashctl.agent.recorded import RunRecord, RunsListed
    from dflashctl.agent.seen import RunSeen
    from dflashctl.plan.runs import RunDiff


def runs_object(listed: RunsListed) -> dict[str, Any]:
    """One target of ``runs list``."""
    return {
        "current": listed.current,
        "runs": [
            {
                **_run_on_record(run, elapsed(run, listed.now)),
                "metrics": metrics_object(listed.metrics.get(run.id)),
            }
            for run in listed.runs
        ],
        "error": None,
    }


def _run_on_record(run: RunSeen, elapsed_s: float | None) -> dict[str, Any]:
    return {
        "id": run.id,
        "state": run.state,
        "started_at": figures.iso(run.started_at),
        "ended_at": figures.iso(run.ended_at),
        "elapsed_s": json.plain(elapsed_s),
        "exit_code": run.exit_code,
        "exit_name": run.exit_name,
        "signal": run.signal,
        "oom": run.oom,
        "stopped_by": run.stopped_by,
        "started_by": run.started_by,
        "release": run.release,
        "command": list(run.command),
    }


def run_object(record: RunRecord) -> dict[str, Any]:
    """One target of ``runs show``."""
    run = record.run
    return {
        **_run_on_record(run, elapsed(run, record.now)),
        "version": record.version,
        "transaction": record.transaction,
        "repeats": record.repeats,
        "attempt": json.plain(record.attempt),
        "restart": json.restart_object(record.restart),
        "cwd": record.cwd,
        "user": record.user,
        "env_base": record.env_base,
        "env": dict(run.env),
        "secrets": list(record.secrets),
        "exit_codes": dict(record.exit_codes),
        "checkpoints": record.checkpoints,
        "resumed_from": record.resumed_from,
        "boundaries": None if record.boundaries is None else list(record.boundaries),
        "files": [json.plain(file) for file in record.files],
        "source": json.plain(record.source),
        "facts": json.plain(record.facts),
        "metrics": metrics_object(record.metrics),
        "error": None,
    }


def run_diff_object(found: RunDiff) -> dict[str, Any]:
    """One target of ``runs diff``."""
    boundaries = found.boundaries
    return {
        "first": found.first,
        "second": found.second,
        "settings": [json.plain(one) for one in found.settings],
        "env": [json.plain(one) for one in found.env],
        "boundaries": None if boundaries is None else {
            "first": json.plain(boundaries[0]), "second": json.plain(boundaries[1]),
        },
        "files": [json.diff_object(diff) for diff in found.files],
        "error": None,
    }  # fmt: skip
