"""From what is wanted to what came of it, on one target or many, in two phases.

First all targets are looked at, planned for and sent to; nothing that runs is touched by
that, and for most verbs what stands in one target's way ends it for all. Then every plan is
performed.
"""

from __future__ import annotations

import secrets
import sys
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from dflashctl.agent.ids import transaction_id
from dflashctl.agent.protocol import Receive
from dflashctl.cli.aftermath import follow
from dflashctl.cli.commit import commit_all
from dflashctl.cli.reach import Agents
from dflashctl.cli.verb import Way, of_no_target
from dflashctl.errors import (
    DflashError,
    HeldBack,
    Interrupted,
    LinkLost,
    LockHeld,
    MissingTool,
    NeedsYes,
    Refused,
)
from dflashctl.link.archive import Archives
from dflashctl.link.fanout import each
from dflashctl.plan.preflight import lacks
from dflashctl.view import figures
from dflashctl.view.course import Course
from dflashctl.view.plan import show_plans
from dflashctl.view.progress import Upload
from dflashctl.view.together import CHANGES, answer, exit_code, show_ends, show_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dflashctl.cli.call import Call
    from dflashctl.cli.verb import Verb
    from dflashctl.plan.model import Desired, Sight

Courses = tuple[Course, ...]


def perform(call: Call, verb: Verb, wanted: tuple[Desired, ...], way: Way) -> int:
    """Do a verb on these targets, or show what it would do; tell it, and give the exit code.

    Raises:
        UserMistake: what was typed or written here is wrong, whatever the target.
        NeedsYes: something cannot be undone, and nobody can be asked.
        Interrupted: by Ctrl-C or a no before anything was touched.
    """
    with call.reach() as reach, Agents(reach) as agents:
        courses = conduct(call, agents, verb, wanted, way)
        if not way.dry_run:
            courses = follow(
                call, courses, lambda other, some: conduct(call, agents, other, some, Way(yes=True))
            )
    return _tell(call, courses, dry_run=way.dry_run)


def conduct(
    call: Call, agents: Agents, verb: Verb, wanted: tuple[Desired, ...], way: Way
) -> Courses:
    """The two phases, and how each target came out of them. Raises as ``perform``."""
    courses = _propose(call, agents, verb, wanted)
    courses = tuple(_judged(one, dry_run=way.dry_run) for one in courses)
    _show(call, courses, way)
    if way.dry_run:
        return courses
    courses = _all_or_none(call, verb, courses)
    _ask(call, courses, way)
    courses = _all_or_none(call, verb, _send(call, agents, courses))
    ended = commit_all(call, agents, tuple(filter(_at_it, courses)))
    for one in ended:
        if one.outcome is not None:
            call.keep_in_mind(one.target, one.outcome.observed)
    return _merged(courses, ended)


def _tell(call: Call, courses: Courses, *, dry_run: bool) -> int:
    screen, code = call.screen, exit_code(courses, dry_run=dry_run)
    show_errors(screen, courses, debug=call.debug)
    if call.json:
        screen.write(answer(call.command, courses, code, screen.again()))
    elif not dry_run:
        show_ends(screen, courses)
    elif code == CHANGES:
        screen.say("A dry run: nothing was touched.", style="dim")
    return code


def _at_it(course: Course) -> bool:
    """Whether there is something to do, and nothing against it."""
    return course.error is None and course.plan is not None and bool(course.plan.steps)


def _merged(courses: Courses, newer: Courses) -> Courses:
    by_name = {one.target: one for one in newer}
    return tuple(by_name.get(one.target, one) for one in courses)


def _propose(call: Call, agents: Agents, verb: Verb, wanted: tuple[Desired, ...]) -> Courses:
    """Look at all targets at once, then plan for all of them."""
    with call.waiting_for("looking at", wanted):
        looked = each(wanted, lambda one: verb.look(agents, one))
    for found in looked:
        if isinstance(found, DflashError):
            if of_no_target(found):
                raise found
        else:
            call.keep_in_mind(found.target, found.seen)
    names = [one.target.name for one in wanted]
    courses = _with(tuple(Course(target=name) for name in names), looked)
    if verb.meet is not None:
        with call.waiting_for("checking the ways between", wanted):
            met = verb.meet(agents, tuple(_sights(courses)))
        courses = _merged(courses, _with(tuple(filter(_seen, courses)), met))
    planned = tuple(filter(_seen, courses))
    plans = zip(planned, verb.plan(tuple(_sights(courses))), strict=True)
    return _merged(
        courses,
        tuple(
            replace(one, error=plan) if isinstance(plan, DflashError) else replace(one, plan=plan)
            for one, plan in plans
        ),
    )


