"""status: how the job stands on each target."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dflashctl.cli.call import begin
from dflashctl.cli.options import AllOption, JsonOption, PlaybookOption, TargetsOption

if TYPE_CHECKING:
    from dflashctl.agent.seen import Observed
    from dflashctl.inventory.model import Target


def status(
    ctx: typer.Context,
    target: TargetsOption = None,
    everything: AllOption = False,
    playbook: PlaybookOption = None,
    watching: Annotated[
        bool, typer.Option("--watch", help="Go on looking until Ctrl-C, also across a lost link.")
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Show how the job stands: run, progress, GPUs, checkpoints, disk.

    Exit codes: 0 running, 3 nothing runs, 4 failed, 5 running with a verdict against it,
    69 unreachable. Of several targets the worst counts. With --watch and --json it is one
    object a line.
    """
    from dflashctl.inventory.select import in_short
    from dflashctl.link.fanout import each
    from dflashctl.plan.look import look_for
    from dflashctl.plan.model import Desired

    call = begin(ctx, "status", as_json)
    targets = call.targets(target, everything=everything)
    job = call.outline(playbook)
    if watching:
        from dflashctl.cli.watch import watch

        return watch(call, targets, lambda one: look_for(Desired(playbook=job, target=one)))
    with call.reach() as reach, call.screen.waiting(f"looking at {in_short(targets)}"):

        def seen_at(one: Target) -> Observed:
            look = look_for(Desired(playbook=job, target=one))
            with reach.agent(one, look) as agent:
                return agent.observe(look)

        found = each(targets, seen_at)
    # These are loaded while the targets are waited for.
    from dflashctl.cli.health import exit_code, report, together
    from dflashctl.errors import worst
    from dflashctl.view import json
    from dflashctl.view.fleet import show_status
    from dflashctl.view.nodes import runs_object

    for one, seen in zip(targets, found, strict=True):
        if not isinstance(seen, Exception):
            call.keep_in_mind(one.name, seen)
    reports = together([report(*pair) for pair in zip(targets, found, strict=True)])
    code = worst([exit_code(one) for one in reports])
    if as_json:
        shapes = {one.target: json.status_object(one) for one in reports}
        runs, again = runs_object(reports), call.screen.again()
        call.screen.write(json.envelope("status", code, shapes, again=again, runs=runs))
    else:
        show_status(call.screen, reports, call.inventory.groups)
    return code
