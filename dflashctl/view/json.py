"""What ``--json`` prints. docs/json.md describes each shape."""

from __future__ import annotations

import json
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dflashctl.agent.seen import LIVE_STATES
from dflashctl.errors import Interrupted, LinkLost, Unreachable
from dflashctl.view import figures
from dflashctl.view.metrics import metrics_object
from dflashctl.view.status import disk_shown, run_shown
from dflashctl.view.words import words_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dflashctl.agent.seen import Observed
    from dflashctl.agent.watching import RestartSeen
    from dflashctl.errors import DflashError
    from dflashctl.inventory.model import Inventory, Target
    from dflashctl.plan.diff import FileDiff
    from dflashctl.plan.model import Plan
    from dflashctl.view.again import Again
    from dflashctl.view.course import Course
    from dflashctl.view.status import Report

SCHEMA = 1
_TRANSACTION_FIELDS = (
    "transaction", "plan", "done", "passed_over", "state", "live", "run_id", "pid", "release",
    "session", "on_partial", "after", "error",
)  # fmt: skip
_STATUS_FIELDS = (
    "state", "run", "session", "metrics", "gpus", "gpu_status", "checkpoints", "disk", "release",
    "buckets", "restart", "optimizer", "verdicts", "lock", "interrupted", "last_known", "error",
)  # fmt: skip


def line(value: Mapping[str, Any]) -> str:
    """One object as one line. ASCII only, so nothing in it can move a cursor."""
    # DEL is the one control character that JSON leaves as it is.
    return json.dumps(value, allow_nan=False, default=str).replace("\x7f", "\\u007f") + "\n"


def envelope(
    command: str,
    exit_code: int,
    targets: Mapping[str, Any],
    error: DflashError | None = None,
    again: Again | None = None,
    **more: Any,
) -> str:
    """The one object of a command.

    ``error``: what went wrong before any target was asked. ``again``: what a command
    that is to be typed next must repeat. ``more``: what the command answers besides.
    """
    whole = {
        "schema": SCHEMA,
        "command": command,
        "exit_code": exit_code,
        "error": None if error is None else error_object(error),
        "targets": targets,
        **more,
    }
    return line(whole if again is None else _repeating(again, whole))


def _repeating(again: Again, value: Any, key: str = "") -> Any:
    """The value, what is said there to be typed made whole."""
    if isinstance(value, dict):
        return {name: _repeating(again, inner, name) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_repeating(again, inner) for inner in value]
    if key in {"next", "remedy"} and isinstance(value, str):
        return again.repeated_in(value)
    return value


def failed(command: str, error: DflashError, again: Again) -> str:
    """The envelope of a command that an error ended."""
    code, target = error.exit_code, getattr(error, "target", "")
    if not target:
        return envelope(command, code, {}, error, again)
    return envelope(command, code, {target: {"error": error_object(error)}}, again=again)


def error_object(error: DflashError) -> dict[str, Any]:
    """Code, words and data of an error."""
    words = words_for(error)
    return {
        "code": error.code,
        "message": words.message,
        "next": words.next,
        "detail": {name: plain(value) for name, value in vars(error).items()},
    }


def plain(value: Any) -> Any:
    """A value as JSON knows it: paths as text, dataclasses as objects."""
    if is_dataclass(value) and not isinstance(value, type):
        return {name: plain(item) for name, item in asdict(value).items()}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, float) and not -1e300 < value < 1e300:
        return None
    return value


def status_object(report: Report) -> dict[str, Any]:
    """One target of ``status``."""
    seen = report.seen
    error = None if report.error is None else error_object(report.error)
    if seen is None:
        gone = isinstance(report.error, Unreachable)
        unknown = dict.fromkeys(_STATUS_FIELDS)
        return {
            **unknown,
            "state": "UNREACHABLE" if gone else None,
            "last_known": _last_known(report),
            "error": error,
        }
    run = run_shown(seen)
    gpus = seen.gpus
    return {
        "state": "STALLED" if any(v.code == "stalled" for v in report.verdicts) else seen.state,
        "run": None if run is None else {
            "id": run.id,
            "pid": run.pid,
            "started_at": figures.iso(run.started_at),
            "ended_at": figures.iso(run.ended_at),
            "elapsed_s": plain(run.elapsed_s),
            "exit_code": run.exit_code,
            "exit_name": run.exit_name,
            "signal": run.signal,
            "oom": run.oom,
            "node": plain(seen.run.node) if seen.run and run.id else None,
        },
        "session": _session(seen),
        "metrics": metrics_object(seen.metrics),
        "gpus": [plain(gpu) for gpu in gpus.gpus] if gpus else [],
        "gpu_status": gpus.status if gpus else None,
        "checkpoints": _checkpoints(seen),
        "disk": _disk(seen),
        "release": run.release if run else None,
        "buckets": plain(run.buckets) if run else None,
        "restart": restart_object(seen.restart),
        "optimizer": None if seen.optimizer is None else {
            **plain(seen.optimizer),
            "started_at": figures.iso(seen.optimizer.started_at),
            "ended_at": figures.iso(seen.optimizer.ended_at),
        },
        "verdicts": [
            {"code": v.code, "since": figures.iso(v.since), "evidence": v.evidence}
            for v in report.verdicts
        ],
        "lock": None if seen.lock is None else {
            "who": seen.lock.who,
            "since": figures.iso(seen.lock.since),
            "transaction": seen.lock.transaction,
        },
        "interrupted": None if seen.cut is None else {
            "transaction": seen.cut.id,
            "step": seen.cut.step,
            "at": figures.iso(seen.cut.at),
            "who": seen.cut.who,
        },
        "last_known": None,
        "error": error,
    }  # fmt: skip


