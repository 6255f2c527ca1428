"""play: the steps that a playbook names, as one plan."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, assert_never

from dflashctl.agent.protocol import ExecuteCommand, PlaceFiles, StopRun
from dflashctl.errors import Refusal
from dflashctl.plan import words
from dflashctl.plan.batching import with_boundaries
from dflashctl.plan.checkpoints import archive_steps, clear_steps, plan_prune, restore_steps
from dflashctl.plan.deploy import file_steps, placing_diffs
from dflashctl.plan.diff import LONGEST_TEXT
from dflashctl.plan.look import look_before_placing, look_for
from dflashctl.plan.model import Plan, Step
from dflashctl.plan.preflight import preflight
from dflashctl.plan.retention import rules_of
from dflashctl.plan.start import as_they_are, not_deployed
from dflashctl.plan.steps import (
    command_for,
    lives,
    restart_waits,
    run_spec,
    start_steps,
    stop_steps,
    tidy_steps,
    what_lives,
    what_was,
)
from dflashctl.plan.together import split_refusals
from dflashctl.plan.when import unmet

if TYPE_CHECKING:
    from dflashctl.agent.protocol import Look
    from dflashctl.agent.seen import Observed
    from dflashctl.plan.model import Desired
    from dflashctl.playbook.model import StepSpec


_ABOUT_THE_STORE = ("archive_checkpoints", "restore_checkpoints", "prune_checkpoints")


def look_before_play(desired: Desired) -> Look:
    """What the steps and their conditions need to know, in one look."""
    steps = desired.playbook.steps
    starts = any(step.do == "start" for step in steps)
    look = look_before_placing(desired) if starts else look_for(desired)
    paths = dict.fromkeys(path for step in steps for path in step.when.missing)
    return replace(
        look,
        files=desired.files,
        texts=LONGEST_TEXT,
        whole_store=any(step.do in _ABOUT_THE_STORE for step in steps),
        paths=tuple(paths),
        gpus=starts or any(step.when.gpus_free is not None for step in steps),
    )


def plan_play(desired: Desired, seen: Observed) -> Plan:
    """Each step whose ``when`` is so, in order; a note for each that is not.

    Raises:
        MissingSetting: a step needs what the playbook does not say.
    """
    return _Play(desired=desired, seen=seen).plan()


@dataclass(kw_only=True)
class _Play:
    """The plan as it grows, and what the steps so far leave behind."""

    desired: Desired
    seen: Observed
    steps: list[Step] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    asks: tuple[str, ...] = ()
    pushed: bool = False
    stopped: bool = False
    cleared: bool = False
    restored: bool = False
    started: bool = False
    ended: bool = False

    def plan(self) -> Plan:
        """The whole."""
        desired, seen = self.desired, self.seen
        _, place = file_steps(desired, seen)
        for number, spec in enumerate(desired.playbook.steps, start=1):
            reason = unmet(spec.when, seen, files_changed=bool(place))
            if reason is not None:
                self.notes.append(f"step {number} ({spec.do}) is left out: {reason}")
                continue
            done = self._do(spec)
            self.steps += [replace(step, may_fail=spec.goes_on) for step in done]
        steps = (*self.steps, *(tidy_steps(seen) if self.started else ()))
        placed = tuple(step for step in steps if isinstance(step.action, PlaceFiles))
        return Plan(
            steps=steps,
            notes=tuple(self.notes),
            refusals=(*self.refusals, *self._further(preflight(desired, seen, steps))),
            run_id=desired.run_id if self.started else None,
            diffs=placing_diffs(desired, seen, placed),
            asks=self.asks,
        )

    def _further(self, found: tuple[Refusal, ...]) -> tuple[Refusal, ...]:
        """Without what was said before, with the step's own remedy."""
        said = any(one.code.endswith("_while_running") for one in self.refusals)
        return tuple(one for one in found if not (said and one.code == "checkpoints_in_use"))

    @property
    def lives(self) -> bool:
        """Whether the job still runs once the steps so far are done."""
        return (self.started and not self.ended) or (lives(self.seen) and not self.stopped)

    def _do(self, spec: StepSpec) -> tuple[Step, ...]:  # noqa: PLR0911 - one a verb
        match spec.do:
            case "push":
                return self._push()
            case "run":
                return (_command(spec),)
            case "stop":
                return self._stop()
            case "start":
                return self._start()
            case "wait_ready":
                return self._wait_ready(spec)
            case "clear_checkpoints":
                return self._clear()
            case "archive_checkpoints":
                return self._archive(spec)
            case "restore_checkpoints":
                return self._restore(spec)
            case "prune_checkpoints":
                return self._prune()
            case "optimize_buckets":
                # So that a push brings them, before this plan is made.
                self.notes.append("boundaries are made anew before all else (optimize_buckets)")
                return ()
            case _ as never:
                assert_never(never)

    def _push(self) -> tuple[Step, ...]:
        if self.pushed:
            return ()
        receive, place = file_steps(self.desired, self.seen)
        self.pushed = True
        if not (receive or place):
            self.notes.append("all files are in place")
        return (*receive, *place)

    def _stop(self) -> tuple[Step, ...]:
        if not self.lives and not restart_waits(self.seen):
            self.notes.append(f"nothing to stop: {what_was(self.seen)}")
            return ()
        if self.started:
            self.ended = True
            return (self._stop_what_was_started(),)
        self.stopped = True
        return stop_steps(self.desired, self.seen, "do: stop")

    def _stop_what_was_started(self) -> Step:
        playbook = self.desired.playbook
        return Step(
            action=StopRun(
                session=playbook.session,
                run_id=self.desired.run_id,
                signal=playbook.stop.signal,
                grace_s=playbook.stop.grace_s,
            ),
            what=f"stop run {self.desired.run_id}",
            why=f"do: stop; {playbook.stop.signal}, after {playbook.stop.grace_s:g} s TERM, "
            "then KILL",
        )

    def _clear(self) -> tuple[Step, ...]:
        self._refuse_while_running("clear_checkpoints")
        steps, notes = clear_steps(self.desired, self.seen, "do: clear_checkpoints")
        self.cleared, self.restored = True, False
        self.notes += notes
        return steps

    def _archive(self, spec: StepSpec) -> tuple[Step, ...]:
        name = spec.name or self.desired.archive
        steps, notes = archive_steps(
            self.desired, self.seen, "do: archive_checkpoints", name, then_remove=False
        )
        self.notes += notes
        return steps

    def _restore(self, spec: StepSpec) -> tuple[Step, ...]:
        assert spec.name is not None, "the schema asks for it"
        self._refuse_while_running(spec.do)
        steps, notes = restore_steps(self.desired, self.seen, "do: restore_checkpoints", spec.name)
        self.notes += notes
        self.restored, self.cleared = True, False
        return steps

    def _prune(self) -> tuple[Step, ...]:
        keep = self.desired.playbook.checkpoints
        plan = plan_prune(
            self.desired, self.seen, rules_of(keep.keep if keep else None), trash=False
        )
        self.notes += plan.notes
        self.asks += plan.asks
        return plan.steps

    def _start(self) -> tuple[Step, ...]:
        desired, seen = self.desired, self.seen
        run = with_boundaries(run_spec(desired, "play"), seen)
        if self.started:
            self.notes.append("not started once more: one play starts one run")
            return ()
        if self.lives:
            self.notes.append(f"already running: {what_lives(seen)}")
            return ()
        if not self.pushed:
            release, missing, notes = as_they_are(desired, seen)
            here = desired.source if release == desired.files else None
            desired = replace(desired, files=release, source=here)
            self.refusals += not_deployed(missing)
            self.notes += notes
        if self.restored:
            command, notes = run.resume or run.command, ()
        else:
            command, notes = command_for(run, desired, seen, cleared=self.cleared)
        self.notes += notes
        self.refusals += split_refusals(desired, seen, restart=self.stopped)
        self.started = True
        stops = () if self.stopped else stop_steps(desired, seen, "its name is needed")
        start, _ = start_steps(desired, seen, run, command, reason="do: start", wait=False)
        return (*stops, start)

    def _wait_ready(self, spec: StepSpec) -> tuple[Step, ...]:
        if not self.started:
            return ()
        playbook = self.desired.playbook
        if spec.alive_for_s is not None:
            ready = replace(playbook.ready, alive_for_s=spec.alive_for_s)
            playbook = replace(playbook, ready=ready)
        desired = replace(self.desired, playbook=playbook)
        run = with_boundaries(run_spec(desired, "play"), self.seen)
        _, verify = start_steps(desired, self.seen, run, run.command, reason="", wait=True)
        return (replace(verify, why="do: wait_ready"),)

    def _refuse_while_running(self, verb: str) -> None:
        """A stop that comes too late; without any, preflight refuses."""
        stops = any(s.do == "stop" for s in self.desired.playbook.steps)
        if not self.lives or not (stops or self.started):
            return
        self.refusals.append(
            Refusal(
                code="checkpoints_in_use",
                message=f"{self._user_of_them()} is using the checkpoints",
                remedy=f"put a step with `do: stop` before `do: {verb}`",
            )
        )

    def _user_of_them(self) -> str:
        return (
            f"run {self.desired.run_id}, just started," if self.started else what_lives(self.seen)
        )


def _command(spec: StepSpec) -> Step:
    action = ExecuteCommand(
        command=spec.command,
        cwd=spec.cwd,
        env_base=spec.env_base,
        env=spec.env,
        timeout_s=spec.timeout_s,
    )
    where = f" in {spec.cwd}" if spec.cwd else ""
    goes_on = ", a failure is passed over" if spec.goes_on else ""
    return Step(
        action=action,
        what=f"run {words.command(_first_lines(spec.command))}{where}",
        why=f"do: run; {spec.timeout_s:g} s at most{goes_on}",
    )


def _first_lines(command: tuple[str, ...]) -> tuple[str, ...]:
    """The words, of a script among them its first line only."""
    lines = (word.strip().partition("\n") for word in command)
    return tuple(f"{line} ..." if more else line for line, more, _ in lines)
