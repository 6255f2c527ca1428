"""deploy: bring the playbook's files, and start the run that uses them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dflashctl.agent.protocol import PlaceFiles, Receive
from dflashctl.agent.runs import release_id
from dflashctl.errors import Refusal
from dflashctl.plan import words
from dflashctl.plan.batching import stale_notes, with_boundaries
from dflashctl.plan.checkpoints import Steps, archive_steps, clear_steps
from dflashctl.plan.diff import placed_diffs
from dflashctl.plan.model import Plan, Step
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

if TYPE_CHECKING:
    from dflashctl.agent.seen import Observed
    from dflashctl.plan.diff import FileDiff
    from dflashctl.plan.model import Desired
    from dflashctl.playbook.model import RunSpec


def plan_deploy(
    desired: Desired,
    seen: Observed,
    *,
    restart: bool,
    clear: bool,
    wait: bool,
    archive: str | None = None,
) -> Plan:
    """Bring files that changed and start a run; a running job needs ``restart`` for it.

    ``archive`` names the archive that the complete checkpoints go to before the new run,
    ``clear`` moves what is there then away; ``wait`` has the new run prove that it stays
    alive.

    Raises:
        MissingSetting: the playbook does not say what to run, or what to clear.
    """
    if lives(seen) and not restart:
        return _beside_a_running_job(desired, seen, away=clear or archive is not None)
    run = with_boundaries(run_spec(desired, "deploy"), seen)
    receive, place = file_steps(desired, seen)
    away, away_notes = _away(desired, seen, clear=clear, archive=archive)
    command, notes = command_for(run, desired, seen, cleared=clear or archive is not None)
    reason = "--restart" if restart else "nothing runs"
    steps = (
        *receive,
        *stop_steps(desired, seen, "--restart" if lives(seen) else "its name is needed"),
        *away,
        *place,
        *start_steps(desired, seen, run, command, reason=reason, wait=wait),
        *tidy_steps(seen),
    )
    return Plan(
        steps=steps,
        notes=(*_cut_notes(seen), *stale_notes(desired, seen), *away_notes, *notes),
        refusals=(
            *split_refusals(desired, seen, restart=restart),
            *preflight(desired, seen, steps),
        ),
        run_id=desired.run_id,
        diffs=placing_diffs(desired, seen, place),
    )


def _away(desired: Desired, seen: Observed, *, clear: bool, archive: str | None) -> Steps:
    """What is done with the checkpoints before the new run."""
    steps: tuple[Step, ...] = ()
    notes: tuple[str, ...] = ()
    if archive is not None:
        verb = "deploy --archive-checkpoints"
        steps, notes = archive_steps(desired, seen, verb, archive, then_remove=True)
    if clear:
        more, remarks = clear_steps(desired, seen, "deploy --clear-checkpoints")
        steps, notes = (*steps, *more), (*notes, *remarks)
    return steps, notes


def _beside_a_running_job(desired: Desired, seen: Observed, *, away: bool) -> Plan:
    """Without --restart: the files may come, the job stays."""
    wanted = with_boundaries(run_spec(desired, "deploy"), seen)
    receive, place = file_steps(desired, seen)
    name = desired.playbook.name
    if seen.run and seen.run.command not in _commands(wanted):
        note = f"{name} keeps running another command; --restart applies the playbook's"
    elif seen.run and seen.run.env != wanted.env:
        note = f"{name} keeps running in another environment; --restart applies the playbook's"
    elif place:
        note = f"{name} keeps running the old files; --restart applies them"
    elif seen.run and seen.run.release != release_id(desired.files, wanted.command):
        note = f"{name} keeps running an older release than its files; --restart applies them"
    else:
        note = f"{name} keeps running, and its files are in place; --restart starts it anew"
    notes = [*_cut_notes(seen), *stale_notes(desired, seen), note]
    if seen.session and seen.session.adopted:
        notes.append(f"{words.at_hand(seen.session)} is left alone; --restart replaces it, too")
    steps = (*receive, *place)
    refusals = preflight(desired, seen, steps)
    if away:
        running = Refusal(
            code="clear_while_running",
            message=f"{what_lives(seen)} is using the checkpoints",
            remedy="add --restart to stop it first: deploy --restart, with --clear-checkpoints "
            "or --archive-checkpoints",
        )
        refusals = (running, *refusals)
    diffs = placing_diffs(desired, seen, place)
    return Plan(steps=steps, notes=tuple(notes), refusals=refusals, diffs=diffs)


def _commands(run: RunSpec) -> tuple[tuple[str, ...] | None, ...]:
    return run.command, run.resume, run.resume_new_buckets


def file_steps(desired: Desired, seen: Observed) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    """What to receive (not yet kept there), and what to place (not as wanted there)."""
    pairs = seen_files(desired.files, seen)
    unknown = {wanted.sha256: wanted for wanted, there in pairs if not there.stored}
    differing = tuple(
        wanted
        for wanted, there in pairs
        if (there.sha256, there.mode) != (wanted.sha256, wanted.mode)
    )
    receive: tuple[Step, ...] = ()
    place: tuple[Step, ...] = ()
    if unknown:
        amount = words.size(sum(wanted.size for wanted in unknown.values()))
        receive = (
            Step(
                action=Receive(files=tuple(unknown.values())),
                what=f"send {words.counted(len(unknown), 'file')} ({amount})",
                why="not kept on the target yet; checked by SHA-256",
            ),
        )
    ours = tuple(wanted for wanted in differing if not wanted.dest.startswith("/"))
    theirs = tuple(wanted for wanted in differing if wanted not in ours)
    if theirs:
        names = words.listed(tuple(wanted.dest for wanted in theirs))
        fresh = all(there.sha256 is None for wanted, there in pairs if wanted in theirs)
        place = (
            Step(
                action=PlaceFiles(files=theirs),
                what=f"put {names} in place",
                why="not there yet" if fresh else "different there",
            ),
        )
    if ours:
        what = f"put {words.boundaries(desired.boundaries)} in place, and what reads them"
        place += (Step(action=PlaceFiles(files=ours), what=what, why="not there yet"),)
    return receive, place


def placing_diffs(
    desired: Desired, seen: Observed, place: tuple[Step, ...]
) -> tuple[FileDiff, ...]:
    """How the files that are put in place differ from what is there now."""
    there = {file.dest: file for file in seen.files}
    actions = [step.action for step in place]
    files = [
        file
        for action in actions
        if isinstance(action, PlaceFiles)
        for file in action.files
        if file.dest.startswith("/")
    ]
    return placed_diffs(tuple(files), there, desired.texts)


def _cut_notes(seen: Observed) -> tuple[str, ...]:
    return (words.cut_short(seen.cut),) if seen.cut else ()
