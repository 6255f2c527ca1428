"""stop: end the run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from dflashctl.cli.call import begin
from dflashctl.cli.options import (
    AllOption,
    DryRunOption,
    JsonOption,
    PlaybookOption,
    TargetsOption,
)

if TYPE_CHECKING:
    from dflashctl.cli.verb import Verb


def stop(
    ctx: typer.Context,
    target: TargetsOption = None,
    everything: AllOption = False,
    playbook: PlaybookOption = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> int:
    """Stop the running job gracefully, and prove that it is gone.

    Of several targets each is stopped, whatever is the matter with the others.
    """
    from dflashctl.cli.transaction import perform
    from dflashctl.cli.verb import Way

    call = begin(ctx, "stop", as_json)
    wanted = call.desired(call.targets(target, everything=everything), playbook)
    return perform(call, stopping(), wanted, Way(dry_run=dry_run))


def stopping() -> Verb:
    """The verb. A target out of reach keeps no other one running."""
    from dflashctl.cli.verb import Verb, at, one_by_one
    from dflashctl.plan.look import look_for
    from dflashctl.plan.stop import plan_stop

    return Verb(
        look=at(lambda desired: look_for(desired, gpus=False)),
        plan=one_by_one(lambda sight: plan_stop(sight.desired, sight.seen)),
        all_or_none=False,
    )
