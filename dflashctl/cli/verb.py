"""What a verb that changes something is: how to look, how to plan, and who waits for whom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dflashctl.errors import DflashError, UserMistake

if TYPE_CHECKING:
    from collections.abc import Callable

    from dflashctl.agent.protocol import Look
    from dflashctl.cli.reach import Agents
    from dflashctl.plan.model import Desired, Plan, Sight


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """A verb on however many targets.

    Attributes:
        look: at one target, through its agent; of all targets at once, each in a thread.
        plan: for all that could be looked at, each with its answer in its place. It reaches
            no target.
        all_or_none: what stands in one target's way keeps every other one untouched; else
            the others are gone on with.
        meet: between looking and planning, what the targets have to find out about each
            other; the sights in their places, changed or with an error instead.
    """

    look: Callable[[Agents, Desired], Sight]
    plan: Callable[[tuple[Sight, ...]], tuple[Plan | DflashError, ...]]
    all_or_none: bool
    meet: Callable[[Agents, tuple[Sight, ...]], tuple[Sight | DflashError, ...]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How a verb is gone about.

    Attributes:
        dry_run: show the plans and stop.
        diff: changes of files are shown whole, however long they are.
        yes: what cannot be undone is done unasked.
    """

    dry_run: bool = False
    diff: bool = False
    yes: bool = False


def at(question: Callable[[Desired], Look]) -> Callable[[Agents, Desired], Sight]:
    """To look at a target once."""
    from dflashctl.plan.model import Sight

    def look(agents: Agents, desired: Desired) -> Sight:
        asked = question(desired)
        seen = agents.at(desired.target, asked).observe(asked)
        return Sight(desired=desired, look=asked, seen=seen)

    return look


def one_by_one(
    plan: Callable[[Sight], Plan],
) -> Callable[[tuple[Sight, ...]], tuple[Plan | DflashError, ...]]:
    """To plan for each target by itself; what is wrong with one of them is its own error."""

    def plan_all(sights: tuple[Sight, ...]) -> tuple[Plan | DflashError, ...]:
        return tuple(map(planned, sights))

    def planned(sight: Sight) -> Plan | DflashError:
        try:
            return plan(sight)
        except DflashError as error:
            if of_no_target(error):
                raise
            return error

    return plan_all


def of_no_target(error: DflashError) -> bool:
    """Whether it is about what was typed or written here, and so the same for every target."""
    return isinstance(error, UserMistake) and not getattr(error, "target", "")
