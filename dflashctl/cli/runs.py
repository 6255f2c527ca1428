"""runs: what was started on a target, and how two starts differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dflashctl.cli.call import begin
from dflashctl.cli.options import (
    AllOption,
    DiffOption,
    JsonOption,
    PlaybookOption,
    TargetsOption,
)

if TYPE_CHECKING:
    from dflashctl.agent.recorded import ListRuns, RunRecord, RunsListed
    from dflashctl.cli.call import Call
    from dflashctl.cli.reach import Agents
    from dflashctl.link.client import Agent
    from dflashctl.plan.model import Desired

RunArgument = Annotated[
    str,
    typer.Argument(metavar="RUN", help="An id, its beginning or end, `last` or `previous`."),
]


def runs(
    ctx: typer.Context,
    target: TargetsOption = None,
    everything: AllOption = False,
    playbook: PlaybookOption = None,
    as_json: JsonOption = False,
) -> int | None:
    """List the runs on record, show one, or compare two."""
    if ctx.invoked_subcommand is None:
        return show_list(ctx, target, everything, playbook, as_json)
    if target or everything or playbook or as_json:
        raise typer.BadParameter(f"options go after {ctx.invoked_subcommand}.", ctx=ctx)
    return None


def show_list(
    ctx: typer.Context,
    target: TargetsOption = None,
    everything: AllOption = False,
    playbook: PlaybookOption = None,
    as_json: JsonOption = False,
) -> int:
    """List the runs on record, the oldest first."""
    from dflashctl.cli.reading import read_each
    from dflashctl.view import runs_json
    from dflashctl.view.runs import show_runs

    call = begin(ctx, "runs list", as_json)
    return read_each(
        call,
        call.desired(call.targets(target, everything=everything), playbook),
        lambda agents, desired: all_runs(call, agents, desired)[1],
        lambda _, found: runs_json.runs_object(found),
        lambda desired, listed: show_runs(call.screen, desired.target.name, listed),
    )


def show(  # noqa: PLR0913, PLR0917 - one parameter an option
    ctx: typer.Context,
    run: RunArgument = "last",
    target: TargetsOption = None,
    everything: AllOption = False,
    playbook: PlaybookOption = None,
    diff: DiffOption = False,
    as_json: JsonOption = False,
) -> int:
    """Show all that is on record of one run."""
    from dflashctl.cli.reading import read_each
    from dflashctl.view import runs_json
    from dflashctl.view.runs import show_run

    call = begin(ctx, "runs show", as_json)

    def read(agents: Agents, desired: Desired) -> RunRecord:
        agent, listed = all_runs(call, agents, desired)
        return recall(agent, desired, run, listed)

    return read_each(
        call,
        call.desired(call.targets(target, everything=everything), playbook),
        read,
        lambda _, found: runs_json.run_object(found),
        lambda _, record: show_run(call.screen, record, whole=diff),
    )


def compare(  # noqa: PLR0913, PLR0917 - one parameter an option
    ctx: typer.Context,
    first: RunArgument = "previous",
    second: RunArgument = "last",
    target: TargetsOption = None,
    everything: AllOption = False,
    playbook: PlaybookOption = None,
    as_json: JsonOption = False,
) -> int:
    """Show how a second run differs from a first one: files, environment, boundaries."""
    from dflashctl.cli.reading import read_each
    from dflashctl.plan import runs as past
    from dflashctl.plan.diff import LONGEST_TEXT
    from dflashctl.view import runs_json
    from dflashctl.view.runs import show_run_diff

    call = begin(ctx, "runs diff", as_json)

    def read(agents: Agents, desired: Desired) -> past.RunDiff:
        agent, listed = all_runs(call, agents, desired)
        one = recall(agent, desired, first, listed)
        other = recall(agent, desired, second, listed)
        texts = agent.read_blobs(past.differing_blobs(one, other), LONGEST_TEXT)
        return past.compare(one, other, texts)

    return read_each(
        call,
        call.desired(call.targets(target, everything=everything), playbook),
        read,
        lambda _, found: runs_json.run_diff_object(found),
        lambda _, found: show_run_diff(call.screen, found),
    )


def first_of(desired: Desired) -> ListRuns:
    """What a verb about runs asks first."""
    from dflashctl.agent.recorded import ListRuns

    return ListRuns(job=desired.playbook.name)


def all_runs(call: Call, agents: Agents, desired: Desired) -> tuple[Agent, RunsListed]:
    """An agent on the target, and the runs that it has on record."""
    agent = agents.at(desired.target, first_of(desired))
    return agent, on_record(call, agent, desired)


def on_record(call: Call, agent: Agent, desired: Desired) -> RunsListed:
    """The runs that the target has on record, kept in mind for completion."""
    listed = agent.list_runs(desired.playbook.name)
    newest_first = [run.id for run in reversed(listed.runs)]
    call.remember("runs", desired.target.name, newest_first)
    return listed


def recall(agent: Agent, desired: Desired, word: str, listed: RunsListed) -> RunRecord:
    """The record of the run that a word means. Raises UnknownRun."""
    from dflashctl.plan.runs import choose

    run = choose(word, listed, desired.target.name)
    return agent.recall(desired.playbook.name, run.id)
