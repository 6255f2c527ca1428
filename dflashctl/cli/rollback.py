"""rollback: back to an earlier run's release."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from dflashctl.cli.call import begin
from dflashctl.cli.options import (
    DiffOption,
    DryRunOption,
    JsonOption,
    NoWaitOption,
    PlaybookOption,
    TargetOption,
)

if TYPE_CHECKING:
    from dflashctl.agent.seen import RunSeen
    from dflashctl.link.client import Agent
    from dflashctl.plan.model import Desired
    from dflashctl.plan.rollback import Wanted

CLEARED = "cleared"


def rollback(  # noqa: PLR0913, PLR0917 - one parameter an option
    ctx: typer.Context,
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="The run to go back to, as dflashctl runs has it.")
    ] = "previous",
    with_checkpoints: Annotated[
        str | None,
        typer.Option(
            "--with-checkpoints",
            metavar="ARCHIVE",
            help="Bring these checkpoints back, too: an archive's, or `cleared` for those that "
            "were cleared when the next run was started.",
        ),
    ] = None,
    target: TargetOption = None,
    playbook: PlaybookOption = None,
    no_wait: NoWaitOption = False,
    diff: DiffOption = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> int:
    """Restart with the exact files, command and environment of an earlier run.

    Everything comes from what the target has kept, but for secrets: they are read here,
    by the names that the run had.
    """
    from dflashctl.cli.runs import first_of, on_record, recall
    from dflashctl.cli.transaction import Proposal, carry_out, preview, require_tmux
    from dflashctl.plan.diff import LONGEST_TEXT
    from dflashctl.plan.look import look_before_placing
    from dflashctl.plan.rollback import as_it_was, plan_rollback
    from dflashctl.plan.runs import following
    from dflashctl.playbook.channels import read_watch
    from dflashctl.playbook.secrets import find_secrets

    call = begin(ctx, "rollback", as_json)
    today = call.desired(target, playbook)
    with call.at(today.target, first_of(today)) as agent:
        listed = on_record(call, agent, today)
        record = recall(agent, today, run, listed)
        wanted = _checkpoints(agent, today, with_checkpoints, following(record.run.id, listed))
        secrets = find_secrets(today.playbook.run, record.secrets, call.environ)
        now = replace(
            today,
            secrets=secrets,
            run_id=call.new_run_id(today.playbook.name),
            watch=read_watch(today.playbook.watch, call.environ),
        )
        desired = as_it_was(now, record)
        look = replace(look_before_placing(desired), whole_store=wanted is not None)
        seen = call.observe(agent, desired, look)
        require_tmux(desired.target, seen)
        there = {file.sha256 for file in seen.files}
        other = [file.sha256 for file in desired.files if file.sha256 not in there]
        desired = replace(desired, texts=agent.read_blobs(other, LONGEST_TEXT))
        plan = plan_rollback(desired, seen, record, wanted, wait=not no_wait)
        proposal = Proposal(desired=desired, look=look, seen=seen, plan=plan, diff=diff)
        return preview(call, proposal) if dry_run else carry_out(call, agent, proposal)


def _checkpoints(
    agent: Agent, desired: Desired, option: str | None, next_run: RunSeen | None
) -> Wanted | None:
    """What ``--with-checkpoints`` asks for."""
    from dflashctl.plan.rollback import Wanted

    if option is None:
        return None
    if option != CLEARED:
        return Wanted(archive=option)
    if next_run is None:
        return Wanted()
    return Wanted(cleared_by=agent.recall(desired.playbook.name, next_run.id).transaction)
