"""inventory check: what the inventory declares, beside what is there."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from dflashctl.cli.call import begin
from dflashctl.cli.options import JsonOption, TargetsOption

if TYPE_CHECKING:
    from dflashctl.agent.protocol import Look
    from dflashctl.agent.seen import Observed
    from dflashctl.cli.reach import Reach
    from dflashctl.errors import DflashError
    from dflashctl.inventory.model import Target
    from dflashctl.view.findings import Checked


def check(
    ctx: typer.Context,
    target: TargetsOption = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All targets; so it is without -t, too.")
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Compare what is declared with what is there.

    Every target is reached: GPUs, /dev/nvidia-uvm, the driver on the host and in the
    container, python, tmux and the clock. Exit codes: 0 all well (warnings too), 65 a
    problem, 69 and the like where a target is not reached; the worst counts.
    """
    from dflashctl.errors import worst
    from dflashctl.link.fanout import each
    from dflashctl.plan.look import look_at_target
    from dflashctl.view import json
    from dflashctl.view.findings import checked_object, show_checked

    call = begin(ctx, "inventory check", as_json)
    targets = call.targets(target, everything=everything or not target)
    with call.reach() as reach, call.screen.waiting(f"looking at {len(targets)} targets"):
        found = each(targets, lambda one: looked_at(reach, one, look_at_target(one)))
    checked = [_checked(*pair) for pair in zip(targets, found, strict=True)]
    code = worst([exit_code(one) for one in checked])
    if as_json:
        shapes = {one.target.name: checked_object(one) for one in checked}
        call.screen.write(json.envelope("inventory check", code, shapes, again=call.screen.again()))
    else:
        show_checked(call.screen, checked)
    return code


def looked_at(reach: Reach, target: Target, look: Look) -> tuple[Observed, float]:
    """A look at the target, and how many seconds its clock is off, at the least."""
    from dflashctl.plan.findings import skew

    with reach.agent(target) as agent:
        before = time.time()
        seen = agent.observe(look)
        return seen, skew(seen.now, before, time.time())


def exit_code(one: Checked) -> int:
    """What the shell is told of one target."""
    from dflashctl.plan.findings import has_problem

    if one.error is not None:
        return one.error.exit_code
    return 65 if has_problem(one.findings) else 0


def _checked(target: Target, found: tuple[Observed, float] | DflashError) -> Checked:
    from dflashctl.plan.findings import target_findings
    from dflashctl.view.findings import Checked

    if isinstance(found, Exception):
        return Checked(target=target, error=found)
    seen, skew_s = found
    findings = target_findings(target, seen, skew_s)
    return Checked(target=target, seen=seen, skew_s=skew_s, findings=findings)
