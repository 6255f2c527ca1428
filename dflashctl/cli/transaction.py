"""From a plan to its outcome: show it, send what is missing, commit, tell what came of it."""

from __future__ import annotations

import secrets
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from dflashctl.agent.ids import transaction_id
from dflashctl.agent.protocol import Commit, Receive, StepDone, StepPassed
from dflashctl.cli.ctrl_c import patient
from dflashctl.cli.recover import outcome_after_loss
from dflashctl.errors import (
    Interrupted,
    LinkLost,
    LockHeld,
    MissingTool,
    NeedsYes,
    Refused,
    Unverified,
)
from dflashctl.plan.preflight import lacks
from dflashctl.view import json
from dflashctl.view.outcome import show_done
from dflashctl.view.plan import show_plan
from dflashctl.view.progress import Steps, Upload

if TYPE_CHECKING:
    from dflashctl.agent.protocol import Event, Look, Outcome
    from dflashctl.agent.seen import Observed
    from dflashctl.cli.call import Call
    from dflashctl.inventory.model import Target
    from dflashctl.link.client import Agent
    from dflashctl.plan.model import Desired, Plan

GOES_ON = (
    "The transaction goes on over there to its end; Ctrl-C cannot stop it. "
    "Another Ctrl-C stops watching it."
)
CHANGES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A plan with what it was made from. ``look`` is the one that ``seen`` answers.

    ``diff``: whether changes of files are shown whole, however long they are. ``yes``: what
    cannot be undone is done unasked.
    """

    desired: Desired
    look: Look
    seen: Observed
    plan: Plan
    diff: bool = False
    yes: bool = False

    @property
    def target(self) -> str:
        """The target's name."""
        return self.desired.target.name


def require_tmux(target: Target, seen: Observed) -> None:
    """Raises MissingTool when no session could be started there."""
    tool = lacks(seen)
    if tool is not None:
        raise MissingTool(target=target.name, tool=tool)


def preview(call: Call, proposal: Proposal) -> int:
    """Show the plan and stop: 10 when there is something to do, else 0.

    Raises:
        Refused: preflight is against it.
    """
    if not call.json:
        out = call.screen.out
        show_plan(call.screen, out, proposal.target, proposal.plan, whole=proposal.diff)
    _refuse(proposal)
    code = CHANGES if proposal.plan.steps else 0
    if call.json:
        _answer(call, proposal, code)
    elif code:
        call.screen.say("A dry run: nothing was touched.", style="dim")
    return code


def carry_out(call: Call, agent: Agent, proposal: Proposal) -> int:
    """Do what the plan says, to the end.

    Raises:
        LockHeld: another transaction is at work, so that what was seen may not last.
        Refused: preflight is against it; nothing was touched.
        Unverified: a step failed.
        NeedsYes: something cannot be undone, and nobody can be asked.
        Interrupted: by Ctrl-C or a no before anything was touched, or while watching.
    """
    _respect_the_lock(proposal)
    plan, screen = proposal.plan, call.screen
    # With nothing to do, saying so is the answer.
    idle = not plan.steps and not plan.refusals
    console = screen.out if idle and not call.json else screen.err
    show_plan(screen, console, proposal.target, plan, whole=proposal.diff)
    _refuse(proposal)
    if idle:
        return _answer(call, proposal, 0) if call.json else 0
    _ask(call, proposal)
    transaction = transaction_id(proposal.look.job, datetime.now(UTC), secrets.choice)
    _send(call, agent, proposal, transaction)
    outcome, done, passed = _commit(call, agent, proposal, transaction)
    call.keep_in_mind(proposal.target, outcome.observed)
    if outcome.failure is not None:
        raise _unverified(proposal, outcome)
    if call.json:
        value = json.transaction_object(plan, outcome.observed, transaction, done, passed)
        screen.write(json.envelope(call.command, 0, {proposal.target: value}))
    else:
        show_done(screen, call.same_again(proposal.target), plan, outcome.observed, done)
    return 0


def _ask(call: Call, proposal: Proposal) -> None:
    """What cannot be undone needs a word."""
    asks = proposal.plan.asks
    if not asks or proposal.yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise NeedsYes(what=call.command, details=asks)
    for text in asks:
        call.screen.say(text, style="yellow")
    if not call.screen.ask("Go on? (yes/no) "):
        raise Interrupted(target=proposal.target)


def _respect_the_lock(proposal: Proposal) -> None:
    lock = proposal.seen.lock
    if lock is not None:
        since = datetime.fromtimestamp(lock.since, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        raise LockHeld(target=proposal.target, holder=lock.who, since=since)


def _refuse(proposal: Proposal) -> None:
    if proposal.plan.refusals:
        raise Refused(target=proposal.target, refusals=proposal.plan.refusals)


def _answer(call: Call, proposal: Proposal, code: int) -> int:
    """The JSON of a plan that was not, or need not be, carried out."""
    value = json.transaction_object(proposal.plan, proposal.seen, None, {}, {})
    call.screen.write(json.envelope(call.command, code, {proposal.target: value}))
    return code


def _send(call: Call, agent: Agent, proposal: Proposal, transaction: str) -> None:
    """Bring the files that the target does not keep yet; nothing is in place after this."""
    for step in proposal.plan.steps:
        if isinstance(step.action, Receive):
            with Upload(call.screen) as progress:
                sources = proposal.desired.playbook.files
                agent.push(transaction, sources, step.action.files, progress)


def _commit(
    call: Call, agent: Agent, proposal: Proposal, transaction: str
) -> tuple[Outcome, dict[int, StepDone], dict[int, StepPassed]]:
    """Hand the transaction over and watch it. From here on it needs us no more."""
    done: dict[int, StepDone] = {}
    passed: dict[int, StepPassed] = {}
    commit = Commit(
        transaction=transaction,
        look=proposal.look,
        fingerprint=proposal.seen.fingerprint,
        actions=tuple(step.action for step in proposal.plan.steps),
        who=call.who(),
        may_fail=tuple(n for n, step in enumerate(proposal.plan.steps) if step.may_fail),
    )
    with Steps(call.screen, proposal.plan.steps) as steps:

        def tell(event: Event) -> None:
            if isinstance(event, StepDone | StepPassed):
                if event.index in done or event.index in passed:
                    return  # told a second time, after a new connection
                if isinstance(event, StepDone):
                    done[event.index] = event
                else:
                    passed[event.index] = event
            steps.tell(event)

        try:
            with patient(lambda: steps.remark(GOES_ON)):
                try:
                    outcome = agent.commit(commit, tell)
                except LinkLost as lost:
                    steps.remark("The connection broke off; connecting again.")
                    target = proposal.desired.target
                    outcome = outcome_after_loss(call, target, commit, tell, lost)
        except KeyboardInterrupt:
            raise Interrupted(target=proposal.target, committed=True) from None
        if outcome.failed_at is not None:
            steps.failed(outcome.failed_at)
    return outcome, done, passed


def _unverified(proposal: Proposal, outcome: Outcome) -> Unverified:
    """The error that a failed outcome is, in the plan's words."""
    assert outcome.failure is not None
    steps = proposal.plan.steps
    at = outcome.failed_at if outcome.failed_at is not None else len(steps)
    log = outcome.failure.detail.get("log")
    return Unverified(
        target=proposal.target,
        step=steps[at].what if at < len(steps) else "the transaction",
        failure=outcome.failure.code,
        detail=outcome.failure.detail,
        state=outcome.observed.state,
        done=tuple(step.what for step in steps[:at]),
        run_id=outcome.run_id,
        log_tail=tuple(str(line) for line in log) if isinstance(log, list | tuple) else (),
    )
