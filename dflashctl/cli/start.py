"""start: run what was deployed before."""

from __future__ import annotations

import typer

from dflashctl.cli.call import begin
from dflashctl.cli.options import (
    AllOption,
    DryRunOption,
    JsonOption,
    NoWaitOption,
    PlaybookOption,
    TargetsOption,
)


def start(  # noqa: PLR0913, PLR0917 - one parameter an option
    ctx: typer.Context,
    target: TargetsOption = None,
    everything: AllOption = False,
    playbook: PlaybookOption = None,
    no_wait: NoWaitOption = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> int:
    """Start the job from the files that are there already, verified."""
    from dflashctl.cli.together import meeting, none_lives
    from dflashctl.cli.transaction import perform
    from dflashctl.cli.verb import Verb, Way, at, one_by_one
    from dflashctl.plan.look import look_before_start
    from dflashctl.plan.start import plan_start

    call = begin(ctx, "start", as_json)
    wanted = call.desired_run(call.targets(target, everything=everything), playbook)
    verb = Verb(
        look=at(look_before_start),
        plan=one_by_one(lambda sight: plan_start(sight.desired, sight.seen, wait=not no_wait)),
        all_or_none=True,
        meet=meeting("start", starts=none_lives, moves=False),
    )
    return perform(call, verb, wanted, Way(dry_run=dry_run))
