"""logs: what a run printed, also after its end."""

from __future__ import annotations

from typing import Annotated

import typer

from dflashctl.cli.call import begin
from dflashctl.cli.options import JsonOption, PlaybookOption, TargetOption


def logs(  # noqa: PLR0913, PLR0917 - one parameter an option
    ctx: typer.Context,
    target: TargetOption = None,
    playbook: PlaybookOption = None,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Go on until the run ends, or Ctrl-C.")
    ] = False,
    lines: Annotated[
        int, typer.Option("-n", "--lines", min=0, metavar="N", help="How many last lines.")
    ] = 100,
    run: Annotated[
        str | None, typer.Option("--run", metavar="ID", help="Another run than the newest.")
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Print what the run printed. Ctrl-C ends the watching, never the run.

    With -f and --json it is one object a line.
    """
    from dflashctl.agent.protocol import Logs
    from dflashctl.cli import logstream
    from dflashctl.errors import NothingRuns

    call = begin(ctx, "logs", as_json)
    desired = call.desired(target, playbook)
    name = desired.target.name
    request = Logs(job=desired.playbook.name, run_id=run, lines=lines, follow=follow)
    with call.at(desired.target) as agent:
        try:
            end = logstream.print_all(logstream.sink(call, name, request), agent.logs(request))
        except NothingRuns as error:
            error.run_id = run
            raise
        except KeyboardInterrupt:  # the way to end -f: nothing to explain
            return 130
        if follow:
            logstream.tell_end(call, agent, desired, end)
    return 0
