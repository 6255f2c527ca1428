"""The shape of an error in words."""

from __future__ import annotations

from dataclasses import dataclass

UNTOUCHED = "Nothing was touched."


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """An error as people read it.

    ``message`` says what happened and where; ``details`` are lines under it; ``next``
    says what state things are in, where that matters, and what to do.
    """

    message: str
    next: str
    details: tuple[str, ...] = ()
