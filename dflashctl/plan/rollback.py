"""rollback: start an earlier run's exact release again, from what the target has kept of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dflashctl.agent.protocol import FileWanted
from dflashctl.errors import Refusal
from dflashctl.plan import words
from dflashctl.plan.batching import with_boundaries
from dflashctl.plan.deploy import file_steps, placing_diffs
from dflashctl.plan.model import Plan
from dflashctl.plan.preflight import preflight
from dflashctl.plan.steps import lives, run_spec, start_steps, stop_steps, tidy_steps
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
        env=record.run.env,
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


def plan_rollback(desired: Desired, seen: Observed, record: RunRecord, *, wait: bool) -> Plan:
    """Stop what runs, put the old files in place, start the old command anew.

    ``desired``: the job `as_it_was`, with the secrets that could be found.
    """
    run = with_boundaries(run_spec(desired, "rollback"), seen)
    _, place = file_steps(desired, seen)
    command, notes = _command(run, seen)
    steps = (
        *stop_steps(desired, seen, "rollback" if lives(seen) else "its name is needed"),
        *place,
        *start_steps(desired, seen, run, command, reason=f"as run {record.run.id}", wait=wait),
        *tidy_steps(seen),
    )
    return Plan(
        steps=steps,
        notes=notes,
        refusals=(*_not_kept(record), *_secrets(desired, record), *preflight(desired, seen, steps)),
        run_id=desired.run_id,
        diffs=placing_diffs(desired, seen, place),
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
