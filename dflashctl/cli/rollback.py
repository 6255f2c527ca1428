"""rollback: back to an earlier run's release."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from dflashctl.cli.call import begin
from dflashctl.cli.options import (
    AllOption,
    DiffOption,
    DryRunOption,
    JsonOption,
    NoWaitOption,
    PlaybookOption,
    TargetsOption,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dflashctl.agent.seen import RunSeen
    from dflashctl.cli.call import Call
    from dflashctl.cli.reach import Agents
    from dflashctl.cli.verb import Verb
    from dflashctl.link.client import Agent
    from dflashctl.plan.model import Desired, Plan, Sight
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
    target: TargetsOption = None,
    everything: AllOption = False,
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
    from dflashctl.cli.transaction import perform
    from dflashctl.cli.verb import Way

    call = begin(ctx, "rollback", as_json)
    wanted = call.desired(call.targets(target, everything=everything), playbook)
    way = GoingBack(run=run, back=with_checkpoints)
    verb = going_back(call, {one.target.name: way for one in wanted}, wait=not no_wait)
    return perform(call, verb, call.with_new_ids(wanted), Way(dry_run=dry_run, diff=diff))


@dataclass(frozen=True, slots=True, kw_only=True)
class GoingBack:
    """To which run, as it may be typed; ``back``: with which checkpoints, or as typed, too."""

    run: str
    back: Wanted | str | None = None


def going_back(call: Call, ways: Mapping[str, GoingBack], *, wait: bool = True) -> Verb:
    """The verb, with the way that each target goes."""
    from dflashctl.cli.together import meeting
    from dflashctl.cli.verb import Verb, one_by_one
    from dflashctl.plan.rollback import plan_rollback

    def plan(sight: Sight) -> Plan:
        assert sight.record is not None, "it was looked up"
        return plan_rollback(sight.desired, sight.seen, sight.record, sight.back, wait=wait)

    return Verb(
        look=lambda agents, today: _look(call, agents, today, ways[today.target.name]),
        plan=one_by_one(plan),
        all_or_none=True,
        meet=meeting("rollback", starts=lambda _: True, moves=True),
    )


def _look(call: Call, agents: Agents, today: Desired, way: GoingBack) -> Sight:
    """What is on record of the run, then the target beside it."""
    from dflashctl.cli.runs import first_of, on_record, recall
    from dflashctl.plan.diff import LONGEST_TEXT
    from dflashctl.plan.look import look_before_placing
    from dflashctl.plan.model import Sight
    from dflashctl.plan.rollback import as_it_was
    from dflashctl.plan.runs import following
    from dflashctl.playbook.channels import read_watch
    from dflashctl.playbook.secrets import find_secrets

    agent = agents.at(today.target, first_of(today))
    listed = on_record(call, agent, today)
    record = recall(agent, today, way.run, listed)
    back = way.back
    if isinstance(back, str):
        back = _checkpoints(agent, today, back, following(record.run.id, listed))
    now = replace(
        today,
        secrets=find_secrets(today.playbook.run, record.secrets, call.environ),
        watch=read_watch(today.playbook.watch, call.environ),
    )
    desired = as_it_was(now, record)
    look = replace(look_before_placing(desired), whole_store=back is not None)
    seen = agent.observe(look)
    there = {file.sha256 for file in seen.files}
    other = [file.sha256 for file in desired.files if file.sha256 not in there]
    desired = replace(desired, texts=agent.read_blobs(other, LONGEST_TEXT))
    return Sight(desired=desired, look=look, seen=seen, record=record, back=back)


def _checkpoints(agent: Agent, desired: Desired, said: str, next_run: RunSeen | None) -> Wanted:
    """What ``--with-checkpoints`` asks for."""
    from dflashctl.plan.rollback import Wanted

    if said != CLEARED:
        return Wanted(archive=said)
    if next_run is None:
        return Wanted()
    return Wanted(cleared_by=agent.recall(desired.playbook.name, next_run.id).transaction)
