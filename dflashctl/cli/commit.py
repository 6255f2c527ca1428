"""The second phase: every transaction handed over and watched, on all targets at once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dflashctl.agent.protocol import Commit, StepDone, StepPassed
from dflashctl.cli.ctrl_c import patient
from dflashctl.cli.recover import Recovery
from dflashctl.errors import DflashError, Interrupted, LinkLost, Unverified
from dflashctl.link.fanout import each
from dflashctl.view.progress import Board

if TYPE_CHECKING:
    from dflashctl.agent.protocol import Event, Outcome
    from dflashctl.cli.call import Call
    from dflashctl.cli.reach import Agents
    from dflashctl.plan.model import Plan
    from dflashctl.view.course import Course
    from dflashctl.view.progress import Row

GOES_ON = (
    "The transaction goes on over there to its end; Ctrl-C cannot stop it. "
    "Another Ctrl-C stops watching it."
)


def commit_all(call: Call, agents: Agents, courses: tuple[Course, ...]) -> tuple[Course, ...]:
    """Have all plans performed, and say how each ended. From here on they need us no more.

    All at once, however many they are: those of one run may wait for each other.
    """
    if not courses:
        return ()
    ended: dict[str, Course] = {}
    plans = {one.target: one.plan.steps for one in courses if one.plan is not None}
    with Board(call.screen, plans) as board, Recovery(call) as recovery:

        def perform(course: Course) -> None:
            row = board.of(course.target)
            ended[course.target] = _perform(call, agents, recovery, course, row)
            row.ended()

        try:
            with patient(lambda: board.remark(GOES_ON)):
                each(courses, perform, at_once=len(courses))
        except KeyboardInterrupt:
            pass  # what is still at work goes on unwatched
    return tuple(ended.get(one.target) or _unwatched(one) for one in courses)


def _unwatched(course: Course) -> Course:
    return replace(course, error=Interrupted(target=course.target, committed=True))


def _perform(call: Call, agents: Agents, recovery: Recovery, course: Course, row: Row) -> Course:
    """One target's transaction."""
    sight, plan = course.sight, course.plan
    assert sight is not None, "it was planned for"
    assert plan is not None, "it was planned for"
    assert course.transaction is not None, "it has something to do"
    target = sight.desired.target
    done: dict[int, StepDone] = {}
    passed: dict[int, StepPassed] = {}
    commit = Commit(
        transaction=course.transaction,
        look=sight.look,
        fingerprint=sight.seen.fingerprint,
        actions=tuple(step.action for step in plan.steps),
        who=call.who(),
        may_fail=tuple(n for n, step in enumerate(plan.steps) if step.may_fail),
    )

    def tell(event: Event) -> None:
        if isinstance(event, StepDone | StepPassed):
            if event.index in done or event.index in passed:
                return  # told a second time, after a new connection
            if isinstance(event, StepDone):
                done[event.index] = event
            else:
                passed[event.index] = event
        row.tell(event)

    try:
        outcome = agents.at(target).commit(commit, tell)
    except LinkLost as lost:
        agents.drop(course.target)
        row.remark("The connection broke off; connecting again.")
        try:
            outcome = recovery.outcome(target, commit, tell, lost)
        except DflashError as error:
            return replace(course, error=error, done=done, passed=passed)
    except DflashError as error:
        return replace(course, error=error)
    if outcome.failed_at is not None:
        row.failed(outcome.failed_at)
    failed = None if outcome.failure is None else _unverified(course.target, plan, outcome)
    return replace(course, outcome=outcome, done=done, passed=passed, error=failed)


def _unverified(target: str, plan: Plan, outcome: Outcome) -> Unverified:
    """The error that a failed outcome is, in the plan's words."""
    assert outcome.failure is not None
    steps = plan.steps
    at = outcome.failed_at if outcome.failed_at is not None else len(steps)
    log = outcome.failure.detail.get("log")
    return Unverified(
        target=target,
        step=steps[at].what if at < len(steps) else "the transaction",
        failure=outcome.failure.code,
        detail=outcome.failure.detail,
        state=outcome.observed.state,
        done=tuple(step.what for step in steps[:at]),
        run_id=outcome.run_id,
        log_tail=tuple(str(line) for line in log) if isinstance(log, list | tuple) else (),
    )
