"""From a playbook file to frozen values, with every mistake of it reported at once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from dflashctl.agent.keeping import JsonField, MarkerFile, PointerFile, QuietFor
from dflashctl.document.judge import judge
from dflashctl.document.paths import local_path, places
from dflashctl.document.read import Document, Loc, mapping, read_document
from dflashctl.errors import NoFile
from dflashctl.playbook import channels, distributed
from dflashctl.playbook.model import (
    BatchingSpec,
    CheckpointSpec,
    DatasetSpec,
    KeepSpec,
    MetricsSpec,
    Playbook,
    PreflightSpec,
    PushedFile,
    ReadySpec,
    RunSpec,
    StepSpec,
    StopSpec,
    TrashSpec,
    WhenSpec,
)
from dflashctl.playbook.sources import expand

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from dflashctl.errors import Fault
    from dflashctl.playbook.schema import Checkpoints, CompleteWhen, PlaybookFile, Run
    from dflashctl.playbook.steps import Step

KIND = "playbook"


def find_playbook(
    option: str | None,
    environ: Mapping[str, str],
    cwd: Path,
    names: tuple[str, ...] = ("deploy.yml",),
) -> Path:
    """The playbook file: the option's, ``DFLASHCTL_PLAYBOOK``'s, or in a usual folder.

    A folder stands for the first of these names that is in it.

    Raises:
        NoFile: there is none; an option or a variable that leads nowhere is not passed over.
    """
    found = places(KIND, "playbooks", option, environ, cwd)
    files = [
        file
        for place in found
        for file in ((place,) if place.suffix or place.is_file() else map(place.joinpath, names))
    ]
    for file in files:
        if file.exists():
            return file
    raise NoFile(kind=KIND, looked_in=tuple(str(file) for file in files))


def load_playbook(path: Path) -> Playbook:
    """Read a playbook file. Its sources must be there; secrets are not read.

    Raises:
        BadFile: with every mistake in it.
    """
    return _load(path, _files)


def load_outline(path: Path) -> Playbook:
    """Read a playbook file without looking at its sources: for verbs that push nothing.

    ``files`` is empty. Raises:
        BadFile: with every mistake in it.
    """
    return _load(path, lambda _: ([], []))


def _load(
    path: Path, find: Callable[[Document], tuple[list[tuple[PushedFile, ...]], list[Fault]]]
) -> Playbook:
    path = path.absolute()
    document = read_document(path, KIND)
    from dflashctl.playbook import schema

    checked, errors = schema.check(document.values)
    complaints = judge(document, errors, schema.PlaybookFile)
    files, file_faults = find(document)
    document.raise_for((*complaints, *file_faults, *_run_faults(document), *_step_faults(document)))
    assert checked is not None, "the schema refused a file without a complaint"
    return _build(path, checked, files)


def _files(document: Document) -> tuple[list[tuple[PushedFile, ...]], list[Fault]]:
    """The files of each entry, also where the schema finds mistakes in other fields."""
    files: list[tuple[PushedFile, ...]] = []
    faults: list[Fault] = []
    taken: dict[str, Loc | None] = {}
    entries = document.values.get("files")
    for index, entry in enumerate(entries if isinstance(entries, list) else ()):
        source, dest = mapping(entry).get("source"), mapping(entry).get("dest")
        if not isinstance(source, str) or not source:
            continue
        loc: Loc = ("files", index)
        problems: list[str] = []
        found = expand(source, str(dest), document.path.parent, problems.append)
        faults += [document.fault((*loc, "source"), problem) for problem in problems]
        files.append(found)
        if isinstance(dest, str) and dest.startswith("/"):  # else the schema complains
            faults += _clashes(document, (*loc, "dest"), found, taken)
    return files, faults


def _clashes(
    document: Document, loc: Loc, files: tuple[PushedFile, ...], taken: dict[str, Loc | None]
) -> Iterator[Fault]:
    """Two files for one place, or a file where another needs a folder.

    ``taken`` has the place of each earlier file, and None for the folders above it.
    """
    for file in files:
        folders = [str(folder) for folder in PurePosixPath(file.dest).parents]
        for path in (file.dest, *folders):
            first = taken.get(path)
            if first is not None:
                line = document.lines[first]
                message = f"{path} is already the place of the file in line {line}"
                yield document.fault(loc, message)
        if file.dest in taken and taken[file.dest] is None:
            yield document.fault(loc, f"{file.dest} must be a folder for an earlier file")
        taken.setdefault(file.dest, loc)
        for folder in folders:
            taken.setdefault(folder, None)


def _run_faults(document: Document) -> Iterator[Fault]:
    run = mapping(document.values.get("run"))
    inherited = run.get("env_from")
    for index, name in enumerate(inherited if isinstance(inherited, list) else ()):
        if isinstance(name, str) and name in mapping(run.get("env")):
            yield document.fault(("run", "env_from", index), f"{name} is in `env` as well")
    if "buckets" in document.values and "DFLASH_BUCKETS" in mapping(run.get("env")):
        yield document.fault(("run", "env", "DFLASH_BUCKETS"), "is set by `buckets`")
    yield from channels.faults(document)
    yield from distributed.faults(document)
    metrics = mapping(document.values.get("metrics"))
    if metrics.get("jsonl") and ("from" in metrics or "pattern" in metrics):
        yield document.fault(("metrics", "jsonl"), "metrics come from it or from the output")
    named: tuple[tuple[Loc, object], ...] = (
        (("run", "env_file"), run.get("env_file")),
        (("buckets",), document.values.get("buckets")),
    )
    for loc, path in named:
        if isinstance(path, str) and path:
            try:
                local_path(path, document.path.parent)
            except ValueError as error:
                yield document.fault(loc, str(error))


def _step_faults(document: Document) -> Iterator[Fault]:
    """Steps that only their order makes wrong."""
    found = document.values.get("steps")
    steps = found if isinstance(found, list) else []
    verbs = [mapping(step).get("do") for step in steps]
    for index, verb in enumerate(verbs):
        if verb == "start" and "start" in verbs[:index]:
            yield document.fault(("steps", index, "do"), "a playbook starts one run only")
        if verb == "optimize_buckets" and (index or "when" in mapping(steps[index])):
            message = "comes first and without `when`: a push is to bring what it makes"
            yield document.fault(("steps", index, "do"), message)
        if verb == "wait_ready" and "start" not in verbs[:index]:
            message = "needs a step with `do: start` before it"
            yield document.fault(("steps", index, "do"), message)


def _build(path: Path, file: PlaybookFile, files: list[tuple[PushedFile, ...]]) -> Playbook:
    pushed = [
        one if said.mode is None else replace(one, mode=said.mode)
        for said, found in zip(file.files, files, strict=False)
        for one in found
    ]
    return Playbook(
        path=path,
        name=file.name,
        session=file.session or file.name,
        files=tuple(pushed),
        run=_run(file.run, path.parent) if file.run else None,
        stop=StopSpec(signal=file.stop.signal, grace_s=file.stop.grace),
        ready=ReadySpec(
            alive_for_s=file.ready.alive_for,
            metric=file.ready.metric,
            within_s=file.ready.within,
        ),
        preflight=PreflightSpec(
            gpus=file.preflight.gpus,
            free_space=file.preflight.free_space,
            python=file.preflight.python,
            imports=tuple(file.preflight.imports),
        ),
        checkpoints=_checkpoints(file.checkpoints) if file.checkpoints else None,
        watch=channels.watch_of(file.watch) if file.watch else None,
        metrics=MetricsSpec(pattern=file.metrics.pattern, jsonl=file.metrics.jsonl),
        buckets=None if file.buckets is None else local_path(file.buckets, path.parent),
        dataset=DatasetSpec(**file.dataset.model_dump()) if file.dataset else None,
        batching=BatchingSpec(**file.batching.model_dump()) if file.batching else None,
        distributed=distributed.spec_of(file.distributed) if file.distributed else None,
        steps=tuple(_step(step) for step in file.steps),
        on_partial=file.on_partial,
    )


def _step(said: Step) -> StepSpec:
    fields = said.model_dump(exclude={"when", "on_failure"})
    # Lists of words become tuples; what a verb has not keeps its default.
    fields = {name: tuple(v) if isinstance(v, list) else v for name, v in fields.items()}
    if "timeout" in fields:
        fields["timeout_s"] = fields.pop("timeout")
    if "alive_for" in fields:
        fields["alive_for_s"] = fields.pop("alive_for")
    when, count = said.when, said.when.checkpoints
    return StepSpec(
        **fields,
        goes_on=said.on_failure == "continue",
        when=WhenSpec(
            state=tuple(when.state),
            gpus_free=when.gpus_free,
            at_least=count.at_least if count else None,
            at_most=count.at_most if count else None,
            files_changed=when.files_changed,
            missing=tuple(when.missing),
        ),
    )


def _checkpoints(said: Checkpoints) -> CheckpointSpec:
    place, trash, keep = said.step_from, said.trash, said.keep
    return CheckpointSpec(
        path=said.path,
        pattern=said.pattern,
        step_from=place
        if place is None or isinstance(place, str)
        else JsonField(file=place.json_file, field=place.field),
        complete_when=None if said.complete_when is None else _complete(said.complete_when),
        archive_to=said.archive_to,
        trash=None if trash is None else TrashSpec(keep=trash.keep, for_s=trash.for_),
        keep=None if keep is None else KeepSpec(last=keep.last, every=keep.every),
    )


def _complete(said: CompleteWhen) -> MarkerFile | QuietFor | JsonField | PointerFile:
    if said.file is not None:
        return MarkerFile(file=said.file)
    if said.quiet_for is not None:
        return QuietFor(seconds=said.quiet_for)
    if said.pointer is not None:
        return PointerFile(file=said.pointer)
    assert said.json_file is not None
    assert said.field is not None
    return JsonField(file=said.json_file, field=said.field)


def _run(said: Run, folder: Path) -> RunSpec:
    return RunSpec(
        command=tuple(said.command),
        resume=None if said.resume is None else tuple(said.resume),
        resume_new_buckets=(
            None if said.resume_new_buckets is None else tuple(said.resume_new_buckets)
        ),
        cwd=said.cwd,
        user=said.user,
        env_base=said.env_base,
        env=dict(said.env),
        env_file=None if said.env_file is None else local_path(said.env_file, folder),
        env_from=tuple(said.env_from),
        exit_codes={str(code): ending for code, ending in said.exit_codes.items()},
    )
