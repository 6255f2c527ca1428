"""deploy: bring the files, and start the run that uses them."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from dflashctl.cli.call import begin
from dflashctl.cli.options import (
    DiffOption,
    DryRunOption,
    JsonOption,
    NoWaitOption,
    PlaybookOption,
    TargetOption,
)


class Deploy(TyperCommand):
    """``--archive-checkpoints`` may stand without a name, which the parser does not know."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As its parents do, with the empty name given."""
        option = "--archive-checkpoints"
        return super().parse_args(ctx, [f"{one}=" if one == option else one for one in args])


def deploy(  # noqa: PLR0913, PLR0917 - one parameter an option
    ctx: typer.Context,
    target: TargetOption = None,
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
    moved aside, not deleted.
    """
    from dataclasses import replace

    from dflashctl.cli.checkpoints import archive_name
    from dflashctl.cli.transaction import Proposal, carry_out, preview, require_tmux
    from dflashctl.plan.deploy import plan_deploy
    from dflashctl.plan.look import look_before_placing

    call = begin(ctx, "deploy", as_json)
    desired = call.desired_run(target, playbook)
    archive = None if archive_checkpoints is None else archive_name(archive_checkpoints)
    # What the checkpoints amount to, and what may be purged, takes a longer look.
    listed = clear_checkpoints or archive is not None
    look = replace(look_before_placing(desired), whole_store=listed)
    with call.at(desired.target, look) as agent:
        seen = call.observe(agent, desired, look)
        require_tmux(desired.target, seen)
        desired = call.with_texts(desired, seen)
        plan = plan_deploy(
            desired,
            seen,
            restart=restart,
            clear=clear_checkpoints,
            archive=archive,
            wait=not no_wait,
        )
        proposal = Proposal(desired=desired, look=look, seen=seen, plan=plan, diff=diff)
        return preview(call, proposal) if dry_run else carry_out(call, agent, proposal)
