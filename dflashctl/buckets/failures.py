"""What can be wrong with lengths or with what is asked of them."""

from __future__ import annotations

from collections.abc import Iterable


class BucketsError(Exception):
    """The root of this package's errors; its text is one sentence that a person can use."""


class BadLengths(BucketsError):
    """The lengths cannot be batched: none at all, zeros, negatives, not integers, above the budget.

    Attributes:
        problem: a word for it: ``empty``, ``zero``, ``negative``, ``not-integers``,
            ``above-budget``, ``above-boundaries``, ``above-longest``, ``constant``.
        count: how many samples are affected.
        first: the first of them: their numbers in the dataset, from 0, and their lengths.
    """

    def __init__(
        self, problem: str, text: str, *, count: int = 0, first: tuple[tuple[int, int], ...] = ()
    ) -> None:
        super().__init__(text)
        self.problem = problem
        self.count = count
        self.first = first


def offenders(problem: str, words: str, count: int, first: Iterable[tuple[int, int]]) -> BadLengths:
    """The error for samples whose length is wrong: how many, and the first of them."""
    named = tuple(first)
    samples = "1 sample is" if count == 1 else f"{count:,} samples are"
    some = ", ".join(f"sample {number:,}: {length:,}" for number, length in named)
    more = ", ..." if count > len(named) else ""
    return BadLengths(problem, f"{samples} {words} ({some}{more})", count=count, first=named)


def constant(samples: int, length: int) -> BadLengths:
    """The error for samples that are all of one length."""
    text = f"all {samples:,} samples have length {length:,}: buckets are of no use to them"
    return BadLengths("constant", text, count=samples)


class BadBoundaries(BucketsError):
    """Boundaries that do not ascend from 0 to above every length."""


class NoSuchPlan(BucketsError):
    """No boundaries satisfy what is asked for: too many buckets, or constraints too tight."""


class BadSettings(BucketsError):
    """What says how batches are made is not to be had, or is out of its range."""


class BadDataset(BucketsError):
    """What should hold the lengths is not there, or cannot be read.

    Attributes:
        problem: a word for it: ``not-found``, ``unknown-format``, ``no-column``,
            ``wrong-column``, ``truncated``, ``unreadable``, ``several-splits``.
        path: the file or folder.
    """

    def __init__(self, problem: str, text: str, *, path: str) -> None:
        super().__init__(text)
        self.problem = problem
        self.path = path


class MissingLibrary(BucketsError):
    """This kind of file needs a library that this Python does not have.

    Attributes:
        library: what to install.
        path: the file that needs it.
    """

    def __init__(self, library: str, *, path: str) -> None:
        super().__init__(f"{path} cannot be read without {library}, which this Python lacks")
        self.library = library
        self.path = path
