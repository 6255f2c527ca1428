"""One task of the optimiser: read lengths, find boundaries, tell all that there is to tell.

A task is what JSON can say::

    path, column, format       where the lengths are (dataset.chunks)
    count, align, max_length   how many buckets, and the rules for their boundaries
    settings                   of the batches, without strategy and boundaries (settings.Settings)
    current                    boundaries to compare with, or null
    prove, compare             try every boundary; simulate every strategy
    needs_numpy                false: without numpy the lengths are counted, and that is all
    only_counts                true: so it is with numpy, too, for a part of a dataset; may lack

The result holds ``report`` (report.report), or ``counted``: how many samples have which length.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from dflashctl.buckets import plain
from dflashctl.buckets.failures import (
    BadDataset,
    BadLengths,
    BucketsError,
    MissingLibrary,
    constant,
)

if TYPE_CHECKING:
    from dflashctl.buckets.dataset import Integers
    from dflashctl.buckets.files import Progress
    from dflashctl.buckets.histogram import Histogram

# How far a stage of the work is: its name, and a share from 0 to 1.
Tell = Callable[[str, float], None]

EXPECTED = (BucketsError, OSError)
"""What ``run`` raises for what is wrong with the task and not with the program."""


def run(task: dict[str, Any], tell: Tell) -> dict[str, Any]:
    """Do it.

    Raises:
        BucketsError: the dataset, its lengths or the settings are not fit for it.
        OSError: the dataset cannot be read.
    """
    try:
        import numpy as np
    except ImportError:
        if task["needs_numpy"]:
            raise MissingLibrary("numpy", path="optimising") from None
        tell("reading", 0.0)
        return {"counted": plain.packed(plain.count(task, _reading(tell)))}
    del np
    tell("reading", 0.0)
    if task.get("only_counts"):
        return {"counted": _counted(task, tell)}
    from dflashctl.buckets import report

    return {"report": report.report(_histogram(task, tell), task, tell)}


def here(counted: Iterable[str], task: dict[str, Any], tell: Tell) -> dict[str, Any]:
    """The report for all lengths that were counted elsewhere, in one place or in many.

    Raises:
        BucketsError: as ``run``.
    """
    import numpy as np

    from dflashctl.buckets import report
    from dflashctl.buckets.histogram import Histogram

    every = plain.added(map(plain.unpacked, counted))
    pairs = np.array(sorted(every.items()), dtype=np.int64).reshape(-1, 2)
    histogram = Histogram(lengths=pairs[:, 0], counts=pairs[:, 1])
    if histogram.lengths.size == 1 < histogram.samples:
        raise constant(histogram.samples, histogram.longest)
    return report.report(histogram, task, tell)


def part(counted: str, task: dict[str, Any]) -> dict[str, Any]:
    """What there is to tell of one part of a dataset: its samples, tokens and lengths.

    Raises:
        BadLengths: some of them no batch can have.
    """
    counts = plain.unpacked(counted)
    budget = task["settings"]["token_budget"]
    for problem, words, wrong in (
        ("negative", "below zero", [one for one in counts if one < 0]),
        ("zero", "of length zero", [one for one in counts if one == 0]),
        ("above-longest", f"above {budget:,} tokens", [one for one in counts if one > budget]),
    ):
        if wrong:
            count = sum(counts[one] for one in wrong)
            samples = "1 sample is" if count == 1 else f"{count:,} samples are"
            raise BadLengths(problem, f"{samples} {words}", count=count)
    return {
        "samples": sum(counts.values()),
        "tokens": sum(length * count for length, count in counts.items()),
        "shortest": min(counts, default=None),
        "longest": max(counts, default=None),
    }


def complaint(error: BaseException, task: dict[str, Any]) -> dict[str, Any]:
    """An error of ``run`` as a code with its data."""
    match error:
        case MissingLibrary():
            detail = {"python": sys.executable, "module": error.library, "needed": error.path}
            return {"code": "missing_module", "detail": detail}
        case BadDataset():
            detail = {"path": error.path, "problem": error.problem, "text": str(error)}
        case BadLengths():
            detail = {"path": task["path"], "problem": error.problem, "text": str(error)}
        case OSError():
            text = error.strerror or str(error)
            path = str(error.filename or task["path"])
            detail = {"path": path, "problem": "unreadable", "text": text}
        case _:
            detail = {"path": task["path"], "problem": "settings", "text": str(error)}
    return {"code": "bad_dataset", "detail": detail}


def _counted(task: dict[str, Any], tell: Tell) -> str:
    from collections import Counter

    from dflashctl.buckets import dataset
    from dflashctl.buckets import histogram as made

    lengths, counts = made.counted(
        dataset.sound(_chunks(task, tell), task["settings"]["token_budget"])
    )
    return plain.packed(Counter(dict(zip(lengths.tolist(), counts.tolist(), strict=True))))


def _histogram(task: dict[str, Any], tell: Tell) -> Histogram:
    from dflashctl.buckets import dataset
    from dflashctl.buckets import histogram as made

    budget = task["settings"]["token_budget"]
    return made.from_chunks(dataset.checked(_chunks(task, tell), budget))


def _chunks(task: dict[str, Any], tell: Tell) -> Iterator[Integers]:
    from dflashctl.buckets import dataset

    return dataset.chunks(
        task["path"], column=task["column"], format=task["format"], progress=_reading(tell)
    )


def _reading(tell: Tell) -> Progress:
    def progress(done: int, total: int) -> None:
        tell("reading", done / total if total else 1.0)

    return progress
