"""Which run is meant, and how two runs differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dflashctl.errors import UnknownRun
from dflashctl.plan.batching import VARIABLE
from dflashctl.plan.diff import FileDiff, diff_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dflashctl.agent.recorded import FileKept, RunRecord, RunsListed
    from dflashctl.agent.seen import RunSeen

LAST = ("last", "current")
PREVIOUS = "previous"


def choose(word: str, listed: RunsListed, target: str) -> RunSeen:
    """The run that ``word`` means: ``last``, ``previous``, an id, its beginning or its end.

    Raises:
        UnknownRun: it means none, or more than one.
    """
    runs = {run.id: run for run in listed.runs}
    ids = list(runs)
    if word in LAST and ids:
        return runs.get(listed.current or "") or runs[ids[-1]]
    if word == PREVIOUS:
        last = choose("last", listed, target).id if ids else None
        before = ids[: ids.index(last)] if last else []
        fitting = before[-1:]
    elif word in runs:
        fitting = [word]
    else:
        fitting = [known for known in ids if known.startswith(word)]
        fitting = fitting or [known for known in ids if known.endswith(f"-{word}")]
    if len(fitting) == 1 and word:
        return runs[fitting[0]]
    raise UnknownRun(target=target, word=word, fitting=tuple(fitting), known=tuple(ids))


def following(run_id: str, listed: RunsListed) -> RunSeen | None:
    """The run that came after this one, if any did."""
    ids = [run.id for run in listed.runs]
    after = listed.runs[ids.index(run_id) + 1 :] if run_id in ids else ()
    return after[0] if after else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Differing:
    """One thing that two runs have differently. None: the run has it not at all."""

    name: str
    first: str | None
    second: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDiff:
    """How a second run differs from a first one; ``settings`` without those of ``env``."""

    first: str
    second: str
    settings: tuple[Differing, ...]
    env: tuple[Differing, ...]
    boundaries: tuple[tuple[int, ...] | None, tuple[int, ...] | None] | None
    files: tuple[FileDiff, ...]


def differing_blobs(first: RunRecord, second: RunRecord) -> tuple[str, ...]:
    """The hashes of the contents that are needed to compare two runs."""
    one, other = _by_place(first), _by_place(second)
    changed = [
        (one[place].sha256, other[place].sha256)
        for place in one.keys() & other.keys()
        if one[place].sha256 != other[place].sha256
    ]
    return tuple(sorted({sha256 for pair in changed for sha256 in pair}))


def compare(first: RunRecord, second: RunRecord, texts: Mapping[str, str]) -> RunDiff:
    """How they differ. ``texts``: the contents that `differing_blobs` names, where known."""
    same = first.boundaries == second.boundaries
    return RunDiff(
        first=first.run.id,
        second=second.run.id,
        settings=_differing(_settings(first), _settings(second)),
        env=_differing(_env(first), _env(second)),
        boundaries=None if same else (first.boundaries, second.boundaries),
        files=_files(_by_place(first), _by_place(second), texts),
    )


def _by_place(record: RunRecord) -> dict[str, FileKept]:
    """Files by their places; what came along with boundaries by its name within."""
    return {_place(file.dest): file for file in record.files}


def _place(dest: str) -> str:
    """A relative place is in a folder that is named for what is in it."""
    return dest if dest.startswith("/") else dest.partition("/")[2]


def _settings(record: RunRecord) -> dict[str, str | None]:
    import shlex

    facts = record.facts
    return {
        "command": shlex.join(record.run.command),
        "cwd": record.cwd,
        "user": record.user,
        "env_base": record.env_base,
        "resumed_from": record.resumed_from,
        "commit": record.source.commit if record.source else None,
        "driver": facts.driver if facts else None,
        "gpus": ", ".join(facts.gpus) if facts else None,
        "python": facts.python if facts else None,
        "torch": facts.torch if facts else None,
        "version": record.version,
    }


def _env(record: RunRecord) -> dict[str, str | None]:
    """Variables with their values; of a secret one only that it was there.

    Where the boundaries lie is left out: it says no more than they do.
    """
    own = {name: value for name, value in record.run.env.items() if name != VARIABLE}
    return {**own, **dict.fromkeys(record.secrets, "(secret)")}


def _differing(
    one: Mapping[str, str | None], other: Mapping[str, str | None]
) -> tuple[Differing, ...]:
    return tuple(
        Differing(name=name, first=one.get(name), second=other.get(name))
        for name in {**one, **other}
        if one.get(name) != other.get(name)
    )


def _files(
    one: Mapping[str, FileKept], other: Mapping[str, FileKept], texts: Mapping[str, str]
) -> tuple[FileDiff, ...]:
    diffs = []
    for place in sorted(one.keys() | other.keys()):
        old, new = one.get(place), other.get(place)
        if old is None or new is None:
            diffs.append(FileDiff(path=place, change="gone" if old else "new"))
        elif old.sha256 != new.sha256:
            diffs.append(diff_text(place, texts.get(old.sha256), texts.get(new.sha256)))
        elif old.mode != new.mode:
            diffs.append(FileDiff(path=place, change="mode"))
    return tuple(diffs)
