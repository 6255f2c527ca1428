"""What an agent complains of outside a transaction, as errors of the control side."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from dflashctl.errors import (
    DflashError,
    Internal,
    LockHeld,
    MissingTool,
    NothingRuns,
    Refusal,
    Refused,
    Stale,
)
from dflashctl.link.optimizer import of_the_optimizer

if TYPE_CHECKING:
    from dflashctl.agent.protocol import Failure


def as_error(target: str, failure: Failure, session: str = "") -> DflashError:
    """What a failure outside a transaction is to the control side."""
    detail = failure.detail
    if (known := of_the_optimizer(target, failure)) is not None:
        return known
    match failure.code:
        case "lock_held":
            since = _when(detail.get("since"))
            return LockHeld(target=target, holder=str(detail.get("who", "")), since=since)
        case "stale":
            changed = detail.get("changed")
            parts = changed if isinstance(changed, list) else ()
            return Stale(target=target, changed=tuple(map(str, parts)))
        case "no_tmux":
            said = str(detail.get("reason", ""))
            return MissingTool(target=target, tool="tmux", detail=said)
        case "no_run":
            run_id = str(detail["run_id"]) if detail.get("run_id") else None
            return NothingRuns(target=target, session=session, state="NONE", run_id=run_id)
        case "disk_full" | "unwritable" | "unsafe_state":
            return Refused(target=target, refusals=(_no_place(failure),))
        case "port_taken":
            return Refused(target=target, refusals=(_port_taken(target, failure),))
        case _:
            what = f"the agent on {target} failed: {failure.code}"
            text = detail.get("traceback") or " ".join(f"{k}={v}" for k, v in detail.items())
            return Internal(what=what, detail=str(text))


def _no_place(failure: Failure) -> Refusal:
    """Why nothing can be kept there."""
    detail = failure.detail
    path = detail.get("path")
    match failure.code:
        case "disk_full":
            free, needed = detail.get("free"), detail.get("needed")
            return Refusal(
                code="disk_full",
                message=f"The disk under {path} is full: {free} bytes free, {needed} needed.",
                remedy="Make room there and try again.",
            )
        case "unwritable":
            return Refusal(
                code="unwritable",
                message=f"{path} cannot be written: {detail.get('reason')}.",
                remedy="Let the user we log in as write there.",
            )
        case _:
            place, reason = detail.get("place"), detail.get("reason")
            return Refusal(
                code="state_dir",
                message=f"{path} cannot hold dflashctl's records, since another user over there "
                f"could change them: {place}: {reason}.",
                remedy="Make it a folder of the user we log in as, with mode 0700, or name "
                "another state_dir in the inventory.",
            )


def _port_taken(target: str, failure: Failure) -> Refusal:
    port, pid, name = (failure.detail.get(key) for key in ("port", "pid", "name"))
    holder = f"{name} (pid {pid})" if pid else "something that is not to be seen from there"
    return Refusal(
        code="port_taken",
        message=f"Port {port} of {target} is in use: {holder} listens there.",
        remedy="End that, or choose another distributed.port in the playbook.",
    )


def _when(since: Any) -> str:
    try:
        return datetime.fromtimestamp(since, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (TypeError, OverflowError, ValueError, OSError):
        return str(since)
