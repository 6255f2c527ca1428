"""What can be wrong with lengths or with what is asked of them."""

from __future__ import annotations


class BucketsError(Exception):
    """The root of this package's errors; its text is one sentence that a person can use."""


class BadLengths(BucketsError):
    """The lengths cannot be batched: none at all, zeros, negatives, not integers, above the budget.

    Attributes:
        problem: a word for it: ``empty``, ``zero``, ``negative``, ``not-integers``,
            ``above-budget``.
        count: how many samples are affected.
    """

    def __init__(self, problem: str, text: str, *, count: int = 0) -> None:
        super().__init__(text)
        self.problem = problem
        self.count = count


class BadBoundaries(BucketsError):
    """Boundaries that do not ascend from 0 to above every length."""


class NoSuchPlan(BucketsError):
    """No boundaries satisfy what is asked for: too many buckets, or constraints too tight."""
