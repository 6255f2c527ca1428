"""optimize-buckets: the bucket boundaries with the least padding, where the data are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dflashctl.cli.call import begin
from dflashctl.cli.optimizer import Where
from dflashctl.cli.options import AllOption, JsonOption, PlaybookOption, TargetsOption
from dflashctl.cli.parts import gravest, tell_failures, together
from dflashctl.cli.wanted import PLAYBOOKS, wanted_from

if TYPE_CHECKING:
    from dflashctl.cli.call import Call
    from dflashctl.cli.optimizer import Found
    from dflashctl.cli.wanted import Wanted
    from dflashctl.errors import DflashError
    from dflashctl.plan.throughput import Calibration


def optimize_buckets(  # noqa: PLR0913, PLR0917 - one parameter an option
    ctx: typer.Context,
    target: TargetsOption = None,
    everything: AllOption = False,
    playbook: PlaybookOption = None,
    dataset: Annotated[
        str | None, typer.Option("--dataset", metavar="PATH", help="File, folder or pattern.")
    ] = None,
    column: Annotated[
        str | None, typer.Option("--column", metavar="NAME", help="Where the lengths are in it.")
    ] = None,
    count: Annotated[
        int | None, typer.Option("--buckets", min=1, max=16, metavar="K", help="How many.")
    ] = None,
    token_budget: Annotated[
        int | None, typer.Option(min=1, metavar="B", help="Most tokens in a batch, padded.")
    ] = None,
    max_batch_size: Annotated[
        int | None, typer.Option(min=1, metavar="M", help="Most samples in a batch.")
    ] = None,
    window: Annotated[
        int | None, typer.Option(min=0, metavar="W", help="Sort so many samples at a time.")
    ] = None,
    order: Annotated[
        Literal["random", "stratified"] | None, typer.Option(help="Of an epoch's batches.")
    ] = None,
    align: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Boundaries are multiples of it.")
    ] = None,
    current: Annotated[
        str | None,
        typer.Option(metavar="0,770,...", help="Boundaries in use now, if not buckets.json's."),
    ] = None,
    prove: Annotated[
        bool, typer.Option("--prove", help="Try every boundary; takes minutes.")
    ] = False,
    compare: Annotated[
        bool, typer.Option("--compare", help="Simulate all strategies beside each other.")
    ] = False,
    calibrate: Annotated[
        list[str] | None,
        typer.Option(metavar="KTOK@EFF", help="A measured run, as 25.1@0.868; repeatable."),
    ] = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Write buckets.json beside the playbook.")
    ] = False,
    where: Annotated[Where, typer.Option("--where", help="Where to read and optimise.")] = "auto",
    detach: Annotated[
        bool, typer.Option("--detach", help="Leave it at work on the target, in tmux.")
    ] = False,
    fetch: Annotated[
        bool, typer.Option("--fetch", help="Take the result of a detached one.")
    ] = False,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="End a detached one that is at work.")
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Find the bucket boundaries with the least padding, where the data are.

    Settings come from the playbook's dataset and batching; options come before them. Of
    several targets each counts the lengths that it has, and the counts add up.
    """
    from dflashctl.errors import TooManyTargets

    call = begin(ctx, "optimize-buckets", as_json)
    overrides = {
        "count": count, "token_budget": token_budget, "max_batch_size": max_batch_size,
        "window": window, "order": order, "align": align,
    }  # fmt: skip
    data = {"path": dataset, "column": column}
    verbs = [verb for verb, said in (
        ("--detach", detach), ("--fetch", fetch), ("--cancel", cancel)
    ) if said]  # fmt: skip
    _refuse_contradictions(verbs, apply=apply, where=where)
    if fetch or cancel:
        asks = prove or compare or current is not None
        if asks or any(value is not None for value in (data | overrides).values()):
            raise typer.BadParameter(f"{verbs[0]} takes what --detach was asked; ask it anew there")
    wanted = wanted_from(call, target, playbook, where, everything=everything)
    if wanted.parts and (verbs or where == "target"):
        raise TooManyTargets(
            verb=f"{call.command} {verbs[0] if verbs else '--where target'}",
            named=tuple(one.name for one in wanted.parts),
        )
    measured = tuple(map(_calibration, calibrate or ()))
    if cancel:
        return _cancel(call, wanted)
    if fetch:
        return _tell(call, wanted, _fetch(call, wanted), measured, apply=apply)
    task = _task(call, wanted, data, overrides) | {
        "current": _current(current, wanted.boundaries),
        "prove": prove,
        "compare": compare,
        "needs_numpy": where == "target" or detach,
    }
    if detach:
        return _detach(call, wanted, task)
    found = _find(call, wanted, task)
    if isinstance(found, dict):
        return tell_failures(call, found)
    return _tell(call, wanted, found, measured, apply=apply)


