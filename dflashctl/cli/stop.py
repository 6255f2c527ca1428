"""stop: end the run."""

from __future__ import annotations

import typer

from dflashctl.cli.call import begin
from dflashctl.cli.options import DryRunOption, JsonOption, PlaybookOption, TargetOption


def stop(
    ctx: typer.Context,
    target: TargetOption = None,
    playbook: PlaybookOption = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> int:
    """Stop the running job gracefully, and prove that it is gone."""
    from dflashctl.cli.transaction import Proposal, carry_out, preview
    from dflashctl.plan.look import look_for
    from dflashctl.plan.stop import plan_stop

    call = begin(ctx, "stop", as_json)
    desired = call.desired(target, playbook)
    look = look_for(desired, gpus=False)
    with call.at(desired.target, look) as agent:
        seen = call.observe(agent, desired, look)
        plan = plan_stop(desired, seen)
        proposal = Proposal(desired=desired, look=look, seen=seen, plan=plan)
        return preview(call, proposal) if dry_run else carry_out(call, agent, proposal)
