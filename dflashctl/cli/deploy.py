"""deploy: bring the files, and start the run that uses them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

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
    from dflashctl.cli.reach import Agents
    from dflashctl.plan.model import Desired, Plan


class Deploy(TyperCommand):
    """``--archive-checkpoints`` may stand without a name, which the parser does not know."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As its parents do, with the empty name given."""
        option = "--archive-checkpoints"
        return super().parse_args(ctx, [f"{one}=" if one == option else one for one in args])


def deploy(  # noqa: PLR0913, PLR0917 - one parameter an option
    ctx: typer.Context,
    target: TargetsOption = None,
    everything: AllOption = False,
    playbook: PlaybookOption = None,
    restart: Annotated[
        bool, typer.Option("--restart", help="Stop a running job first, gracefully.")
    ] = False,
    clear_checkpoints: Annotated[
        bool,
        typer.Option("--clear-checkpoints", help="Move the checkpoints away before the start."),
    ] = False,
    archive_checkpoints: Annotated[
        str | None,
        typer.Option(
            "--archive-checkpoints",
            metavar="[=NAME]",
            help="Move the complete checkpoints into an archive before the start.",
        ),
    ] = None,
    no_wait: NoWaitOption = False,
    diff: DiffOption = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> int:
    """Bring the playbook's files and start the run, verified.

    A running job goes on untouched unless --restart is given. Cleared checkpoints are
    moved aside, not deleted. Of several targets none is touched before all are ready.
    """
    from dataclasses import replace

    from dflashctl.cli.checkpoints import archive_name
    from dflashctl.cli.together import meeting, none_lives
    from dflashctl.cli.transaction import perform
    from dflashctl.cli.verb import Verb, Way, one_by_one
    from dflashctl.plan.deploy import plan_deploy
    from dflashctl.plan.look import look_before_placing
    from dflashctl.plan.model import Sight

    call = begin(ctx, "deploy", as_json)
    wanted = call.desired_run(call.targets(target, everything=everything), playbook)
    archive = None if archive_checkpoints is None else archive_name(archive_checkpoints)
    # What the checkpoints amount to, and what may be purged, takes a longer look.
    listed = clear_checkpoints or archive is not None

    def look(agents: Agents, desired: Desired) -> Sight:
        question = replace(look_before_placing(desired), whole_store=listed)
        seen = agents.at(desired.target, question).observe(question)
        return Sight(desired=call.with_texts(desired, seen), look=question, seen=seen)

    def plan(sight: Sight) -> Plan:
        return plan_deploy(
            sight.desired,
            sight.seen,
            restart=restart,
            clear=clear_checkpoints,
            archive=archive,
            wait=not no_wait,
        )

    def starts(sights: tuple[Sight, ...]) -> bool:
        return restart or none_lives(sights)

    meet = meeting("deploy", starts=starts, moves=listed)
    verb = Verb(look=look, plan=one_by_one(plan), all_or_none=True, meet=meet)
    return perform(call, verb, wanted, Way(dry_run=dry_run, diff=diff))