def make_boundaries(
    call: Call, names: list[str] | None, playbook: str, *, everything: bool = False
) -> Path:
    """Find the boundaries that the playbook asks for, write them, and say where to.

    Raises:
        MissingSetting: the playbook names no dataset, or a limit is missing.
        BadDataset, MissingModule, MissingTool: what stands against it.
    """
    wanted = wanted_from(call, names, playbook, "auto", everything=everything)
    task = _task(call, wanted, {"path": None, "column": None}, {}) | {
        "current": _current(None, wanted.boundaries),
        "prove": False,
        "compare": False,
        "needs_numpy": False,
    }
    found = _find(call, wanted, task)
    if isinstance(found, dict):
        raise gravest(found.values())
    return _write(wanted, found, ())


def _refuse_contradictions(verbs: list[str], *, apply: bool, where: Where) -> None:
    if len(verbs) > 1:
        raise typer.BadParameter(f"{' and '.join(verbs)} contradict each other: one of them")
    if apply and verbs and verbs != ["--fetch"]:
        raise typer.BadParameter("--apply goes with --fetch, when there is a result")
    if where == "here" and verbs:
        raise typer.BadParameter(f"{verbs[0]} is for a target, not for --where here")


def _task(
    call: Call, wanted: Wanted, data: dict[str, str | None], overrides: dict[str, Any]
) -> dict[str, Any]:
    """What the optimiser reads: the playbook's settings, with the options before them."""
    from dflashctl.errors import MissingSetting
    from dflashctl.plan.batching import task_for
    from dflashctl.playbook.model import BatchingSpec, DatasetSpec

    job = wanted.playbook
    needed = (data["path"], overrides.get("token_budget"), overrides.get("max_batch_size"))
    if job is None and None in needed:
        raise typer.BadParameter(
            "without a playbook it takes --dataset, --token-budget and --max-batch-size"
        )
    path = job.path if job else Path(PLAYBOOKS[0])
    spec = job.dataset if job else None
    if data["path"] is not None:
        place = data["path"]
        if wanted.here:
            place = str(call.cwd / Path(place).expanduser())
        elif not place.startswith("/"):
            raise typer.BadParameter(f"--dataset is an absolute path on a target, not {place}")
        # Another dataset has columns and a form of its own.
        spec = DatasetSpec(path=place)
    if spec is None:
        raise MissingSetting(verb=call.command, setting="dataset.path", path=path)
    if data["column"] is not None:
        spec = replace(spec, column=data["column"])
    batching = (job.batching if job else None) or BatchingSpec()
    batching = replace(batching, **{k: v for k, v in overrides.items() if v is not None})
    return task_for(spec, batching, path, wanted.gpus)


def _current(option: str | None, file: Path) -> list[int] | None:
    """The boundaries in use now: those typed, else those of the file that is there."""
    from dflashctl.playbook.boundaries import read_boundaries

    if option is None:
        return list(read_boundaries(file).boundaries) if file.exists() else None
    try:
        edges = [int(part) for part in option.strip("[]").split(",")]
    except ValueError:
        edges = []
    if len(edges) < 2 or edges[0] != 0 or edges != sorted(set(edges)):
        raise typer.BadParameter(f"--current is 0 and ascending numbers, not {option}")
    return edges


def _calibration(text: str) -> Calibration:
    from dflashctl.plan.throughput import calibration

    try:
        return calibration(text)
    except ValueError as error:
        raise typer.BadParameter(f"--calibrate {error}") from error


def _last_measured(call: Call, wanted: Wanted) -> tuple[Calibration, ...]:
    """The speed of the newest run that has buckets, if it told one."""
    from dflashctl.plan.look import look_for
    from dflashctl.plan.model import Desired
    from dflashctl.plan.throughput import of_the_run

    if wanted.target is None or wanted.playbook is None:
        return ()
    desired = Desired(playbook=wanted.playbook, target=wanted.target)
    look = look_for(desired, gpus=False)
    with call.at(wanted.target, look) as agent:
        return of_the_run(call.observe(agent, desired, look))


