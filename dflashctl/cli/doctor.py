"""doctor: everything that could be in the way, on one page."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dflashctl.cli.call import begin
from dflashctl.cli.options import JsonOption, PlaybookOption, TargetsOption

if TYPE_CHECKING:
    from dflashctl.cli.call import Call
    from dflashctl.cli.reach import Reach
    from dflashctl.inventory.model import Target
    from dflashctl.plan.findings import Finding
    from dflashctl.plan.model import Desired


def doctor(
    ctx: typer.Context,
    target: TargetsOption = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All targets of the inventory.")
    ] = False,
    playbook: PlaybookOption = None,
    as_json: JsonOption = False,
) -> int:
    """Check all that a deploy needs, here and there.

    Nothing is changed. Exit codes: 0 no problem (warnings do not count), 65 a problem, on
    whichever side.
    """
    from dflashctl.errors import DflashError
    from dflashctl.link.fanout import each
    from dflashctl.plan.findings import has_problem
    from dflashctl.view import json
    from dflashctl.view.findings import finding_objects, show_findings, show_tally
    from dflashctl.view.inventory import way

    call = begin(ctx, "doctor", as_json)
    targets, of_inventory = _targets(call, target, everything=everything)
    desired, of_playbook = _desired(call, targets, playbook)
    with call.screen.waiting("looking at this side"):
        here = (*_own(call, targets), of_inventory, of_playbook)
    if not as_json:
        show_findings(call.screen, "this side", here)
    names = ", ".join(one.name for one in targets)
    with call.reach() as reach, call.screen.waiting(f"looking at {names}"):
        found = each(targets, lambda one: _of_target(reach, one, desired))
    there: dict[str, tuple[Finding, ...]] = {}
    for one, findings in zip(targets, found, strict=True):
        assert not isinstance(findings, DflashError), "each is a finding by now"
        there[one.name] = findings
        if not as_json:
            call.screen.write("\n")
            title, named = f"{one.name} ({way(one)})", one.name if len(targets) > 1 else ""
            show_findings(call.screen, title, findings, target=named)
    code = 65 if any(map(has_problem, (here, *there.values()))) else 0
    if as_json:
        shapes = {
            name: {"findings": finding_objects(findings), "error": None}
            for name, findings in there.items()
        }
        again, own = call.screen.again(), finding_objects(here)
        call.screen.write(json.envelope("doctor", code, shapes, again=again, here=own))
    else:
        show_tally(call.screen, (*here, *(one for found in there.values() for one in found)))
    return code


def _targets(
    call: Call, names: list[str] | None, *, everything: bool
) -> tuple[tuple[Target, ...], Finding]:
    """The targets to look at (all, where none is the default), and how the inventory is.

    Raises:
        UnknownTarget, AmbiguousTarget: a name that was typed is none, or stands for several.
    """
    from dflashctl.errors import AmbiguousTarget, DflashError
    from dflashctl.plan.findings import Finding
    from dflashctl.plan.words import counted
    from dflashctl.view.findings import error_finding

    try:
        inventory = call.inventory
    except DflashError as error:
        return (), error_finding("inventory", error)
    try:
        chosen = call.targets(names, everything=everything)
    except AmbiguousTarget:
        if names:
            raise
        chosen = inventory.targets
    evidence = f"{inventory.path}: {counted(len(inventory.targets), 'target')}"
    return chosen, Finding(check="inventory", grade="ok", evidence=evidence)


def _desired(
    call: Call, targets: tuple[Target, ...], playbook: str | None
) -> tuple[Desired | None, Finding]:
    """The job, for any target, and how its playbook is."""
    from dflashctl.errors import DflashError
    from dflashctl.plan.findings import Finding
    from dflashctl.plan.words import counted
    from dflashctl.view.findings import error_finding

    try:
        if not targets:
            job = call.outline(playbook)
            evidence = f"{job.path}: {job.name}"
            return None, Finding(check="playbook", grade="ok", evidence=evidence)
        (desired,) = call.desired_run(targets[:1], playbook)
    except DflashError as error:
        return None, error_finding("playbook", error)
    job = desired.playbook
    evidence = f"{job.path}: {job.name}, {counted(len(desired.files), 'file')} to push"
    return desired, Finding(check="playbook", grade="ok", evidence=evidence)


def _own(call: Call, targets: tuple[Target, ...]) -> tuple[Finding, ...]:
    import os
    import pwd

    from dflashctl.cli.ownside import OwnSide, own_findings
    from dflashctl.inventory.model import InContainer, SshAddress

    routes = [
        one.route.host if isinstance(one.route, InContainer) else one.route for one in targets
    ]
    ways = [route for route in routes if isinstance(route, SshAddress)]
    keys = [way.identity_file for way in ways if way.identity_file is not None]
    home = Path(pwd.getpwuid(os.getuid()).pw_dir)
    known = [way.known_hosts_file or home / ".ssh" / "known_hosts" for way in ways]
    side = OwnSide(
        environ=call.environ,
        home=home,
        identity_files=tuple(dict.fromkeys(keys)),
        known_hosts=tuple(dict.fromkeys(known)),
    )
    return own_findings(side)


def _of_target(reach: Reach, target: Target, desired: Desired | None) -> tuple[Finding, ...]:
    """All that can be said of one target; whatever fails is a finding, too."""
    from dflashctl.errors import DflashError
    from dflashctl.plan.diagnosis import job_findings
    from dflashctl.plan.findings import Finding, skew, target_findings
    from dflashctl.plan.look import look_at_target, look_before_start
    from dflashctl.view.findings import error_finding

    began = time.monotonic()
    look = look_at_target(target)
    job = None if desired is None else replace(desired, target=target)
    if job is not None:
        look = replace(look_before_start(job), driver=True)
    try:
        with reach.agent(target) as agent:
            reached = time.monotonic() - began
            before = time.time()
            seen = agent.observe(look)
            off = skew(seen.now, before, time.time())
    except DflashError as error:
        return (error_finding("reached", error),)
    way = Finding(
        check="reached",
        grade="ok",
        evidence=f"in {reached:.1f} s, as {seen.user} on {seen.hostname}",
    )
    of_target = target_findings(target, seen, off)
    if job is None:
        evidence = "without a playbook nothing is known of it"
        return (way, *of_target, Finding(check="job", grade="unchecked", evidence=evidence))
    try:
        return (way, *of_target, *job_findings(job, seen, of_target))
    except DflashError as error:
        return (way, *of_target, error_finding("job", error))
