"""metrics: a run's series. compare: two runs' series side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dflashctl.cli.call import begin
from dflashctl.cli.options import JsonOption, PlaybookOption, SinceOption, TargetOption

if TYPE_CHECKING:
    from dflashctl.agent.protocol import LogEnd
    from dflashctl.cli.call import Call
    from dflashctl.link.client import Agent
    from dflashctl.plan.model import Desired
    from dflashctl.view.points import Row

LAST = 20


def metrics(  # noqa: PLR0913, PLR0917 - one parameter an option
    ctx: typer.Context,
    target: TargetOption = None,
    playbook: PlaybookOption = None,
    lines: Annotated[
        int | None,
        typer.Option(
            "-n", "--lines", min=1, metavar="N", help="How many last rows; 20 in a table."
        ),
    ] = None,
    since: SinceOption = None,
    run: Annotated[
        str | None, typer.Option("--run", metavar="ID", help="Another run than the newest.")
    ] = None,
    plot: Annotated[
        str | None,
        typer.Option("--plot", metavar="NAMES", help="Draw curves, as in loss,throughput."),
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="All rows as CSV.")] = False,
    prometheus: Annotated[
        bool, typer.Option("--prometheus", help="The state now in Prometheus' text format.")
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Show a run's metrics as they were printed, row by row."""
    from dflashctl.view import json, points

    forms = [as_csv, as_json, prometheus, plot is not None]
    if sum(forms) > 1:
        message = "--csv, --json, --plot and --prometheus do not go together."
        raise typer.BadParameter(message, ctx=ctx)
    names = _names(ctx, plot) if plot is not None else []
    call = begin(ctx, "metrics", as_json)
    desired = call.desired(target, playbook)
    name = desired.target.name
    if prometheus:
        return _prometheus(call, desired)
    count = lines if lines is not None or any(forms) or since is not None else LAST
    with call.at(desired.target) as agent:
        rows, end = _read(call, agent, desired, run, count if since is None else None)
    rows = points.since(rows, since)
    rows = rows[-count:] if count else rows
    if as_json:
        value = {"run_id": end.run_id, "state": end.state, "points": points.as_objects(rows)}
        call.screen.write(json.envelope("metrics", 0, {name: {**value, "error": None}}))
    elif as_csv:
        call.screen.write(points.as_csv(rows))
    elif not rows:
        call.screen.say(f"run {end.run_id} has printed no metrics")
    elif plot is not None:
        call.screen.write(points.curves(rows, names, call.screen.out.width))
    else:
        call.screen.show(points.table(rows))
    return 0


def compare(
    ctx: typer.Context,
    first: Annotated[str, typer.Argument(metavar="RUN", help="A run's id.")],
    second: Annotated[str, typer.Argument(metavar="RUN", help="Another run's.")],
    target: TargetOption = None,
    playbook: PlaybookOption = None,
    as_json: JsonOption = False,
) -> int:
    """Show two runs' loss and speed at the same steps.

    A run is named by its id, the beginning or end of it, `last` or `previous`.
    """
    from dflashctl.cli.runs import first_of, on_record
    from dflashctl.plan.runs import choose
    from dflashctl.view import json, points

    call = begin(ctx, "compare", as_json)
    desired = call.desired(target, playbook)
    name = desired.target.name
    with call.at(desired.target, first_of(desired)) as agent:
        listed = on_record(call, agent, desired)
        ids = [choose(word, listed, name).id for word in (first, second)]
        (a, _), (b, _) = (_read(call, agent, desired, run_id) for run_id in ids)
    entries = points.compared(a, b)
    if as_json:
        value = {"a": ids[0], "b": ids[1], "steps": entries, "error": None}
        call.screen.write(json.envelope("compare", 0, {name: value}))
        return 0
    if not entries:
        call.screen.say("the two runs have no steps in common")
        return 0
    call.screen.write(f"A  {ids[0]}\nB  {ids[1]}\n\n")
    call.screen.show(points.comparison(entries))
    for letter, rows in (("A", a), ("B", b)):
        call.screen.write(f"\n{letter} " + points.curves(rows, ["loss"], call.screen.out.width))
    return 0


def _names(ctx: typer.Context, words: str) -> list[str]:
    from dflashctl.agent.metrics import METRICS
    from dflashctl.view.points import NAMES

    found = [NAMES.get(word.strip(), word.strip()) for word in words.split(",")]
    for name in found:
        if name not in METRICS:
            known = ", ".join((*METRICS, *NAMES))
            raise typer.BadParameter(f"--plot knows {known}, not {name!r}.", ctx=ctx)
    return found


def _read(
    call: Call, agent: Agent, desired: Desired, run_id: str | None, count: int | None = None
) -> tuple[list[Row], LogEnd]:
    """The last rows of a run, or all. Raises NothingRuns: there is no such run."""
    from dflashctl.agent.protocol import LogEnd, Logs
    from dflashctl.view.points import read_rows

    request = Logs(
        job=desired.playbook.name, run_id=run_id, lines=count, follow=False, what="metrics"
    )
    parts: list[str] = []
    with call.screen.waiting(f"reading from {desired.target.name}"):
        for piece in agent.logs(request):
            if isinstance(piece, LogEnd):
                return read_rows("".join(parts)), piece
            parts.append(piece.text)
    raise AssertionError("a series that has no end")


def _prometheus(call: Call, desired: Desired) -> int:
    from dflashctl.agent.prometheus import exposition
    from dflashctl.plan.look import look_for

    look = look_for(desired)
    with call.at(desired.target, look) as agent:
        seen = call.observe(agent, desired, look)
    labels = {"target": desired.target.name}
    call.screen.write(exposition(desired.playbook.name, seen, labels))
    return 0
