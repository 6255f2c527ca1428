"""A plan: what will happen on a target, each step with its reason; or why it may not."""

from __future__ import annotations

from dataclasses import dataclass, field

from dflashctl.agent.protocol import Action
from dflashctl.errors import Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One action. ``what`` names it for a person, ``why`` gives the reason."""

    action: Action
    what: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Steps in order, remarks, and refusals. With a refusal nothing may be done.

    ``run_id`` is set when the plan starts a run.
    """

    steps: tuple[Step, ...] = ()
    notes: tuple[str, ...] = ()
    refusals: tuple[Refusal, ...] = field(default=())
    run_id: str | None = None
