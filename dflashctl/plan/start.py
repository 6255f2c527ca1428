"""start: run what was deployed before, exactly as it lies on the target."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dflashctl.agent.protocol import FileWanted
from dflashctl.errors import Refusal
from dflashctl.plan import words
from dflashctl.plan.batching import with_boundaries
from dflashctl.plan.model import Plan
from dflashctl.plan.preflight import preflight, seen_files
from dflashctl.plan.steps import (
    command_for,
    lives,
    run_spec,
    start_steps,
    stop_steps,
    tidy_steps,
    what_lives,
)
from dflashctl.plan.together import split_refusals
from dflashctl.playbook.library import BOUNDARIES

if TYPE_CHECKING:
    from dflashctl.agent.seen import Observed
    from dflashctl.plan.model import Desired


def plan_start(desired: Desired, seen: Observed, *, wait: bool) -> Plan:
    """Start a run from the files as they are there; a running job is left alone.

    Raises:
        MissingSetting: the playbook does not say what to run.
    """
    run = with_boundaries(run_spec(desired, "start"), seen)
    if lives(seen):
        return Plan(notes=(f"already running: {what_lives(seen)}",))
    release, missing, notes = as_they_are(desired, seen)
    here = desired.source if release == desired.files else None
    as_there = replace(desired, files=release, source=here)
    command, remarks = command_for(run, desired, seen, cleared=False)
    steps = (
        *stop_steps(desired, seen, "its name is needed"),
        *start_steps(as_there, seen, run, command, reason="nothing runs", wait=wait),
        *tidy_steps(seen),
    )
    return Plan(
        steps=steps,
        notes=(*notes, *remarks),
        refusals=(
            *split_refusals(desired, seen, restart=False),
            *not_deployed(missing),
            *preflight(desired, seen, steps),
        ),
        run_id=desired.run_id,
    )


def as_they_are(
    desired: Desired, seen: Observed
) -> tuple[tuple[FileWanted, ...], tuple[str, ...], tuple[str, ...]]:
    """The files on the target as a release; those that are not there; remarks.

    The size of a file that differs from ours was not looked at: 0.
    """
    release, missing, differing = [], [], []
    for wanted, there in seen_files(desired.files, seen):
        if there.sha256 is None or there.mode is None:
            ours = not wanted.dest.startswith("/")
            missing.append(BOUNDARIES if ours else wanted.dest)
            continue
        same = there.sha256 == wanted.sha256
        if not same or there.mode != wanted.mode:
            differing.append(wanted.dest)
        release.append(
            FileWanted(
                dest=wanted.dest,
                sha256=there.sha256,
                size=wanted.size if same else 0,
                mode=there.mode,
            )
        )
    notes: tuple[str, ...] = ()
    if differing:
        names = words.listed(tuple(differing))
        notes = (f"the target's own files are used; not as here: {names} (deploy brings them)",)
    return tuple(release), tuple(dict.fromkeys(missing)), notes


def not_deployed(missing: tuple[str, ...]) -> tuple[Refusal, ...]:
    """A refusal when files of the playbook are not there yet."""
    if not missing:
        return ()
    return (
        Refusal(
            code="not_deployed",
            message=f"{words.listed(missing)}: not on the target yet",
            remedy="bring the files with dflashctl deploy, which also starts the run",
        ),
    )
