"""runs: what was started on a target, and how two starts differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dflashctl.cli import memory
from dflashctl.cli.call import begin
from dflashctl.cli.options import DiffOption, JsonOption, PlaybookOption, TargetOption

if TYPE_CHECKING:
    from dflashctl.agent.recorded import ListRuns, RunRecord, RunsListed
    from dflashctl.cli.call import Call
    from dflashctl.link.client import Agent
    from dflashctl.plan.model import Desired

RunArgument = Annotated[
    str,
    typer.Argument(metavar="RUN", help="An id, its beginning or end, `last` or `previous`."),
]


def runs(
    ctx: typer.Context,
    target: TargetOption = None,
    playbook: PlaybookOption = None,
    as_json: JsonOption = False,
) -> int | None:
    """List the runs on record, show one, or compare two."""
    if ctx.invoked_subcommand is None:
        return show_list(ctx, target, playbook, as_json)
    if target or playbook or as_json:
        raise typer.BadParameter(f"options go after {ctx.invoked_subcommand}.", ctx=ctx)
    return None


def show_list(
    ctx: typer.Context,
    target: TargetOption = None,
    playbook: PlaybookOption = None,
    as_json: JsonOption = False,
) -> int:
    """List the runs on record, the oldest first."""
    from dflashctl.view import json, runs_json
    from dflashctl.view.runs import show_runs

    call = begin(ctx, "runs list", as_json)
    desired = call.desired(target, playbook)
    with call.at(desired.target, first_of(desired)) as agent:
        listed = on_record(call, agent, desired)
    if as_json:
        shape = {desired.target.name: runs_json.runs_object(listed)}
        call.screen.write(json.envelope("runs list", 0, shape))
    else:
        show_runs(call.screen, desired.target.name, listed)
    return 0


def show(
    ctx: typer.Context,
    run: RunArgument = "last",
    target: TargetOption = None,
    playbook: PlaybookOption = None,
    diff: DiffOption = False,
    as_json: JsonOption = False,
) -> int:
    """Show all that is on record of one run."""
    from dflashctl.view import json, runs_json
    from dflashctl.view.runs import show_run

    call = begin(ctx, "runs show", as_json)
    desired = call.desired(target, playbook)
    with call.at(desired.target, first_of(desired)) as agent:
        record = recall(agent, desired, run, on_record(call, agent, desired))
    if as_json:
        shape = {desired.target.name: runs_json.run_object(record)}
        call.screen.write(json.envelope("runs show", 0, shape))
    else:
        show_run(call.screen, record, whole=diff)
    return 0


def compare(
    ctx: typer.Context,
    first: RunArgument = "previous",
    second: RunArgument = "last",
    target: TargetOption = None,
    playbook: PlaybookOption = None,
    as_json: JsonOption = False,
) -> int:
    """Show how a second run differs from a first one: files, environment, boundaries."""
    from dflashctl.plan import runs as past
    from dflashctl.plan.diff import LONGEST_TEXT
    from dflashctl.view import json, runs_json
    from dflashctl.view.runs import show_run_diff

    call = begin(ctx, "runs diff", as_json)
    desired = call.desired(target, playbook)
    with call.at(desired.target, first_of(desired)) as agent:
        listed = on_record(call, agent, desired)
        one = recall(agent, desired, first, listed)
        other = recall(agent, desired, second, listed)
        texts = agent.read_blobs(past.differing_blobs(one, other), LONGEST_TEXT)
    found = past.compare(one, other, texts)
    if as_json:
        shape = {desired.target.name: runs_json.run_diff_object(found)}
        call.screen.write(json.envelope("runs diff", 0, shape))
    else:
        show_run_diff(call.screen, found)
    return 0


def first_of(desired: Desired) -> ListRuns:
    """What a verb about runs asks first."""
    from dflashctl.agent.recorded import ListRuns

    return ListRuns(job=desired.playbook.name)


def on_record(call: Call, agent: Agent, desired: Desired) -> RunsListed:
    """The runs that the target has on record, kept in mind for completion."""
    listed = agent.list_runs(desired.playbook.name)
    newest_first = [run.id for run in reversed(listed.runs)]
    memory.remember(call.environ, "runs", desired.target.name, newest_first)
    return listed


def recall(agent: Agent, desired: Desired, word: str, listed: RunsListed) -> RunRecord:
    """The record of the run that a word means. Raises UnknownRun."""
    from dflashctl.plan.runs import choose

    run = choose(word, listed, desired.target.name)
    return agent.recall(desired.playbook.name, run.id)
