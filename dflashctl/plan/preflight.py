"""Preflight: what would make a plan fail or do harm, found before anything is touched."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from dflashctl.agent.keeping import (
    ArchiveCheckpoints,
    ClearCheckpoints,
    PruneCheckpoints,
    PurgeCleared,
    RestoreCheckpoints,
    RestoreCleared,
    VerifyArchive,
)
from dflashctl.agent.protocol import (
    CancelRestart,
    ExecuteCommand,
    ForgetRuns,
    PlaceFiles,
    Receive,
    StartRun,
    StopRun,
    VerifyRun,
)
from dflashctl.errors import Internal, Refusal
from dflashctl.plan import room, words
from dflashctl.plan.gpus import gpu_refusals
from dflashctl.plan.look import probe_for
from dflashctl.plan.safekeeping import store_refusals

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dflashctl.agent.protocol import FileWanted
    from dflashctl.agent.seen import FileSeen, Observed
    from dflashctl.plan.model import Desired, Step

_FILE_PROBLEMS = {
    "directory": ("a directory is in its place", "name the file itself as dest"),
    "unwritable": ("no permission to write there", "choose another dest or user"),
    "no_parent": ("what should be its directory is none", "fix dest"),
    "not_a_file": ("a device, socket or pipe is in its place", "choose another dest"),
}
_PROBE_PROBLEMS = {
    "not_found": "there is no such program",
    "not_executable": "it may not be executed",
    "timeout": "it does not get ready in time",
    "fails": "it ends with an error",
}


def lacks(seen: Observed) -> str | None:
    """The program that a start needs and the target does not have, if any."""
    return "tmux" if seen.tmux is None else None


def seen_files(wanted: tuple[FileWanted, ...], seen: Observed) -> list[tuple[FileWanted, FileSeen]]:
    """Each wanted file with its place on the target.

    Raises:
        Internal: the look did not ask for one of them.
    """
    there = {file.dest: file for file in seen.files}
    missing = tuple(file.dest for file in wanted if file.dest not in there)
    if missing:
        raise Internal(what="the look left out files of the playbook", detail=", ".join(missing))
    return [(file, there[file.dest]) for file in wanted]


def preflight(desired: Desired, seen: Observed, steps: tuple[Step, ...]) -> tuple[Refusal, ...]:
    """Every reason why these steps must not be begun; empty when all is well."""
    refusals: list[Refusal] = []
    for step in steps:
        match step.action:
            case PlaceFiles(files=files):
                refusals += _for_files(files, seen)
            case StartRun():
                refusals += _for_start(desired, seen)
            case Receive() | StopRun() | VerifyRun() | ForgetRuns() | ExecuteCommand():
                pass
            case CancelRestart():
                pass
            case (
                ClearCheckpoints()
                | ArchiveCheckpoints()
                | RestoreCheckpoints()
                | RestoreCleared()
                | PruneCheckpoints()
                | PurgeCleared()
                | VerifyArchive()
            ) as action:
                refusals += store_refusals(action, seen, steps)
            case _ as never:
                assert_never(never)
    # Two steps may fail for one reason.
    return tuple(dict.fromkeys((*refusals, *room.room_refusals(desired, seen, steps))))


def _for_files(files: tuple[FileWanted, ...], seen: Observed) -> Iterator[Refusal]:
    for wanted, there in seen_files(files, seen):
        if there.problem is None:
            continue
        reason, remedy = _FILE_PROBLEMS.get(there.problem, (there.problem, "fix dest"))
        really = "" if there.real_dest == wanted.dest else f" (really {there.real_dest})"
        yield Refusal(
            code="cannot_place",
            message=f"{wanted.dest}{really} cannot be put in place: {reason}",
            remedy=remedy,
        )


def _for_start(desired: Desired, seen: Observed) -> Iterator[Refusal]:
    if lacks(seen):
        yield Refusal(
            code="no_tmux",
            message="there is no tmux on the target",
            remedy="install it there: apt-get install tmux",
        )
    yield from _surroundings(desired, seen)
    yield from _probe(desired, seen)
    yield from gpu_refusals(desired, seen)


def _surroundings(desired: Desired, seen: Observed) -> Iterator[Refusal]:
    run = desired.playbook.run
    for problem in seen.problems:
        match problem:
            case "no_socket_folder":
                message = f"the folder of tmux_socket {desired.target.tmux_socket} does not exist"
                remedy = "create it there, or fix tmux_socket in the inventory"
            case "no_cwd":
                message = f"the working directory {run.cwd if run else None} does not exist"
                remedy = "create it there, or fix run.cwd"
            case "no_user":
                message = f"there is no user {run.user if run else None} on the target"
                remedy = "create the user there, or fix run.user"
            case "cannot_become_user":
                message = f"{seen.user} may not start a run as {run.user if run else None}"
                remedy = "arrive as root or as that user, or leave run.user out"
            case _:
                message, remedy = problem, "fix it on the target"
        yield Refusal(code=problem, message=message, remedy=remedy)


def _probe(desired: Desired, seen: Observed) -> Iterator[Refusal]:
    if probe_for(desired.playbook) is None:
        return
    probe = seen.probe
    if probe is None:
        raise Internal(what="the look left out preflight.python")
    if probe.missing:
        yield Refusal(
            code="missing_imports",
            message=f"{probe.python} cannot import {words.listed(probe.missing)}",
            remedy="install them for that interpreter, or fix preflight.python",
        )
    elif probe.problem is not None:
        yield Refusal(
            code="python_unusable",
            message=f"{probe.python} cannot be used: "
            f"{_PROBE_PROBLEMS.get(probe.problem, probe.problem)}",
            remedy="install it there, or fix preflight.python",
        )
