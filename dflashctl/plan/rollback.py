"""rollback: start an earlier run's exact release again, from what the target has kept of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dflashctl.agent.keeping import RestoreCheckpoints, RestoreCleared, VerifyArchive
from dflashctl.agent.protocol import FileWanted
from dflashctl.errors import Refusal
from dflashctl.plan import words
from dflashctl.plan.batching import with_boundaries
from dflashctl.plan.checkpoints import folder_of, restore_steps, store_seen, trash_of
from dflashctl.plan.deploy import file_steps, placing_diffs
from dflashctl.plan.model import Plan, Step
from dflashctl.plan.preflight import preflight
from dflashctl.plan.steps import lives, run_spec, start_steps, stop_steps, tidy_steps
from dflashctl.plan.together import split_refusals
from dflashctl.plan.torchrun import without_network
from dflashctl.playbook.model import RunSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dflashctl.agent.recorded import RunRecord
    from dflashctl.agent.seen import Observed
    from dflashctl.plan.model import Desired


def as_it_was(desired: Desired, record: RunRecord) -> Desired:
    """The job with the files, words and variables of a run on record, in today's playbook.

    How to stop what runs, what to check and where the session is stay the playbook's.
    """
    run = RunSpec(
        command=record.fresh,
        resume=record.resume,
        cwd=record.cwd,
        user=record.user,
        env_base=record.env_base,
        env=without_network(record.run.env, record.run.node),
        env_file=None,
        env_from=(),
        exit_codes=record.exit_codes,
    )
    files = tuple(
        FileWanted(dest=file.dest, sha256=file.sha256, size=file.size, mode=file.mode)
        for file in record.files
    )
    return replace(
        desired,
        playbook=replace(desired.playbook, run=run, files=()),
        files=files,
        source=record.source,
        repeats=record.run.id,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What checkpoints a rollback is to bring back: an archive's, or what was cleared.

    ``archive``: its name; None: those that ``cleared_by`` moved aside, the transaction
    that started the next run (None: there is none).
    """

    archive: str | None = None
    cleared_by: str | None = None


def plan_rollback(
    desired: Desired,
    seen: Observed,
    record: RunRecord,
    wanted: Wanted | None = None,
    *,
    wait: bool,
) -> Plan:
    """Stop what runs, put the old files in place, start the old command anew.

    ``desired``: the job `as_it_was`, with the secrets that could be found. ``wanted``:
    checkpoints to bring back; None: those that are there stay.

    Raises:
        MissingSetting: there are checkpoints to bring back, and the playbook has none.
    """
    run = with_boundaries(run_spec(desired, "rollback"), seen)
    _, place = file_steps(desired, seen)
    refusals: tuple[Refusal, ...] = ()
    back: tuple[Step, ...] = ()
    stops = stop_steps(desired, seen, "rollback" if lives(seen) else "its name is needed")
    if wanted is None:
        command, notes = _command(run, seen)
    else:
        command, notes = run.resume or run.command, ()
        back, refusals = _checkpoints(desired, seen, record, wanted)
    steps = (
        *_verified_before(stops, wanted, back),
        *stops,
        *back,
        *place,
        *start_steps(desired, seen, run, command, reason=f"as run {record.run.id}", wait=wait),
        *tidy_steps(seen),
    )
    return Plan(
        steps=steps,
        notes=notes,
        refusals=(
            *split_refusals(desired, seen, restart=True),
            *refusals,
            *_not_kept(record),
            *_secrets(desired, record),
            *preflight(desired, seen, steps),
        ),
        run_id=desired.run_id,
        diffs=placing_diffs(desired, seen, place),
    )


def _checkpoints(
    desired: Desired, seen: Observed, record: RunRecord, wanted: Wanted
) -> tuple[tuple[Step, ...], tuple[Refusal, ...]]:
    """The step that brings them back. What is there now is moved aside by it."""
    if wanted.archive is not None:
        verb = "rollback --with-checkpoints"
        return restore_steps(desired, seen, verb, wanted.archive)[0], ()
    folder = folder_of(desired, seen, "rollback --with-checkpoints")
    there = store_seen(seen)
    found = next((one for one in there.cleared if one.id == wanted.cleared_by), None)
    if found is None:
        names = words.listed(tuple(one.name for one in reversed(there.archives)))
        remedy = f"name an archive: {names}" if names else "there is no archive either"
        refusal = Refusal(
            code="not_cleared",
            message=f"what run {record.run.id} had saved was not cleared when the next run was "
            "started, or is purged by now",
            remedy=f"{remedy}; dflashctl checkpoints list shows what there is",
        )
        return (), (refusal,)
    away = f"; what is there is moved to {trash_of(folder.seen)}" if folder.seen.entries else ""
    step = Step(
        action=RestoreCleared(path=folder.seen.path, real_path=folder.seen.real_path, id=found.id),
        what=f"bring back to {folder.named} what was cleared on {words.moment(found.at)}: "
        f"{words.cleared(found)}",
        why=f"--with-checkpoints{away}",
    )
    return (step,), ()


def _verified_before(
    stops: tuple[Step, ...], wanted: Wanted | None, back: tuple[Step, ...]
) -> Iterator[Step]:
    """A run is not stopped for an archive that turns out to be damaged."""
    for step in back:
        if stops and wanted and wanted.archive and isinstance(step.action, RestoreCheckpoints):
            yield Step(
                action=VerifyArchive(store=step.action.store, name=wanted.archive),
                what=f"verify archive {wanted.archive}",
                why="every file against its SHA-256, before anything is stopped",
            )


def _command(run: RunSpec, seen: Observed) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The words to start with, and a remark on the checkpoints that lie there."""
    there = seen.checkpoints
    if there is None or not there.complete:
        return run.command, ()
    stays = f"in {there.path} stays: {words.checkpoints(there)}"
    if run.resume is None:
        return run.command, (stays,)
    return run.resume, (f"{stays}; the new run goes on from there",)


def _not_kept(record: RunRecord) -> Iterator[Refusal]:
    gone = tuple(file.dest for file in record.files if not file.kept)
    if gone:
        yield Refusal(
            code="not_kept",
            message=f"of run {record.run.id} the target does not keep {words.listed(gone)} any "
            "more: its contents were tidied away or removed",
            remedy="check out the commit that dflashctl runs show names, and deploy it",
        )


def _secrets(desired: Desired, record: RunRecord) -> Iterator[Refusal]:
    missing = tuple(name for name in record.secrets if name not in desired.secrets)
    if missing:
        yield Refusal(
            code="secrets_missing",
            message=f"run {record.run.id} had secrets whose values are recorded nowhere, and "
            f"which cannot be found here: {words.listed(missing)}",
            remedy="set them in your environment and name them in the playbook's run.env_from, "
            "or write them into its run.env_file",
        )
