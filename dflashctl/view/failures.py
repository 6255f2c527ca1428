"""A transaction's failure in plain words, and what state it left behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dflashctl.view import figures
from dflashctl.view.store_failures import of_the_store

if TYPE_CHECKING:
    from dflashctl.agent.protocol import Failure
    from dflashctl.errors import Unverified


def standing(error: Unverified) -> str:
    """What runs on the target now."""
    match error.state:
        case "RUNNING" | "STARTING":
            now = "The run is alive" if error.run_id else "A run is alive"
        case "ADOPTED":
            now = "The hand-started session still runs"
        case "ORPHANED":
            now = "Processes of a run are alive, without their session"
        case _:
            now = "Nothing runs"
    return f"{now} on {error.target} (state {error.state})."


def passed_words(failure: Failure) -> str:
    """What happened in a step whose failure is passed over."""
    from dflashctl.errors import Unverified

    error = Unverified(
        target="", step="", failure=failure.code, detail=failure.detail, state="NONE"
    )
    return failure_words(error)[0].rstrip(".")


def failure_words(error: Unverified) -> tuple[str, str]:
    """What happened, and what to do, for each code that `protocol.Failure` lists."""
    return (
        _of_the_run(error)
        or _of_the_files(error)
        or of_the_store(error)
        or _of_the_transaction(error)
    )


def _of_the_run(error: Unverified) -> tuple[str, str] | None:  # noqa: PLR0911 - one a code
    """Stopping, starting and living."""
    detail = error.detail
    match error.failure:
        case "still_alive":
            return (
                f"some processes did not end, even on KILL: {_list(detail.get('pids'))}.",
                "They may be stuck in the kernel (state D in ps). When they are gone, try again.",
            )
        case "gpu_held":
            holders = _list(detail.get("holders")) or "something outside this container"
            return (
                f"GPU memory is still held by {holders}.",
                "End what holds it, if it is yours to end, and run: dflashctl start",
            )
        case "start_failed":
            return (
                f"the session could not be started: {_get(detail, 'reason')}.",
                "Put that right, and run: dflashctl start",
            )
        case "died_early":
            remedy = "When the cause is mended, deploy again."
            if detail.get("exit_code") == 0:
                remedy = "If it may be as short as that, lower ready.alive_for in the playbook."
            return (
                f"the run ended {_after(detail)}{_how(detail)}.",
                f"The whole output: dflashctl logs. {remedy}",
            )
        case "not_ready":
            metric, within = _get(detail, "metric"), _get(detail, "within_s")
            return (
                f"it runs, and has not printed its {metric} in {within} s.",
                "Look at it: dflashctl logs -f. It goes on; nothing was stopped.",
            )
        case "env_mismatch":
            return (
                f"the live process lacks declared variables: {_list(detail.get('names'))}.",
                "Something on the way to the trainer changes them: look into run.command.",
            )
        case "no_run":
            return (
                f"there is no run {_get(detail, 'run_id')}.",
                "Look at what there is: dflashctl status",
            )
        case "no_user":
            return (
                f"there is no user {_get(detail, 'user')} over there.",
                "Create it there, or correct run.user in the playbook.",
            )
        case _:
            return None


def _of_the_files(error: Unverified) -> tuple[str, str] | None:
    """Files, folders and disks."""
    detail = error.detail
    path = _get(detail, "path")
    match error.failure:
        case "disk_full":
            return (
                f"the disk is full: {path} ({_room(detail)}).",
                "Make room there, and run the command again.",
            )
        case "bad_upload":
            return (
                f"a file did not arrive as it was sent ({_get(detail, 'reason')}).",
                "The files in place were left as they were. Run the command again.",
            )
        case "unwritable":
            return (
                f"{path} cannot be written: {_get(detail, 'reason')}.",
                "Correct its owner or mode there, or the dest in the playbook.",
            )
        case "cannot_rename":
            return (
                f"{path} cannot be moved aside: {_get(detail, 'reason')}.",
                "No checkpoint was moved. Copy them instead, with --archive-checkpoints.",
            )
        case "guarded":
            return (
                f"{path} is no folder to clear: {_get(detail, 'problem')}.",
                "No checkpoint was removed. Correct checkpoints.path in the playbook.",
            )
        case _:
            return None


def _of_the_transaction(error: Unverified) -> tuple[str, str]:
    """The transaction itself, and all else."""
    detail = error.detail
    match error.failure:
        case "lock_held":
            return (
                f"another transaction came first ({_get(detail, 'who')}).",
                "Try again when it is done.",
            )
        case "stale":
            return (
                f"the target changed meanwhile ({_list(detail.get('changed'))}).",
                "Run the command again.",
            )
        case "system":
            return (
                f"the system refused: {_get(detail, 'path')}: {_get(detail, 'reason')}.",
                "Put that right there, and run the command again.",
            )
        case "not_begun":
            return (
                "the connection broke off before the transaction began.",
                "Nothing was touched. Run the command again.",
            )
        case "command_failed":
            return (
                f"the command ended {_after(detail)}{_how(detail)}.",
                "The steps before it stay done. When the cause is mended, play it again.",
            )
        case "cut_off":
            return (
                f"the transaction was cut in the middle, in {_get(detail, 'step')}.",
                "Run the command again; it begins from what is there now.",
            )
        case "internal":
            return (
                "a fault of dflashctl on the target.",
                "Run it again with --debug; its output belongs in a report.",
            )
        case _:
            return f"{error.failure}.", "Look at what there is: dflashctl status"


def _get(detail: dict[str, object], name: str) -> str:
    value = detail.get(name)
    return figures.UNKNOWN if value is None else str(value)


def _list(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(_holder(item) for item in value)
    return "" if value is None else str(value)


def _holder(item: object) -> str:
    """A GPU's holder as ``python3 (pid 12)``; anything else as it is."""
    if isinstance(item, dict) and "pid" in item:
        return f"{item.get('name') or 'process'} (pid {item['pid']})"
    return str(item)


def _after(detail: dict[str, object]) -> str:
    seconds = detail.get("after_s")
    if isinstance(seconds, int | float):
        return f"after {figures.duration(seconds)}"
    return "early"


def _how(detail: dict[str, object]) -> str:
    if detail.get("reason"):
        return f": {detail['reason']}"
    if detail.get("signal"):
        return f", by signal {detail['signal']}"
    if detail.get("exit_code") is not None:
        return f", with exit code {detail['exit_code']}"
    return ""


def _room(detail: dict[str, object]) -> str:
    free, needed = detail.get("free"), detail.get("needed")
    parts = []
    if isinstance(free, int | float):
        parts.append(f"{figures.size(free)} free")
    if isinstance(needed, int | float):
        parts.append(f"{figures.size(needed)} needed")
    return ", ".join(parts) or "no room left"
