"""play: the steps that a playbook names."""

from __future__ import annotations

from typing import Annotated

import typer

from dflashctl.cli.call import begin
from dflashctl.cli.options import DiffOption, DryRunOption, JsonOption, TargetOption, YesOption


def play(  # noqa: PLR0913, PLR0917 - one parameter an option
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A playbook with `steps`.")],
    target: TargetOption = None,
    diff: DiffOption = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> int:
    """Do a playbook's steps in their order, as one transaction.

    The target is looked at once; steps whose `when` is not so are left out of the plan.
    Boundaries, if the steps begin with `optimize_buckets`, are made before that.
    """
    from dflashctl.cli.transaction import Proposal, carry_out, preview, require_tmux
    from dflashctl.plan.play import look_before_play, plan_play

    call = begin(ctx, "play", as_json)
    if not dry_run and any(step.do == "optimize_buckets" for step in call.outline(file).steps):
        from dflashctl.cli.optimize_buckets import make_boundaries

        call.screen.say(f"boundaries written to {make_boundaries(call, target, file)}")
    desired = call.desired_play(target, file)
    look = look_before_play(desired)
    with call.at(desired.target, look) as agent:
        seen = call.observe(agent, desired, look)
        desired = call.with_texts(desired, seen)
        plan = plan_play(desired, seen)
        if plan.run_id is not None:
            require_tmux(desired.target, seen)
        proposal = Proposal(desired=desired, look=look, seen=seen, plan=plan, diff=diff, yes=yes)
        return preview(call, proposal) if dry_run else carry_out(call, agent, proposal)
