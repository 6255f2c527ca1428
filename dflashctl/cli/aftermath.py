"""What follows where the second phase failed on some targets: the playbook's ``on_partial``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dflashctl.agent.keeping import ArchiveCheckpoints, ClearCheckpoints
from dflashctl.agent.seen import LIVE_STATES
from dflashctl.errors import Interrupted
from dflashctl.plan.rollback import Wanted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dflashctl.cli.call import Call
    from dflashctl.cli.verb import Verb
    from dflashctl.plan.model import Desired
    from dflashctl.playbook.model import OnPartial
    from dflashctl.view.course import Course

    Conduct = Callable[[Verb, tuple[Desired, ...]], tuple[Course, ...]]


def follow(
    call: Call,
    courses: tuple[Course, ...],
    conduct: Conduct,
) -> tuple[Course, ...]:
    """The courses, each with what was done after it because another one failed.

    ``conduct``: performs a verb on targets of this command.
    """
    failed = [one.target for one in courses if one.error is not None]
    began = [one for one in courses if one.outcome is not None]
    unwatched = any(isinstance(one.error, Interrupted) for one in courses)
    if len(courses) == 1 or not failed or unwatched:
        return courses
    rule = _rule(courses)
    if rule == "keep":
        return courses
    back = {one.target: one for one in began if rule == "rollback" and _has_a_way_back(one)}
    ending = {one.target: one for one in began if one.target not in back and _lives_anew(one)}
    if not (back or ending):
        return courses
    call.screen.say(
        f"{', '.join(failed)} failed: what was started is "
        f"{'stopped again' if rule == 'stop' else 'rolled back'} (on_partial: {rule})",
        style="yellow",
    )
    ended = (*_stop(ending, conduct), *_roll_back(call, back, conduct))
    after = {one.target: one for one in ended}
    return tuple(
        replace(one, rule=rule, after=after[one.target]) if one.target in after else one
        for one in courses
    )


def _rule(courses: tuple[Course, ...]) -> OnPartial:
    sights = [one.sight for one in courses if one.sight is not None]
    return sights[0].desired.playbook.when_partial if sights else "keep"


def _lives_anew(course: Course) -> bool:
    """Whether the run that was to be started is there and alive."""
    seen = course.outcome.observed if course.outcome is not None else None
    return (
        seen is not None
        and course.plan is not None
        and seen.run is not None
        and seen.run.id == course.plan.run_id
        and seen.state in LIVE_STATES
    )


def _has_a_way_back(course: Course) -> bool:
    """Whether a run of ours was alive before, and the verb put another in its place."""
    before = course.sight.seen if course.sight is not None else None
    now = course.outcome.observed if course.outcome is not None else None
    if before is None or before.run is None or course.plan is None or course.plan.run_id is None:
        return False
    if before.state not in LIVE_STATES or before.state == "ADOPTED":
        return False
    same = now is not None and now.run is not None and now.run.id == before.run.id
    return not (same and now is not None and now.state in LIVE_STATES)


def _wanted(courses: Mapping[str, Course]) -> tuple[Desired, ...]:
    return tuple(one.sight.desired for one in courses.values() if one.sight is not None)


def _stop(courses: Mapping[str, Course], conduct: Conduct) -> tuple[Course, ...]:
    from dflashctl.cli.stop import stopping

    return conduct(stopping(), _wanted(courses)) if courses else ()


def _roll_back(call: Call, courses: Mapping[str, Course], conduct: Conduct) -> tuple[Course, ...]:
    """Back to the very run that was alive before, with the checkpoints that it had."""
    from dflashctl.cli.rollback import GoingBack, going_back

    ways = {
        name: GoingBack(run=one.sight.seen.run.id, back=_moved_away(one))
        for name, one in courses.items()
        if one.sight is not None and one.sight.seen.run is not None
    }
    if not ways:
        return ()
    # By now each goes its own way.
    verb = replace(going_back(call, ways), all_or_none=False)
    return conduct(verb, call.with_new_ids(_wanted(courses)))


def _moved_away(course: Course) -> Wanted | None:
    """The checkpoints that the verb put out of the way, if it came to that."""
    steps = course.plan.steps if course.plan is not None else ()
    for number, step in enumerate(steps):
        if number not in course.done or not course.done[number].facts.get("count"):
            continue
        if isinstance(step.action, ArchiveCheckpoints) and step.action.then_remove:
            return Wanted(archive=step.action.name)
        if isinstance(step.action, ClearCheckpoints):
            return Wanted(cleared_by=course.transaction)
    return None
