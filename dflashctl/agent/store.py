"""Which entries of a folder are checkpoints, at which step, and whether they are complete."""

from __future__ import annotations

import json
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from dflashctl.agent.keeping import (
    JsonField,
    MarkerFile,
    PointerFile,
    QuietFor,
    StoreSpec,
)
from dflashctl.agent.records import StateFolder, read_json

# A step as trainers write it into names, the last one counting.
_STEP = re.compile(r"(?:step|iter|iteration|checkpoint|ckpt)s?[-_=]?(\d+)", re.IGNORECASE)
_LAST_NUMBER = re.compile(r"(\d+)(?=(?:-v\d+)?(?:\.[A-Za-z]\w*)*$)")
# What a name may go on with after its step: metrics, a version, an ending. Whatever else
# follows, as in checkpoint-100-merged, makes it something that only looks alike.
_AFTER = re.compile(r"(?:[-_]\w+=[-+]?\d[\d.]*(?:e[-+]?\d+)?)*(?:-v\d+)?(?:\.[A-Za-z]\w*)*")
_UNFINISHED = frozenset({"tmp", "temp", "partial", "incomplete", "bak", "lock"})
# Files that name the newest checkpoint: no checkpoints, and needed to go on from one.
POINTERS = ("latest", "latest_checkpointed_iteration.txt", "latest_universal")
JSON_LIMIT = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A checkpoint as its folder lists it; ``generation`` counts the runs before it."""

    name: str
    path: str
    directory: bool
    at: float
    step: int | None
    generation: int

    @property
    def order(self) -> tuple[int, int, float, str]:
        """The newest has the highest: by run, then by step.

        Of a run that began anew step 10 is newer than an old run's step 1000.
        """
        return (self.generation, -1 if self.step is None else self.step, self.at, self.name)


def entries(spec: StoreSpec, folder: str, starts: list[float]) -> Iterator[Entry]:
    """The checkpoints in ``folder``, in no order. ``starts``: when the job's runs began."""
    with suppress(OSError), os.scandir(folder) as found:
        for item in found:
            known, step = step_in(item.name, spec)
            if not known:
                continue
            with suppress(OSError):
                if item.is_symlink():
                    continue
                directory = item.is_dir(follow_symlinks=False)
                if not (directory or item.is_file(follow_symlinks=False)):
                    continue
                at = item.stat(follow_symlinks=False).st_mtime
                if isinstance(spec.step_from, JsonField):
                    step = _step_inside(item.path, spec.step_from)
                yield Entry(
                    name=item.name,
                    path=item.path,
                    directory=directory,
                    at=at,
                    step=step,
                    generation=sum(start <= at for start in starts),
                )


def step_in(name: str, spec: StoreSpec) -> tuple[bool, int | None]:
    """Whether a name is that of a checkpoint, and the step in it."""
    if name.startswith(".") or name in POINTERS or pointer(spec) == name:
        return False, None
    if spec.pattern is not None and not fnmatchcase(name, spec.pattern):
        return False, None
    if _UNFINISHED & set(re.split(r"[-._]", name.lower())):
        return False, None
    if isinstance(spec.step_from, str):
        found = _last(re.compile(spec.step_from), name)
        if found is None:
            return False, None
    else:
        found = _last(_STEP, name)
        if found is None:
            number = _LAST_NUMBER.search(name)
            return True, int(number[1]) if number else None
    if not _AFTER.fullmatch(name, found.end()):
        return False, None
    digits = found[1] or ""  # a group of the playbook's may match nothing, or no number
    return True, int(digits) if digits.isdecimal() else None


def _last(pattern: re.Pattern[str], name: str) -> re.Match[str] | None:
    return max(pattern.finditer(name), key=lambda found: found.start(), default=None)


def pointer(spec: StoreSpec) -> str | None:
    """The file that names the newest complete one, if the playbook knows of one."""
    return spec.complete_when.file if isinstance(spec.complete_when, PointerFile) else None


def _step_inside(path: str, place: JsonField) -> int | None:
    value = json_field(path, place)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def json_field(folder: str, place: JsonField) -> Any:
    """A field of a JSON file in a checkpoint; None where there is none."""
    path = os.path.join(folder, place.file)
    with suppress(OSError, ValueError, RecursionError):
        if os.stat(path).st_size > JSON_LIMIT:
            return None
        with open(path, "rb") as file:
            value = json.load(file)
        for name in place.field.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        return value
    return None


def incomplete(entry: Entry, spec: StoreSpec, now: float) -> str | None:
    """Why a checkpoint is not complete; None when it is."""
    rule = spec.complete_when
    match rule:
        case None:
            return None
        case MarkerFile():
            there = os.path.lexists(os.path.join(entry.path, rule.file))
            return None if entry.directory and there else f"no {rule.file} in it"
        case JsonField():
            value = json_field(entry.path, rule)
            return None if value is True else f"{rule.field} of its {rule.file} is not true"
        case QuietFor():
            quiet = now - newest_inside(entry.path)
            return None if quiet >= rule.seconds else f"modified {max(0.0, quiet):.0f} s ago"
        case PointerFile():
            return _pointed_at(entry, rule)


def _pointed_at(entry: Entry, rule: PointerFile) -> str | None:
    place = os.path.join(os.path.dirname(entry.path), rule.file)
    try:
        if os.path.islink(place):
            named, written = os.path.basename(os.readlink(place)), os.lstat(place).st_mtime
        else:
            written = os.stat(place).st_mtime
            with open(place, encoding="utf-8", errors="replace") as file:
                named = file.read(1024).strip()
    except OSError:
        return f"{rule.file} is not there"
    if named in (entry.name, str(entry.step)) or entry.at <= written:
        return None
    return f"{rule.file} does not name it yet"


def newest_inside(path: str) -> float:
    """When the newest file or folder of a checkpoint was modified."""
    return max((about.st_mtime for about in _stats(path)), default=0.0)


def walk(path: str) -> Iterator[os.DirEntry[str]]:
    """All below a folder, links not followed, one folder at a time; nothing of a file."""
    todo = [path]
    while todo:
        with suppress(OSError), os.scandir(todo.pop()) as found:
            for item in found:
                yield item
                if item.is_dir(follow_symlinks=False):
                    todo.append(item.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """Bytes in files, and bytes that these take on the disk."""

    size: int
    allocated: int


def measure(paths: Iterable[str], deadline: float | None) -> Amount | None:
    """What there is at these paths, links not followed; None when the deadline is over."""
    size = allocated = 0
    for path in paths:
        for count, about in enumerate(_stats(path)):
            if deadline is not None and count % 64 == 0 and time.monotonic() > deadline:
                return None
            allocated += about.st_blocks * 512
            if not stat.S_ISDIR(about.st_mode):
                size += about.st_size
    return Amount(size=size, allocated=allocated)


def _stats(path: str) -> Iterator[os.stat_result]:
    with suppress(OSError):
        about = os.lstat(path)
        yield about
        if stat.S_ISDIR(about.st_mode):
            for item in walk(path):
                with suppress(OSError):
                    yield item.stat(follow_symlinks=False)


def run_starts(state: StateFolder, job: str) -> list[float]:
    """When the job's runs were started, as their records say."""
    starts = []
    for path in state.job(job).glob("runs/*/run.json"):
        with suppress(KeyError, TypeError, ValueError):
            starts.append(float((read_json(path) or {})["started_at"]))
    return sorted(starts)
