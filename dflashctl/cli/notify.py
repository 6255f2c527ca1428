"""notify: try the ways by which the watchdog tells people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from dflashctl.cli.call import begin
from dflashctl.cli.options import AllOption, JsonOption, PlaybookOption, TargetsOption

if TYPE_CHECKING:
    from dflashctl.cli.reach import Agents
    from dflashctl.plan.model import Desired


def notify(
    ctx: typer.Context,
    test: Annotated[
        bool, typer.Option("--test", help="Send a test over each way of watch.notify.")
    ] = False,
    target: TargetsOption = None,
    everything: AllOption = False,
    playbook: PlaybookOption = None,
    as_json: JsonOption = False,
) -> int:
    """Send a test, from the target, to everybody whom the playbook's watch.notify names."""
    from dflashctl.agent.watching import Notify
    from dflashctl.cli.reading import read_each
    from dflashctl.errors import MissingSetting, NotSent
    from dflashctl.playbook.channels import read_watch

    if not test:
        raise typer.BadParameter("there is only --test: the watchdog sends the rest.", ctx=ctx)
    call = begin(ctx, "notify", as_json)
    wanted = call.desired(call.targets(target, everything=everything), playbook)
    job = wanted[0].playbook
    watch = read_watch(job.watch, call.environ)
    if watch is None or not watch.channels:
        raise MissingSetting(verb="notify", setting="watch.notify", path=job.path)
    request = Notify(job=job.name, channels=watch.channels)
    kinds = [one.kind for one in watch.channels]

    def judge(name: str, problems: tuple[str, ...]) -> None:
        results = zip(kinds, problems, strict=True)
        failed = tuple(f"{kind}: {problem}" for kind, problem in results if problem)
        if failed:
            raise NotSent(target=name, failed=failed)

    def read(agents: Agents, desired: Desired) -> tuple[str, ...]:
        return agents.at(desired.target).notify(request).problems

    def show(desired: Desired, problems: tuple[str, ...]) -> None:
        for kind, problem in zip(kinds, problems, strict=True):
            call.screen.write(f"{kind:<8} {'not sent' if problem else 'sent'}\n")
        judge(desired.target.name, problems)

    def shape(desired: Desired, problems: tuple[str, ...]) -> dict[str, Any]:
        judge(desired.target.name, problems)
        return {"sent": kinds, "error": None}

    return read_each(call, wanted, read, shape, show)
