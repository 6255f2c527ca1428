"""metrics: a run's series. compare: two runs' series side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dflashctl.cli.call import begin
from dflashctl.cli.options import (
    AllOption,
    JsonOption,
    PlaybookOption,
    SinceOption,
    TargetsOption,
)

if TYPE_CHECKING:
    from dflashctl.agent.protocol import LogEnd
    from dflashctl.cli.call import Call
    from dflashctl.cli.reach import Agents
    from dflashctl.plan.model import Desired
    from dflashctl.view.points import Row

LAST = 20


def metrics(  # noqa: PLR0913, PLR0917 - one parameter an option
    ctx: typer.Context,
    target: TargetsOption = None,
    everything: AllOption = False,
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
    from dflashctl.cli.reading import read_each
    from dflashctl.view import points

    forms = [as_csv, as_json, prometheus, plot is not None]
    if sum(forms) > 1:
        message = "--csv, --json, --plot and --prometheus do not go together."
        raise typer.BadParameter(message, ctx=ctx)
    names = _names(ctx, plot) if plot is not None else []
    call = begin(ctx, "metrics", as_json)
    wanted = call.desired(call.targets(target, everything=everything), playbook)
    if (as_csv or prometheus) and len(wanted) > 1:
        raise typer.BadParameter("--csv and --prometheus are for one target at a time.", ctx=ctx)
    if prometheus:
        return _prometheus(call, wanted[0])
    count = lines if lines is not None or any(forms) or since is not None else LAST

    def read(agents: Agents, desired: Desired) -> tuple[list[Row], LogEnd]:
        rows, end = _read(agents, desired, run, count if since is None else None)
        rows = points.since(rows, since)
        return rows[-count:] if count else rows, end

    def show(_: Desired, found: tuple[list[Row], LogEnd]) -> None:
        rows, end = found
        if as_csv:
            call.screen.write(points.as_csv(rows))
        elif not rows:
            call.screen.say(f"run {end.run_id} has printed no metrics")
        elif plot is not None:
            call.screen.write(points.curves(rows, names, call.screen.out.width))
        else:
            call.screen.show(points.table(rows))

    return read_each(call, wanted, read, _shape, show)


def _shape(_: Desired, found: tuple[list[Row], LogEnd]) -> dict[str, Any]:
    from dflashctl.view import points

    rows, end = found
    value = {"run_id": end.run_id, "state": end.state, "points": points.as_objects(rows)}
    return {**value, "error": None}


def compare(  # noqa: PLR0913, PLR0917 - one parameter an option
    ctx: typer.Context,
    first: Annotated[str, typer.Argument(metavar="RUN", help="A run's id.")],
    second: Annotated[str, typer.Argument(metavar="RUN", help="Another run's.")],
    target: TargetsOption = None,
    everything: AllOption = False,
    playbook: PlaybookOption = None,
    as_json: JsonOption = False,
) -> int:
    """Show two runs' loss and speed at the same steps.

    A run is named by its id, the beginning or end of it, `last` or `previous`.
    """
    from dflashctl.cli.reading import read_each
    from dflashctl.cli.runs import all_runs
    from dflashctl.plan.runs import choose
    from dflashctl.view import points

    call = begin(ctx, "compare", as_json)

    def read(agents: Agents, desired: Desired) -> _Compared:
        _, listed = all_runs(call, agents, desired)
        ids = [choose(word, listed, desired.target.name).id for word in (first, second)]
        (a, _), (b, _) = (_read(agents, desired, run_id) for run_id in ids)
        return _Compared(ids=ids, a=a, b=b, entries=points.compared(a, b))

    def show(_: Desired, found: _Compared) -> None:
        if not found.entries:
            call.screen.say("the two runs have no steps in common")
            return
        call.screen.write(f"A  {found.ids[0]}\nB  {found.ids[1]}\n\n")
        call.screen.show(points.comparison(found.entries))
        for letter, rows in (("A", found.a), ("B", found.b)):
            curves = points.curves(rows, ["loss"], call.screen.out.width)
            call.screen.write(f"\n{letter} {curves}")

    return read_each(
        call,
        call.desired(call.targets(target, everything=everything), playbook),
        read,
        lambda _, found: {
            "a": found.ids[0],
            "b": found.ids[1],
            "steps": found.entries,
            "error": None,
        },
        show,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compared:
    """Two runs' rows, and what they have at the same steps."""

    ids: list[str]
    a: list[Row]
    b: list[Row]
    entries: list[dict[str, Any]]


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
    agents: Agents, desired: Desired, run_id: str | None, count: int | None = None
) -> tuple[list[Row], LogEnd]:
    """The last rows of a run, or all. Raises NothingRuns: there is no such run."""
    from dflashctl.agent.protocol import LogEnd, Logs
    from dflashctl.view.points import read_rows

    request = Logs(
        job=desired.playbook.name, run_id=run_id, lines=count, follow=False, what="metrics"
    )
    parts: list[str] = []
    for piece in agents.at(desired.target, request).logs(request):
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
