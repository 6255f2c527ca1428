"""attach: this terminal on the run's own session."""

from __future__ import annotations

from typing import Annotated

import typer

from dflashctl.cli.call import begin
from dflashctl.cli.options import PlaybookOption, TargetOption


def attach(
    ctx: typer.Context,
    target: TargetOption = None,
    playbook: PlaybookOption = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Look on; keys do not reach the trainer.")
    ] = False,
) -> int:
    """Open the run's session in this terminal; detach with Ctrl-b d."""
    from dflashctl.cli import terminal
    from dflashctl.errors import NothingRuns

    call = begin(ctx, "attach", as_json=False)
    desired = call.desired(target, playbook)
    session, name = desired.playbook.session, desired.target.name
    terminal.require(session)
    look = terminal.look(call, desired)
    with call.at(desired.target) as agent:
        seen = call.observe(agent, desired, look)
    if seen.session is None:
        raise NothingRuns(target=name, session=session, state=seen.state)
    call.screen.say(terminal.hint(call, read_only=read_only), style="dim")
    words = terminal.attach_words(desired, seen, call.environ, read_only=read_only)
    with call.reach() as reach:
        terminal.run(desired.target, reach.terminal_words(desired.target, words))
    call.screen.say(f"detached; {desired.playbook.name} keeps running")
    return 0
