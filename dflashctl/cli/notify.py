"""notify: try the ways by which the watchdog tells people."""

from __future__ import annotations

from typing import Annotated

import typer

from dflashctl.cli.call import begin
from dflashctl.cli.options import JsonOption, PlaybookOption, TargetOption


def notify(
    ctx: typer.Context,
    test: Annotated[
        bool, typer.Option("--test", help="Send a test over each way of watch.notify.")
    ] = False,
    target: TargetOption = None,
    playbook: PlaybookOption = None,
    as_json: JsonOption = False,
) -> int:
    """Send a test, from the target, to everybody whom the playbook's watch.notify names."""
    from dflashctl.agent.watching import Notify
    from dflashctl.errors import MissingSetting, NotSent
    from dflashctl.playbook.channels import read_watch
    from dflashctl.view import json

    if not test:
        raise typer.BadParameter("there is only --test: the watchdog sends the rest.", ctx=ctx)
    call = begin(ctx, "notify", as_json)
    desired = call.desired(target, playbook)
    job, name = desired.playbook, desired.target.name
    watch = read_watch(job.watch, call.environ)
    if watch is None or not watch.channels:
        raise MissingSetting(verb="notify", setting="watch.notify", path=job.path)
    with call.at(desired.target) as agent, call.screen.waiting(f"sending from {name}"):
        told = agent.notify(Notify(job=job.name, channels=watch.channels))
    results = list(zip((one.kind for one in watch.channels), told.problems, strict=True))
    if not as_json:
        for kind, problem in results:
            call.screen.write(f"{kind:<8} {'not sent' if problem else 'sent'}\n")
    failed = tuple(f"{kind}: {problem}" for kind, problem in results if problem)
    if failed:
        raise NotSent(target=name, failed=failed)
    if as_json:
        value = {"sent": [kind for kind, _ in results], "error": None}
        call.screen.write(json.envelope("notify", 0, {name: value}))
    return 0
