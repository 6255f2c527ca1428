"""What the optimiser is asked for, and whether what it once found still holds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dflashctl.errors import MissingSetting
from dflashctl.playbook.library import BOUNDARIES

if TYPE_CHECKING:
    from pathlib import Path

    from dflashctl.agent.seen import Observed
    from dflashctl.plan.model import Desired
    from dflashctl.playbook.boundaries import BucketsFile
    from dflashctl.playbook.model import BatchingSpec, DatasetSpec, Playbook, RunSpec

VARIABLE = "DFLASH_BUCKETS"
_RULES = ("count", "align", "max_length")
_SETTINGS = (
    "token_budget", "max_batch_size", "window", "order", "ranks", "accumulation", "seed",
)  # fmt: skip


def task_for(
    dataset: DatasetSpec, batching: BatchingSpec, path: Path, gpus: int | None
) -> dict[str, Any]:
    """What the optimiser's process reads (dflashctl.buckets.job), without its extras.

    ``gpus``: how many the target has; ``path``: the playbook's, for messages.

    Raises:
        MissingSetting: the limits of a batch are said nowhere.
    """
    settings = {name: getattr(batching, name) for name in _SETTINGS}
    settings["ranks"] = batching.ranks or gpus or 1
    for name in ("token_budget", "max_batch_size"):
        if settings[name] is None:
            raise MissingSetting(verb="optimize-buckets", setting=f"batching.{name}", path=path)
    return {
        "path": dataset.path,
        "column": dataset.column,
        "format": dataset.format,
        **{name: getattr(batching, name) for name in _RULES},
        "settings": settings,
    }


def with_boundaries(run: RunSpec, seen: Observed) -> RunSpec:
    """The run with the variable that names its boundaries, where they will lie."""
    for file in seen.files:
        if not file.dest.startswith("/") and file.dest.endswith(f"/{BOUNDARIES}"):
            return replace(run, env={**run.env, VARIABLE: file.real_dest})
    return run


def new_buckets(desired: Desired, seen: Observed) -> bool:
    """Whether the last run was started with other boundaries than the next one will be."""
    if seen.run is None:
        return False
    was = seen.run.buckets.sha256 if seen.run.buckets else None
    made = desired.boundaries
    return was != (made.sha256[: len(was or "") or None] if made else None)


def dataset_of(made: BucketsFile | None, target: str) -> str | None:
    """The data to look at, if the boundaries were made for data of this target."""
    if made is None or target not in made.fingerprints:
        return None
    return str(made.dataset["path"])


def stale_notes(desired: Desired, seen: Observed) -> tuple[str, ...]:
    """Why the boundaries should be chosen anew, if so: other settings, or other data."""
    playbook, made, target = desired.playbook, desired.boundaries, desired.target.name
    if made is None:
        return ()
    notes = []
    again = "dflashctl optimize-buckets --apply makes them anew"
    name = made.path.name
    differing = _differing(playbook, made)
    if differing:
        notes.append(f"{name} is stale, made with other settings: {', '.join(differing)}; {again}")
    there = made.dataset
    wanted = playbook.dataset
    if wanted is not None and wanted.path != there["path"]:
        notes.append(f"{name} is stale, made for {there['path']}, not {wanted.path}; {again}")
    elif wanted is not None and wanted.column != there["column"]:
        was, now = (f"column {each}" if each else "no column named" for each in
                    (there["column"], wanted.column))  # fmt: skip
        notes.append(f"{name} is stale, made with {was}, now {now}; {again}")
    elif dataset_of(made, target) and made.fingerprints[target] != seen.dataset:
        how = "has changed since" if seen.dataset else "is not there any more"
        notes.append(f"{name} is stale, its dataset {there['path']} {how}; {again}")
    return tuple(notes)


def _differing(playbook: Playbook, made: BucketsFile) -> list[str]:
    spec = playbook.batching
    if spec is None:
        return []
    said = {name: getattr(spec, name) for name in (*_RULES, *_SETTINGS)}
    was = made.rules | made.settings
    # What the playbook leaves open was filled in.
    return [
        f"{name} {was.get(name)}, now {value}"
        for name, value in said.items()
        if value is not None and was.get(name) != value
    ]
