"""One task of the optimiser: read lengths, find boundaries, tell all that there is to tell.

A task is what JSON can say::

    path, column, format       where the lengths are (dataset.chunks)
    count, align, max_length   how many buckets, and the rules for their boundaries
    settings                   of the batches, without strategy and boundaries (settings.Settings)
    current                    boundaries to compare with, or null
    prove, compare             try every boundary; simulate every strategy
    needs_numpy                false: without numpy the lengths are counted, and that is all

The result holds ``report`` (report.report), or ``counted`` where there is no numpy.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
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
    from dflashctl.buckets import report

    return {"report": report.report(_histogram(task, tell), task, tell)}


def here(counted: str, task: dict[str, Any], tell: Tell) -> dict[str, Any]:
    """The report for lengths that were counted where there is no numpy.

    Raises:
        BucketsError: as ``run``.
    """
    import numpy as np

    from dflashctl.buckets import report
    from dflashctl.buckets.histogram import Histogram

    pairs = np.array(sorted(plain.unpacked(counted).items()), dtype=np.int64).reshape(-1, 2)
    histogram = Histogram(lengths=pairs[:, 0], counts=pairs[:, 1])
    if histogram.lengths.size == 1 < histogram.samples:
        raise constant(histogram.samples, histogram.longest)
    return report.report(histogram, task, tell)


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


def _histogram(task: dict[str, Any], tell: Tell) -> Histogram:
    from dflashctl.buckets import dataset
    from dflashctl.buckets import histogram as made

    chunks = dataset.chunks(
        task["path"], column=task["column"], format=task["format"], progress=_reading(tell)
    )
    return made.from_chunks(dataset.checked(chunks, task["settings"]["token_budget"]))


def _reading(tell: Tell) -> Progress:
    def progress(done: int, total: int) -> None:
        tell("reading", done / total if total else 1.0)

    return progress
