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
    from dflashctl.plan.steps import lives, what_was

    call = begin(ctx, "attach", as_json=False)
    (desired,) = call.desired((call.target(target),), playbook)
    session, name = desired.playbook.session, desired.target.name
    terminal.require("attach")
    look = terminal.look(call, desired)
    with call.at(desired.target, look) as agent:
        seen = call.observe(agent, desired, look)
    if seen.session is None:
        raise NothingRuns(target=name, session=session, state=seen.state)
    call.screen.say(terminal.hint(call, read_only=read_only), style="dim")
    words = terminal.attach_words(desired, seen, call.environ, read_only=read_only)
    with call.reach() as reach:
        terminal.run(desired.target, reach.terminal_words(desired.target, words))
    # The session may have ended before our eyes: what is said is what is seen.
    with call.at(desired.target, look) as agent:
        seen = call.observe(agent, desired, look)
    running = f"detached; {desired.playbook.name} keeps running"
    call.screen.say(running if lives(seen) else f"nothing runs; {what_was(seen)}")
    return 0