def _detach(call: Call, wanted: Wanted, task: dict[str, Any]) -> int:
    from dflashctl.agent.optimizing import Detach
    from dflashctl.view import json
    from dflashctl.view.buckets import show_detached

    target = wanted.target
    assert target is not None, "--where here was refused"
    request = Detach(
        job=wanted.job,
        python=wanted.python,
        dataset=task["path"],
        task=task,
        session=wanted.session,
        tmux_socket=target.tmux_socket,
    )
    with call.at(target) as agent:
        session = agent.detach(request).session
    if call.json:
        value = {"session": session, "error": None}
        call.screen.write(json.envelope(call.command, 0, {target.name: value}))
    else:
        show_detached(call.screen, call.same_again(target.name), session)
    return 0


def _cancel(call: Call, wanted: Wanted) -> int:
    from dflashctl.agent.optimizing import Cancel
    from dflashctl.view import json
    from dflashctl.view.buckets import show_cancelled

    target = wanted.target
    assert target is not None, "--where here was refused"
    with call.at(target) as agent:
        session = agent.cancel(Cancel(job=wanted.job, tmux_socket=target.tmux_socket)).session
    if call.json:
        value = {"session": session, "error": None}
        call.screen.write(json.envelope(call.command, 0, {target.name: value}))
    else:
        show_cancelled(call.screen, session)
    return 0


def _fetch(call: Call, wanted: Wanted) -> Found:
    from dflashctl.agent.optimizing import Fetch
    from dflashctl.cli.optimizer import on_target
    from dflashctl.view.working import Working

    assert wanted.target is not None, "--where here was refused"
    with Working(call.screen) as progress:
        return on_target(call, wanted.target, Fetch(job=wanted.job), progress)


def _find(call: Call, wanted: Wanted, task: dict[str, Any]) -> Found | dict[str, DflashError]:
    """What is found; of several targets the errors by their names, if one has any."""
    from dflashctl.agent.optimizing import Optimize
    from dflashctl.cli.optimizer import in_this_process, on_target
    from dflashctl.view.working import Working

    target = wanted.target
    request = Optimize(job=wanted.job, python=wanted.python, dataset=task["path"], task=task)
    with Working(call.screen) as progress:
        if wanted.parts:
            return together(call, wanted.parts, request, progress)
        if target is None or wanted.here:
            return in_this_process(task, target.name if target else "", progress)
        return on_target(call, target, request, progress)


def _tell(
    call: Call, wanted: Wanted, found: Found, measured: tuple[Calibration, ...], *, apply: bool
) -> int:
    from dflashctl.cli.parts import part_object
    from dflashctl.view.buckets import report_object, show_parts, show_report

    name = wanted.target.name if wanted.target else None
    if found.report["strategies"] is not None and not measured:
        measured = _last_measured(call, wanted)
    dataset = _dataset(wanted, found)
    if call.json:
        from dflashctl.view import json

        written = _write(wanted, found, measured) if apply else None
        value = report_object(found.report, dataset, measured, written)
        if found.parts:
            parts = {part.target: part_object(part) for part in found.parts}
            call.screen.write(json.envelope(call.command, 0, parts, together=value))
        else:
            call.screen.write(json.envelope(call.command, 0, {name or "here": value}))
    else:
        show_parts(call.screen, {part.target: part.about for part in found.parts})
        show_report(call.screen, found.report, found.task["path"], measured)
        if apply:  # should it fail, what took so long is there to read
            written = _write(wanted, found, measured)
            call.screen.say(
                f"written to {written}; deploy brings it with `buckets: {written.name}`"
            )
    return 0


def _dataset(wanted: Wanted, found: Found) -> dict[str, Any]:
    """Which data the boundaries are made for."""
    return {
        "target": wanted.target.name if wanted.target else None,
        "path": found.task["path"],
        "column": found.task["column"],
        "fingerprint": found.fingerprint,
        "parts": {part.target: part.fingerprint for part in found.parts} or None,
    }


def _write(wanted: Wanted, found: Found, measured: tuple[Calibration, ...]) -> Path:
    from dflashctl.plan.throughput import promised
    from dflashctl.playbook.boundaries import write_boundaries

    promise = promised(found.report["expected_efficiency"], measured)
    write_boundaries(wanted.boundaries, found.report, _dataset(wanted, found), promise)
    return wanted.boundaries
