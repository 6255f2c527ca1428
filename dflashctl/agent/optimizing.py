"""What is asked of the bucket optimiser, and what it answers: a part of the protocol."""

from __future__ import annotations

from typing import Any

from dflashctl.agent.lean import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimize:
    """Find bucket boundaries for a dataset; it ends when nobody listens any more.

    Attributes:
        job: the playbook's name.
        python: the interpreter to do it with.
        dataset: where the data are, so that later changes to them are noticed.
        task: what the process reads (dflashctl.buckets.job).
    """

    job: str
    python: str
    dataset: str
    task: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Detach:
    """The same in a tmux session of its own, which needs nobody to listen."""

    job: str
    python: str
    dataset: str
    task: dict[str, Any]
    session: str
    tmux_socket: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """What a detached one found; waits while it is at work."""

    job: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """End a detached one that is at work, and forget it."""

    job: str
    tmux_socket: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Working:
    """How far the optimiser is with a stage of its work: a share from 0 to 1."""

    stage: str
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimized:
    """What the optimiser found for ``task``; ``dataset``: its fingerprint before it was read."""

    result: dict[str, Any]
    dataset: str | None
    task: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Detached:
    """The optimiser is at work in this tmux session."""

    session: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """The optimiser in this tmux session is no more."""

    session: str
