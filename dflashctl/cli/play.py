"""play: the steps that a playbook names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dflashctl.cli.call import begin
from dflashctl.cli.options import (
    AllOption,
    DiffOption,
    DryRunOption,
    JsonOption,
    TargetsOption,
    YesOption,
)

if TYPE_CHECKING:
    from dflashctl.cli.reach import Agents
    from dflashctl.plan.model import Desired


def play(  # noqa: PLR0913, PLR0917 - one parameter an option
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A playbook with `steps`.")],
    target: TargetsOption = None,
    everything: AllOption = False,
    diff: DiffOption = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> int:
    """Do a playbook's steps in their order, as one transaction.

    A target is looked at once; steps whose `when` is not so are left out of the plan.
    Boundaries, if the steps begin with `optimize_buckets`, are made before that.
    """
    from dflashctl.cli.together import meeting
    from dflashctl.cli.transaction import perform
    from dflashctl.cli.verb import Verb, Way, one_by_one
    from dflashctl.plan.model import Sight
    from dflashctl.plan.play import look_before_play, plan_play

    call = begin(ctx, "play", as_json)
    if not dry_run and any(step.do == "optimize_buckets" for step in call.outline(file).steps):
        from dflashctl.cli.optimize_buckets import make_boundaries

        made = make_boundaries(call, target, file, everything=everything)
        call.screen.say(f"boundaries written to {made}")
    wanted = call.desired_play(call.targets(target, everything=everything), file)

    def look(agents: Agents, desired: Desired) -> Sight:
        question = look_before_play(desired)
        seen = agents.at(desired.target, question).observe(question)
        return Sight(desired=call.with_texts(desired, seen), look=question, seen=seen)

    begins = any(step.do == "start" for step in wanted[0].playbook.steps)
    verb = Verb(
        look=look,
        plan=one_by_one(lambda sight: plan_play(sight.desired, sight.seen)),
        all_or_none=True,
        meet=meeting("play", starts=lambda _: begins, moves=True),
    )
    return perform(call, verb, wanted, Way(dry_run=dry_run, diff=diff, yes=yes))