def _last_known(report: Report) -> dict[str, Any] | None:
    """Of a target that was seen before in this command and cannot be now."""
    if report.last is None:
        return None
    run = run_shown(report.last)
    return {
        "age_s": plain(report.last_age_s),
        "state": report.last.state,
        "run_id": run.id if run else None,
        "metrics": metrics_object(report.last.metrics),
    }


def _session(seen: Observed) -> dict[str, Any] | None:
    """The session that is there, or the one that the last run had."""
    if seen.session is not None:
        return {"name": seen.session.name, "alive": True, "adopted": seen.session.adopted}
    if seen.run is not None:
        return {"name": seen.run.session, "alive": False, "adopted": False}
    return None


def _checkpoints(seen: Observed) -> dict[str, Any] | None:
    store = seen.checkpoints
    if store is None:
        return None
    age = None if store.latest_at is None else max(0.0, seen.now - store.latest_at)
    return {
        "count": store.count,
        "complete": store.complete,
        "latest_step": store.latest_step,
        "latest_age_s": plain(age),
        "bytes": store.size,
    }


def _disk(seen: Observed) -> dict[str, Any] | None:
    disk = disk_shown(seen)
    return None if disk is None else {"free_bytes": disk.free, "total_bytes": disk.total}


def restart_object(restart: RestartSeen | None) -> dict[str, Any] | None:
    """What the watchdog does about a failure."""
    if restart is None:
        return None
    return {**plain(restart), "due_at": figures.iso(restart.due_at)}


def plan_object(plan: Plan) -> dict[str, Any]:
    """A plan, without the actions' own data: they may hold secrets."""
    return {
        "run_id": plan.run_id,
        "steps": [
            {"action": _snake(type(step.action).__name__), "what": step.what, "why": step.why}
            for step in plan.steps
        ],
        "notes": list(plan.notes),
        "diffs": [diff_object(diff) for diff in plan.diffs],
        "refusals": [plain(refusal) for refusal in plan.refusals],
    }


def diff_object(diff: FileDiff) -> dict[str, Any]:
    """How one file changes."""
    return {
        "path": diff.path,
        "change": diff.change.replace(" ", "_"),
        "added": diff.added,
        "removed": diff.removed,
        "diff": "".join(f"{line}\n" for line in diff.lines) or None,
    }


def course_object(course: Course) -> dict[str, Any]:
    """One target of a verb that has a plan, with all that is known of it beside an error."""
    error, seen, plan = course.error, course.seen, course.plan
    shown = None if error is None else error_object(error)
    if seen is None or plan is None:
        return {**dict.fromkeys(_TRANSACTION_FIELDS), "error": shown}
    begun = course.outcome is not None or isinstance(error, LinkLost | Interrupted)
    done, passed, run = course.done, course.passed, run_shown(seen)
    return {
        "transaction": course.transaction if begun else None,
        "plan": plan_object(plan),
        "done": [
            {"step": number, "result": event.result, "seconds": event.seconds,
             "facts": plain(event.facts)}
            for number, event in sorted(done.items())
        ],
        "passed_over": [
            {"step": number, "seconds": event.seconds, "code": event.failure.code,
             "detail": plain(event.failure.detail)}
            for number, event in sorted(passed.items())
        ],
        "state": seen.state,
        "live": seen.state in LIVE_STATES,
        "run_id": run.id if run else None,
        "pid": run.pid if run else None,
        "release": run.release if run else None,
        "session": _session(seen),
        "on_partial": course.rule,
        "after": None if course.after is None else course_object(course.after),
        "error": shown,
    }  # fmt: skip


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)[1:]


def log_event(target: str, event: str, **data: Any) -> str:
    """One line of ``logs -f --json``."""
    return line({"schema": SCHEMA, "command": "logs", "target": target, "event": event, **data})


def target_object(target: Target, inventory: Inventory) -> dict[str, Any]:
    """One target of ``inventory show``."""
    from dflashctl.view.inventory import way

    return {
        "way": way(target),
        "gpus": target.gpus,
        "groups": [name for name, members in inventory.groups.items() if target.name in members],
        "default": target.name == inventory.default_target,
        "error": None,
    }
