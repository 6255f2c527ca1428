"""stop: end what runs, and leave everything else as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dflashctl.plan import words
from dflashctl.plan.model import Plan
from dflashctl.plan.steps import lives, restart_waits, stop_steps, what_was
from dflashctl.plan.together import left_out

if TYPE_CHECKING:
    from dflashctl.agent.seen import Observed
    from dflashctl.plan.model import Desired


def plan_stop(desired: Desired, seen: Observed) -> Plan:
    """Stop the running job, or a restart that waits; with neither, a note and no steps."""
    if not lives(seen) and not restart_waits(seen):
        return Plan(notes=(f"nothing runs; {what_was(seen)}",))
    return Plan(steps=stop_steps(desired, seen, "asked for"), notes=_others(desired, seen))


def _others(desired: Desired, seen: Observed) -> tuple[str, ...]:
    others = left_out(desired, seen)
    if not others:
        return ()
    names = words.listed(others)
    return (f"the run is at work on {names}, too: it is not stopped there, and cannot go on",)
