from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dflashctl.agent.protocol import ExecuteCommand, FileWanted, StartRun, StopRun, VerifyRun
from dflashctl.agent.seen import Observed
from dflashctl.plan.model import Desired, Plan
from dflashctl.plan.play import look_before_play, plan_play
from dflashctl.plan.when import unmet
from dflashctl.playbook.model import StepSpec, Verb, WhenSpec
from tests.plan.scenes import (
    BARE,
    BUSY,
    DEPLOYED,
    DESIRED,
    GPUS,
    OVER,
    RUN_ID,
    SEVENTEEN,
    STRANGER,
    action,
    actions,
    codes,
    placed,
    with_playbook,
)

RESTART: tuple[Verb, ...] = ("stop", "clear_checkpoints", "push", "start", "wait_ready")


def wanted(*steps: StepSpec | Verb) -> Desired:
    specs = tuple(one if isinstance(one, StepSpec) else StepSpec(do=one) for one in steps)
    return with_playbook(steps=specs)


def play(seen: Observed, *steps: StepSpec | Verb) -> Plan:
    return plan_play(wanted(*steps), seen)


def test_steps_are_done_in_the_order_in_which_they_are_written() -> None:
    plan = play(BUSY, *RESTART)
    assert actions(plan) == [
        "StopRun", "ClearCheckpoints", "Receive", "PlaceFiles", "StartRun", "VerifyRun",
    ]  # fmt: skip
    assert (plan.refusals, plan.run_id) == ((), RUN_ID)
    assert all(step.what and step.why for step in plan.steps)
    assert [diff.path for diff in plan.diffs] == ["/root/train.py"]


def test_a_step_whose_when_is_not_so_is_left_out_with_its_reason() -> None:
    plan = play(OVER, StepSpec(do="stop", when=WhenSpec(state=("RUNNING", "STALLED"))), "push")
    assert plan.steps == ()
    assert plan.notes[0] == (
        "step 1 (stop) is left out: the state is FAILED, not RUNNING or STALLED"
    )


def test_a_job_that_runs_is_not_started_and_nothing_is_waited_for() -> None:
    plan = play(BUSY, "start", "wait_ready")
    assert (plan.steps, plan.run_id) == ((), None)
    assert plan.notes[0].startswith("already running")


def test_a_start_without_a_push_uses_what_lies_there_or_is_refused() -> None:
    assert codes(play(BARE, "start")) == ["not_deployed"]
    plan = play(replace(BUSY, state="FAILED", run=OVER.run, session=None), "start", "wait_ready")
    (train, _) = action(plan, StartRun).release
    assert train.sha256 == "a" * 64
    assert action(plan, StartRun).about.source is None


@pytest.mark.provokes("refused.checkpoints_in_use")
def test_checkpoints_are_not_cleared_under_a_running_job() -> None:
    assert codes(play(BUSY, "clear_checkpoints")) == ["checkpoints_in_use"]
    too_late = play(BUSY, "clear_checkpoints", "stop")
    assert codes(too_late) == ["checkpoints_in_use"]
    assert "do: stop" in too_late.refusals[0].remedy


def test_what_a_play_starts_is_a_run_as_any_other_to_the_steps_that_follow() -> None:
    steps: tuple[StepSpec | Verb, ...] = ("push", "start", "wait_ready", "stop")
    plan = play(BARE, *steps)
    assert actions(plan)[-3:] == ["StartRun", "VerifyRun", "StopRun"]
    assert action(plan, StopRun).run_id == plan.run_id == RUN_ID
    assert codes(play(BARE, *steps, "clear_checkpoints")) == []
    assert codes(play(BARE, *steps[:-1], "clear_checkpoints")) == ["checkpoints_in_use"]
    assert "one play starts one run" in " ".join(play(BARE, *steps, "start").notes)


def test_a_command_has_its_deadline_and_its_failure_may_be_passed_over() -> None:
    step = StepSpec(do="run", command=("make", "x"), cwd="/w", timeout_s=5.0, goes_on=True)
    plan = play(DEPLOYED, step, "push")
    command = action(plan, ExecuteCommand)
    assert (command.command, command.cwd, command.timeout_s) == (("make", "x"), "/w", 5.0)
    assert plan.steps[0].may_fail
    assert "passed over" in plan.steps[0].why


def test_a_wait_may_be_longer_than_the_playbooks() -> None:
    steps = (StepSpec(do="start"), StepSpec(do="wait_ready", alive_for_s=90.0))
    assert action(play(DEPLOYED, *steps), VerifyRun).alive_for_s == 90.0
    assert action(play(DEPLOYED, "start", "wait_ready"), VerifyRun).alive_for_s == 10.0


def test_a_look_asks_for_what_the_steps_depend_on_and_no_more() -> None:
    missing = StepSpec(do="run", command=("x",), when=WhenSpec(missing=("tmux", "/venv")))
    look = look_before_play(wanted(missing, missing))
    assert (look.paths, look.probe, look.gpus) == (("tmux", "/venv"), None, False)
    assert look_before_play(wanted("start")).gpus
    assert look_before_play(wanted(StepSpec(do="stop", when=WhenSpec(gpus_free=1)))).gpus


HELD = replace(BUSY, gpus=replace(GPUS, holders=(STRANGER, replace(STRANGER, ours=True))))


@pytest.mark.parametrize(
    ("when", "reason"),
    [
        ({}, None),
        ({"state": ("RUNNING",)}, None),
        ({"state": ("NONE",)}, "the state is RUNNING, not NONE"),
        ({"gpus_free": 6}, None),
        ({"gpus_free": 7}, "6 GPUs free, not 7"),
        ({"at_least": 17, "at_most": 17}, None),
        ({"at_least": 18}, "17 checkpoints, not at least 18"),
        ({"at_most": 16}, "17 checkpoints, not at most 16"),
        ({"files_changed": True}, None),
        ({"files_changed": False}, "files have changed"),
        ({"missing": ("tmux", "/venv")}, None),
        ({"missing": ("tmux",)}, "tmux is there"),
        ({"state": ("RUNNING",), "at_most": 0}, "17 checkpoints, not at most 0"),
    ],
)
def test_a_when_is_met_if_all_of_it_is_so(when: dict[str, Any], reason: str | None) -> None:
    seen = replace(HELD, checkpoints=SEVENTEEN, absent=("/venv",))
    assert unmet(WhenSpec(**when), seen, files_changed=True) == reason


def test_a_start_has_the_boundaries_that_lie_with_its_files() -> None:
    made = FileWanted(dest="68ab/buckets.json", sha256="e" * 64, size=9, mode=0o644)
    desired = replace(wanted("push", "start"), files=(*DESIRED.files, made))
    there = placed(made, real_dest="/state/lib/68ab/buckets.json")
    plan = plan_play(desired, replace(DEPLOYED, files=(*DEPLOYED.files, there)))
    assert action(plan, StartRun).env["DFLASH_BUCKETS"] == "/state/lib/68ab/buckets.json"
