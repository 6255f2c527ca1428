"""start: run what was deployed before."""

from __future__ import annotations

import typer

from dflashctl.cli.call import begin
from dflashctl.cli.options import (
    DryRunOption,
    JsonOption,
    NoWaitOption,
    PlaybookOption,
    TargetOption,
)


def start(
    ctx: typer.Context,
    target: TargetOption = None,
    playbook: PlaybookOption = None,
    no_wait: NoWaitOption = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> int:
    """Start the job from the files that are there already, verified."""
    from dflashctl.cli.transaction import Proposal, carry_out, preview, require_tmux
    from dflashctl.plan.look import look_before_start
    from dflashctl.plan.start import plan_start

    call = begin(ctx, "start", as_json)
    desired = call.desired_run(target, playbook)
    look = look_before_start(desired)
    with call.at(desired.target, look) as agent:
        seen = call.observe(agent, desired, look)
        require_tmux(desired.target, seen)
        plan = plan_start(desired, seen, wait=not no_wait)
        proposal = Proposal(desired=desired, look=look, seen=seen, plan=plan)
        return preview(call, proposal) if dry_run else carry_out(call, agent, proposal)
