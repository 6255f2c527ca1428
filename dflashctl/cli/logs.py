"""logs: what a run printed, also after its end."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from dflashctl.cli.call import begin
from dflashctl.cli.options import AllOption, JsonOption, PlaybookOption, SinceOption, TargetsOption


def logs(  # noqa: PLR0913, PLR0917 - one parameter an option
    ctx: typer.Context,
    target: TargetsOption = None,
    everything: AllOption = False,
    playbook: PlaybookOption = None,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Go on until the run ends, or Ctrl-C.")
    ] = False,
    lines: Annotated[
        int | None,
        typer.Option(
            "-n", "--lines", min=0, metavar="N", help="How many last lines, 100 if not said."
        ),
    ] = None,
    since: SinceOption = None,
    grep: Annotated[
        str | None,
        typer.Option("--grep", metavar="REGEX", help="Only lines in which this is found."),
    ] = None,
    errors: Annotated[
        bool, typer.Option("--errors", help="Tracebacks and other errors, each once and whole.")
    ] = False,
    raw: Annotated[
        bool, typer.Option("--raw", help="As it was printed, colours and cursor movements too.")
    ] = False,
    run: Annotated[
        str | None, typer.Option("--run", metavar="ID", help="Another run than the newest.")
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Print what the run printed. Ctrl-C ends the watching, never the run.

    With -f and --json it is one object a line. Of several targets each is printed after the
    other; with -f all at once, each line with its target's name.
    """
    from dflashctl.agent.protocol import Logs
    from dflashctl.cli import logstream
    from dflashctl.errors import NothingRuns

    call = begin(ctx, "logs", as_json)
    wrong = [("-f", follow), ("--grep", grep is not None)] if errors else []
    wrong += [("--raw", raw)] if as_json or errors else []
    for option, given in wrong:
        if given:
            other = "--errors" if errors else "--json"
            raise typer.BadParameter(f"{option} does not go with {other}.", ctx=ctx)
    try:
        re.compile(grep or "")
    except re.error as error:
        raise typer.BadParameter(f"--grep is no regular expression: {error}.", ctx=ctx) from error
    count = lines if lines is not None or errors or since is not None else 100
    wanted = call.desired(call.targets(target, everything=everything), playbook)
    if raw and len(wanted) > 1:
        raise typer.BadParameter("--raw is for one target at a time.", ctx=ctx)
    request = Logs(
        job=wanted[0].playbook.name,
        run_id=run,
        lines=count,
        follow=follow,
        since_s=since,
        grep=grep,
        errors=errors,
    )
    if len(wanted) > 1:
        from dflashctl.cli import logs_of_many

        go = logs_of_many.follow if follow else logs_of_many.show
        return go(call, wanted, request)
    (desired,) = wanted
    name = desired.target.name
    with call.at(desired.target, request) as agent:
        try:
            end = logstream.print_all(logstream.sink(call, name, request, raw), agent.logs(request))
        except NothingRuns as error:
            error.run_id = run
            raise
        except KeyboardInterrupt:  # the way to end -f: nothing to explain
            return 130
        if follow:
            logstream.tell_end(call, agent, desired, end)
    return 0
