"""The steps that several verbs share: stopping what there is, and starting a run."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from dflashctl.agent.protocol import CancelRestart, ForgetRuns, StartRun, StopRun, VerifyRun
from dflashctl.agent.recorded import About
from dflashctl.agent.seen import LIVE_STATES
from dflashctl.errors import MissingSetting
from dflashctl.plan import words
from dflashctl.plan.batching import new_buckets
from dflashctl.plan.model import Step
from dflashctl.plan.torchrun import launcher, with_network

if TYPE_CHECKING:
    from dflashctl.agent.seen import Observed, RunSeen
    from dflashctl.plan.model import Desired
    from dflashctl.playbook.model import RunSpec


def live_run(seen: Observed) -> RunSeen | None:
    """The newest run, if any process of it lives."""
    return seen.run if seen.run and seen.run.state in LIVE_STATES else None


def lives(seen: Observed) -> bool:
    """Whether the job runs, started by us or by hand.

    After a cut transaction (INTERRUPTED) this is what really runs. A session that is left
    over from a run that ended is no running job.
    """
    return live_run(seen) is not None or (seen.session is not None and seen.session.adopted)


def what_lives(seen: Observed) -> str:
    """A name for what runs, for notes and refusals."""
    if run := live_run(seen):
        return words.running(run)
    return words.at_hand(seen.session) if seen.session else "nothing"


def what_was(seen: Observed) -> str:
    """How things stand when nothing runs: the last run and its end."""
    return f"the last {words.ended(seen.run)}" if seen.run else "it was never started here"


def stop_steps(desired: Desired, seen: Observed, reason: str) -> tuple[Step, ...]:
    """Stop whatever is in the way of a new run; nothing if nothing is."""
    run, session = live_run(seen), seen.session
    found: list[tuple[str, str | None, str]] = []
    if run:
        found.append((run.session, run.id, words.running(run)))
    if session and (not run or session.adopted or session.name != run.session):
        found.append((session.name, None, words.at_hand(session)))
    stop = desired.playbook.stop
    ladder = f"{stop.signal}, after {stop.grace_s:g} s TERM, then KILL"
    return *cancel_steps(seen), *(
        Step(
            action=StopRun(session=name, run_id=run_id, signal=stop.signal, grace_s=stop.grace_s),
            what=f"stop {who}",
            why=f"{reason}; {ladder}",
        )
        for name, run_id, who in found
    )


def restart_waits(seen: Observed) -> bool:
    """Whether the watchdog waits to start a run that failed again."""
    return seen.restart is not None and seen.restart.came == "waits"


def cancel_steps(seen: Observed) -> tuple[Step, ...]:
    """Cancel the restart that the watchdog waits to make, if it does."""
    run, restart = seen.run, seen.restart
    if run is None or restart is None or not restart_waits(seen):
        return ()
    return (
        Step(
            action=CancelRestart(run_id=run.id),
            what=f"cancel the watchdog's restart of run {run.id}, "
            f"due {words.moment(restart.due_at)}",
            why="nothing is to start by itself",
        ),
    )


def run_spec(desired: Desired, verb: str) -> RunSpec:
    """The playbook's ``run``, with what torchrun needs. Raises MissingSetting when it has none."""
    playbook = desired.playbook
    if playbook.run is None:
        raise MissingSetting(verb=verb, setting="run", path=playbook.path)
    return with_network(playbook.run, desired)


def command_for(
    run: RunSpec, desired: Desired, seen: Observed, *, cleared: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The trainer's words, and remarks on the checkpoints that stay.

    ``run.resume`` is used where complete checkpoints are there and stay there; after new
    buckets ``run.resume_new_buckets``, if there is one. All nodes of one run do as node 0 does.
    """
    seen = desired.place.lead if desired.place else seen
    kept = seen.checkpoints
    if cleared or kept is None or not kept.complete:
        return run.command, ()
    stays = f"in {kept.path} stays: {words.checkpoints(kept)}"
    if run.resume is None:
        return run.command, (f"{stays}; deploy --clear-checkpoints moves it away",)
    if not new_buckets(desired, seen):
        return run.resume, (f"{stays}; the new run goes on from there (run.resume)",)
    fresh = "--clear-checkpoints starts anew"
    if run.resume_new_buckets is None:
        note = (
            f"{stays}; the new run goes on from there (run.resume), but with other buckets than "
            f"before: a trainer may refuse that; {fresh}"
        )
        return run.resume, (note,)
    note = (
        f"{stays}; the new run goes on from there with other buckets than before, for which a "
        f"plain resume would be refused (run.resume_new_buckets: ... "
        f"{shlex.join(run.resume_new_buckets[-2:])}); {fresh}"
    )
    return run.resume_new_buckets, (note,)


def tidy_steps(seen: Observed) -> tuple[Step, ...]:
    """Forget the oldest runs, once there are many; what they alone used goes with them."""
    old = seen.forgettable
    if not old:
        return ()
    return (
        Step(
            action=ForgetRuns(run_ids=old),
            what=f"forget the {words.counted(len(old), 'oldest run')}, up to {old[-1]}: their "
            "records and logs, and files that no later run has",
            why="of each job's runs the last 50 are kept",
        ),
    )


def start_steps(
    desired: Desired,
    seen: Observed,
    run: RunSpec,
    command: tuple[str, ...],
    *,
    reason: str,
    wait: bool,
) -> tuple[Step, Step]:
    """Start the run from the desired files, and prove that it lives."""
    playbook, node = desired.playbook, desired.place.node if desired.place else None
    before = launcher(playbook, run, node, desired.run_id) if node else ()
    found = ("pattern",) if node and node.rank else ("pattern", "jsonl")  # that file is node 0's
    about = About(
        fresh=run.command,
        resume=run.resume,
        source=desired.source,
        gpus=tuple(gpu.name for gpu in seen.gpus.gpus) if seen.gpus else (),
        python=playbook.preflight.python,
        repeats=desired.repeats,
        metrics={
            name: value for name in found if (value := getattr(playbook.metrics, name)) is not None
        },
        node=node,
    )
    start = StartRun(
        run_id=desired.run_id,
        session=playbook.session,
        command=command,
        cwd=run.cwd,
        user=run.user,
        env_base=run.env_base,
        env=run.env,
        secrets=desired.secrets,
        release=desired.files,
        signal=playbook.stop.signal,
        grace_s=playbook.stop.grace_s,
        exit_codes=run.exit_codes,
        free_gpus=playbook.preflight.gpus != 0,
        about=about,
        watch=desired.watch,
        launcher=before,
    )
    ready = playbook.ready
    names = (*run.env, *(f"{name} (secret)" for name in desired.secrets))
    variables = f" and has {words.listed(names)}" if names else ""
    verify = VerifyRun(
        run_id=desired.run_id,
        alive_for_s=ready.alive_for_s if wait else 0.0,
        metric=ready.metric if wait else None,
        within_s=ready.within_s if wait else 0.0,
    )
    lasting = f"lives for {verify.alive_for_s:g} s" if wait else "has started"
    if verify.metric is not None:
        lasting += f" and prints {verify.metric} within {verify.within_s:g} s"
    return (
        Step(
            action=start,
            what=f"start run {desired.run_id} in tmux session {playbook.session}: "
            f"{words.command((*before, *command))}",
            why=reason,
        ),
        Step(
            action=verify,
            what=f"check that it {lasting}{variables}",
            why=("ready.metric" if ready.metric else "ready.alive_for") if wait else "--no-wait",
        ),
    )
