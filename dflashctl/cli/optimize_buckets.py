"""optimize-buckets: the bucket boundaries with the least padding, where the data are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dflashctl.cli.call import begin
from dflashctl.cli.optimizer import Where
from dflashctl.cli.options import JsonOption, PlaybookOption, TargetOption

if TYPE_CHECKING:
    from dflashctl.cli.call import Call
    from dflashctl.cli.optimizer import Found
    from dflashctl.inventory.model import Target
    from dflashctl.plan.throughput import Calibration
    from dflashctl.playbook.model import Playbook

PLAYBOOKS = ("optimize-buckets.yml", "deploy.yml")


def optimize_buckets(  # noqa: PLR0913, PLR0917 - one parameter an option
    ctx: typer.Context,
    target: TargetOption = None,
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

    Settings come from the playbook's dataset and batching; options come before them.
    """
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
    wanted = _wanted(call, target, playbook, where)
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
    return _tell(call, wanted, _find(call, wanted, task), measured, apply=apply)


def make_boundaries(call: Call, names: list[str] | None, playbook: str) -> Path:
    """Find the boundaries that the playbook asks for, write them, and say where to.

    Raises:
        MissingSetting: the playbook names no dataset, or a limit is missing.
        BadDataset, MissingModule, MissingTool: what stands against it.
    """
    wanted = _wanted(call, names, playbook, "auto")
    task = _task(call, wanted, {"path": None, "column": None}, {}) | {
        "current": _current(None, wanted.boundaries),
        "prove": False,
        "compare": False,
        "needs_numpy": False,
    }
    return _write(wanted, _find(call, wanted, task), ())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """The job, and where its data are; ``target`` is None where that is this machine."""

    playbook: Playbook | None
    folder: Path
    target: Target | None
    here: bool

    @property
    def boundaries(self) -> Path:
        """The file of boundaries, whether it is there or not."""
        from dflashctl.playbook.boundaries import NAME

        if self.playbook is None:
            return self.folder / NAME
        return self.playbook.buckets or self.playbook.path.with_name(NAME)

    @property
    def job(self) -> str:
        return self.playbook.name if self.playbook else "buckets"

    @property
    def session(self) -> str:
        return f"{self.playbook.session if self.playbook else 'dflash'}-buckets"

    @property
    def python(self) -> str:
        said = self.playbook.dataset.python if self.playbook and self.playbook.dataset else None
        return said or "python3"


def _refuse_contradictions(verbs: list[str], *, apply: bool, where: Where) -> None:
    if len(verbs) > 1:
        raise typer.BadParameter(f"{' and '.join(verbs)} contradict each other: one of them")
    if apply and verbs and verbs != ["--fetch"]:
        raise typer.BadParameter("--apply goes with --fetch, when there is a result")
    if where == "here" and verbs:
        raise typer.BadParameter(f"{verbs[0]} is for a target, not for --where here")


def _wanted(call: Call, names: list[str] | None, playbook: str | None, where: Where) -> _Wanted:
    """The playbook, if there is one, and the target, if one is needed."""
    from dflashctl.errors import NoFile, TooManyTargets
    from dflashctl.inventory.model import Local

    job: Playbook | None = None
    try:
        job = call.outline(playbook, PLAYBOOKS)
    except NoFile:
        if playbook or call.environ.get("DFLASHCTL_PLAYBOOK"):
            raise
    if where == "here":
        return _Wanted(playbook=job, folder=call.cwd, target=None, here=True)
    targets = call.targets(names, everything=False)
    if len(targets) > 1:
        named = tuple(target.name for target in targets)
        raise TooManyTargets(verb=call.command, named=named)
    # On this very machine our own interpreter will do, unless another one is named.
    own = job is None or job.dataset is None or job.dataset.python is None
    here = where == "auto" and own and isinstance(targets[0].route, Local)
    return _Wanted(playbook=job, folder=call.cwd, target=targets[0], here=here)


def _task(
    call: Call, wanted: _Wanted, data: dict[str, str | None], overrides: dict[str, Any]
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
    return task_for(spec, batching, path, wanted.target.gpus if wanted.target else None)


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


def _last_measured(call: Call, wanted: _Wanted) -> tuple[Calibration, ...]:
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


def _detach(call: Call, wanted: _Wanted, task: dict[str, Any]) -> int:
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


def _cancel(call: Call, wanted: _Wanted) -> int:
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


def _fetch(call: Call, wanted: _Wanted) -> Found:
    from dflashctl.agent.optimizing import Fetch
    from dflashctl.cli.optimizer import on_target
    from dflashctl.view.working import Working

    assert wanted.target is not None, "--where here was refused"
    with Working(call.screen) as progress:
        return on_target(call, wanted.target, Fetch(job=wanted.job), progress)


def _find(call: Call, wanted: _Wanted, task: dict[str, Any]) -> Found:
    from dflashctl.agent.optimizing import Optimize
    from dflashctl.cli.optimizer import in_this_process, on_target
    from dflashctl.view.working import Working

    target = wanted.target
    with Working(call.screen) as progress:
        if target is None or wanted.here:
            return in_this_process(task, target.name if target else "", progress)
        request = Optimize(job=wanted.job, python=wanted.python, dataset=task["path"], task=task)
        return on_target(call, target, request, progress)


def _tell(
    call: Call, wanted: _Wanted, found: Found, measured: tuple[Calibration, ...], *, apply: bool
) -> int:
    from dflashctl.view.buckets import report_object, show_report

    name = wanted.target.name if wanted.target else None
    if found.report["strategies"] is not None and not measured:
        measured = _last_measured(call, wanted)
    dataset = _dataset(wanted, found)
    if call.json:
        from dflashctl.view import json

        written = _write(wanted, found, measured) if apply else None
        value = report_object(found.report, dataset, measured, written)
        call.screen.write(json.envelope(call.command, 0, {name or "here": value}))
    else:
        show_report(call.screen, found.report, found.task["path"], measured)
        if apply:  # should it fail, what took so long is there to read
            written = _write(wanted, found, measured)
            call.screen.say(
                f"written to {written}; deploy brings it with `buckets: {written.name}`"
            )
    return 0


def _dataset(wanted: _Wanted, found: Found) -> dict[str, Any]:
    """Which data the boundaries are made for."""
    return {
        "target": wanted.target.name if wanted.target else None,
        "path": found.task["path"],
        "column": found.task["column"],
        "fingerprint": found.fingerprint,
    }


def _write(wanted: _Wanted, found: Found, measured: tuple[Calibration, ...]) -> Path:
    from dflashctl.plan.throughput import promised
    from dflashctl.playbook.boundaries import write_boundaries

    promise = promised(found.report["expected_efficiency"], measured)
    write_boundaries(wanted.boundaries, found.report, _dataset(wanted, found), promise)
    return wanted.boundaries
