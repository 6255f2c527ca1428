"""How a verb went on one target, from the look at it to the last word on it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dflashctl.agent.protocol import Outcome, StepDone, StepPassed
    from dflashctl.agent.seen import Observed
    from dflashctl.errors import DflashError
    from dflashctl.plan.model import Plan, Sight

Rule = Literal["keep", "stop", "rollback"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """One target's way through a verb, as far as it came.

    Attributes:
        target: its name.
        sight: what was wanted and seen; None: it could not be looked at.
        plan: what is to be done; None: there is none.
        error: what ended it; None: nothing did.
        transaction: its id, once there is something to commit.
        outcome: what came of the transaction, where that is known.
        done, passed: the agent's word on each step, by its number.
        rule: what the playbook wants of it, since another target failed.
        after: the second transaction, which followed from that.
    """

    target: str
    sight: Sight | None = None
    plan: Plan | None = None
    error: DflashError | None = None
    transaction: str | None = None
    outcome: Outcome | None = None
    done: Mapping[int, StepDone] = field(default_factory=dict)
    passed: Mapping[int, StepPassed] = field(default_factory=dict)
    rule: Rule | None = None
    after: Course | None = None

    @property
    def seen(self) -> Observed | None:
        """The newest that is known of the target."""
        if self.after is not None and self.after.seen is not None:
            return self.after.seen
        if self.outcome is not None:
            return self.outcome.observed
        return self.sight.seen if self.sight is not None else None