def _seen(course: Course) -> bool:
    return course.sight is not None and course.error is None


def _sights(courses: Courses) -> list[Sight]:
    return [one.sight for one in courses if one.sight is not None and one.error is None]


def _with(courses: Courses, found: Sequence[Sight | DflashError]) -> Courses:
    return tuple(
        replace(one, error=what) if isinstance(what, DflashError) else replace(one, sight=what)
        for one, what in zip(courses, found, strict=True)
    )


def _judged(course: Course, *, dry_run: bool) -> Course:
    """With what speaks against the plan, and with an id where there is something to do."""
    sight, plan = course.sight, course.plan
    if course.error is not None or sight is None or plan is None:
        return course
    lock, tool = sight.seen.lock, lacks(sight.seen)
    if lock is not None and not dry_run:
        since = figures.iso(lock.since) or figures.UNKNOWN
        return replace(course, error=LockHeld(target=course.target, holder=lock.who, since=since))
    if tool is not None and plan.run_id is not None:
        return replace(course, error=MissingTool(target=course.target, tool=tool))
    if plan.refusals:
        return replace(course, error=Refused(target=course.target, refusals=plan.refusals))
    if not plan.steps or dry_run:
        return course
    job = sight.desired.playbook.name
    return replace(course, transaction=transaction_id(job, datetime.now(UTC), secrets.choice))


def _show(call: Call, courses: Courses, way: Way) -> None:
    """All plans that were made. With nothing to do, saying so is the answer."""
    screen = call.screen
    plans = {
        one.target: one.plan
        for one in courses
        if one.plan is not None and (one.error is None or isinstance(one.error, Refused))
    }
    idle = not any(one.error is not None or _at_it(one) for one in courses)
    answer = (way.dry_run or idle) and not call.json
    if not (way.dry_run and call.json):
        show_plans(screen, screen.out if answer else screen.err, plans, whole=way.diff)


def _all_or_none(call: Call, verb: Verb, courses: Courses) -> Courses:
    """Hold all back where something is against one, and the verb is for all or none."""
    against = tuple(one.target for one in courses if one.error is not None)
    if not (against and verb.all_or_none):
        return courses
    ready = tuple(one.target for one in courses if one.error is None)

    def hold(course: Course) -> Course:
        if course.error is not None:
            return course
        error = HeldBack(target=course.target, verb=call.command, against=against, ready=ready)
        return replace(course, error=error, transaction=None)

    return tuple(map(hold, courses))


def _ask(call: Call, courses: Courses, way: Way) -> None:
    """What cannot be undone needs a word."""
    asking = [one for one in courses if _at_it(one) and one.plan is not None and one.plan.asks]
    if not asking or way.yes:
        return
    several = len(courses) > 1
    asks = tuple(
        f"{one.target}: {text}" if several else text
        for one in asking
        if one.plan is not None
        for text in one.plan.asks
    )
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise NeedsYes(what=call.command, details=asks)
    for text in asks:
        call.screen.say(text, style="yellow")
    if not call.screen.ask("Go on? (yes/no) "):
        raise Interrupted(target=asking[0].target)


def _send(call: Call, agents: Agents, courses: Courses) -> Courses:
    """Bring the files that the targets do not keep yet; nothing is in place after this."""
    receiving = tuple(
        one
        for one in courses
        if _at_it(one)
        and one.plan is not None
        and any(isinstance(step.action, Receive) for step in one.plan.steps)
    )
    if not receiving:
        return courses
    with Archives() as archives, Upload(call.screen) as progress:

        def send(course: Course) -> Course:
            try:
                _bring(agents, archives, course, progress.part(course.target))
            except LinkLost:
                agents.drop(course.target)
                raise
            return course

        sent = each(receiving, send)
    for found in sent:
        if isinstance(found, DflashError) and of_no_target(found):
            raise found
    ended = (
        replace(one, error=found) if isinstance(found, DflashError) else found
        for one, found in zip(receiving, sent, strict=True)
    )
    return _merged(courses, tuple(ended))


def _bring(
    agents: Agents, archives: Archives, course: Course, progress: Callable[[int, int], None]
) -> None:
    assert course.sight is not None, "it was planned for"
    assert course.plan is not None, "it was planned for"
    assert course.transaction is not None, "it has something to do"
    desired = course.sight.desired
    for step in course.plan.steps:
        if isinstance(step.action, Receive):
            archive = archives.of(desired.playbook.files, step.action.files)
            agents.at(desired.target).push(course.transaction, archive, progress)
