from __future__ import annotations

import hashlib
import json
import os
import signal
from collections.abc import Callable
from dataclasses import replace

import pytest

from dflashctl.agent.protocol import (
    Commit,
    Event,
    Failure,
    Outcome,
    Receive,
    StepBegun,
    StepDone,
    StopRun,
)
from dflashctl.cli import recover
from dflashctl.errors import LinkLost, LockHeld, Stale, Unreachable
from tests.cli.world import SECRET, World, after_start, succeed
from tests.plan.scenes import BARE, BUSY, SEVENTEEN

RUNNING_ALREADY = replace(BUSY, files=())


def failing(code: str, **detail: object) -> Callable[[Commit, Callable[[Event], None]], Outcome]:
    """A transaction whose last step fails."""

    def commit(commit: Commit, on_event: Callable[[Event], None]) -> Outcome:
        last = len(commit.actions) - 1
        for index in range(last):
            on_event(StepBegun(index=index))
            on_event(StepDone(index=index, seconds=0.0, result="well", facts={}))
        on_event(StepBegun(index=last))
        return Outcome(
            run_id=None,
            failed_at=last,
            failure=Failure(code=code, detail=dict(detail)),
            observed=replace(BARE, state="FAILED", gpus=None),
        )

    return commit


def test_a_first_deploy_shows_its_plan_and_ends_with_the_run(world: World) -> None:
    result = world.run("deploy")
    assert result.code == 0
    assert "Plan for here" in result.err
    run_id = world.commits[0].actions[-1].run_id  # type: ignore[union-attr]  # it ends with a check
    assert f"{run_id} running on here" in result.out
    for way in (
        "dflashctl status -t here",
        "dflashctl logs -f -t here",
        "dflashctl attach -t here",
    ):
        assert way in result.out


def test_only_what_the_target_lacks_is_sent_and_before_the_commit(world: World) -> None:
    world.answers = [replace(BARE, files=())]
    world.run("deploy")
    assert world.pushed == []
    missing = replace(BARE.files[0], dest="/root/train.py")
    world.answers = [replace(BARE, files=(missing,))]
    world.run("deploy")
    target, transaction, hashes = world.pushed[0]
    assert target == "here"
    content = (world.cwd / "playbooks" / "train.py").read_bytes()
    assert hashes == [hashlib.sha256(content).hexdigest()]
    assert world.commits[1].transaction == transaction
    assert isinstance(world.commits[1].actions[0], Receive)


def test_the_commit_carries_the_look_and_the_fingerprint_of_its_plan(world: World) -> None:
    world.answers = [replace(BARE, files=(), fingerprint={"run": "abc"})]
    world.run("deploy")
    assert world.commits[0].look == world.looks[0]
    assert world.commits[0].fingerprint == {"run": "abc"}
    assert world.commits[0].look.files[0].dest == "/root/train.py"


def test_a_dry_run_shows_the_plan_as_the_answer_and_changes_nothing(world: World) -> None:
    result = world.run("deploy", "--dry-run")
    assert result.code == 10
    assert "Plan for here" in result.out
    assert (world.pushed, world.commits) == ([], [])


def test_a_dry_run_with_nothing_to_do_is_0(world: World) -> None:
    world.answers = [RUNNING_ALREADY]
    result = world.run("deploy", "--dry-run")
    assert result.code == 0
    assert "Nothing to do on here" in result.out


def test_a_running_job_is_left_alone_and_the_answer_says_so(world: World) -> None:
    world.answers = [RUNNING_ALREADY]
    result = world.run("deploy")
    assert result.code == 0
    assert "dflash keeps running" in result.out
    assert world.commits == []


def test_restart_stops_it_first(world: World) -> None:
    world.answers = [RUNNING_ALREADY]
    assert world.run("deploy", "--restart").code == 0
    assert isinstance(world.commits[0].actions[0], StopRun)


def test_cleared_checkpoints_are_named_with_the_way_back(world: World) -> None:
    world.answers = [RUNNING_ALREADY]
    result = world.run("deploy", "--restart", "--clear-checkpoints")
    assert "17 entries of /workspace/checkpoints" in result.out
    assert "kept in /workspace/.checkpoints.dflashctl-trash/t-1" in result.out
    assert "then: dflashctl checkpoints restore --last-cleared -t here" in result.out


def test_clearing_under_a_running_job_is_refused_before_anything_is_touched(world: World) -> None:
    world.answers = [RUNNING_ALREADY]
    result = world.run("deploy", "--clear-checkpoints")
    assert result.code == 65
    assert "is using the checkpoints" in result.err
    assert "--restart" in result.err
    assert world.commits == []


def test_a_refusal_ends_a_dry_run_too(world: World) -> None:
    world.answers = [RUNNING_ALREADY]
    assert world.run("deploy", "--clear-checkpoints", "--dry-run").code == 65


def test_without_tmux_there_the_target_lacks_something(world: World) -> None:
    world.answers = [replace(BARE, tmux=None)]
    result = world.run("deploy")
    assert result.code == 78
    assert "tmux" in result.err
    assert world.commits == []


@pytest.mark.provokes("unverified")
def test_a_run_that_dies_early_is_unverified_and_its_last_lines_are_shown(world: World) -> None:
    log = ["Traceback (most recent call last):", "\x1b]0;x\x07KeyError: 'x'"]
    world.commit = failing("died_early", exit_code=1, signal=None, after_s=2.0, log=log)
    result = world.run("deploy")
    assert result.code == 66
    assert "the run ended after 2.0 s, with exit code 1" in result.err
    assert "| KeyError: 'x'" in result.err
    assert "failed  check that it lives" in result.err
    assert "\x1b" not in result.err
    assert result.out == ""


@pytest.mark.provokes("stale")
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (LockHeld(target="here", holder="ann@desk", since="2026-11-29T12:06:00Z"), 75),
        (Stale(target="here", changed=("run",)), 75),
    ],
)
def test_another_operator_who_was_quicker_is_no_harm(
    world: World, error: Exception, code: int
) -> None:
    def commit(_: Commit, __: Callable[[Event], None]) -> Outcome:
        raise error

    world.commit = commit
    result = world.run("deploy")
    assert result.code == code
    assert "Nothing was touched" in result.err


def test_ctrl_c_while_sending_touches_nothing(world: World) -> None:
    world.answers = [replace(BARE, files=(replace(BARE.files[0], dest="/root/train.py"),))]
    world.push_error = KeyboardInterrupt()
    result = world.run("deploy")
    assert result.code == 130
    assert "Nothing was touched" in result.err
    assert world.commits == []
    assert world.closed == 1


def interrupted(times: int) -> Callable[[Commit, Callable[[Event], None]], Outcome]:
    """A transaction during which Ctrl-C is pressed."""

    def commit(commit: Commit, on_event: Callable[[Event], None]) -> Outcome:
        for _ in range(times):
            os.kill(os.getpid(), signal.SIGINT)
        return succeed(commit, on_event)

    return commit


def test_one_ctrl_c_after_the_commit_says_that_it_goes_on(world: World) -> None:
    world.commit = interrupted(1)
    result = world.run("deploy")
    assert result.code == 0
    assert "goes on over there to its end" in result.err
    assert "running on here" in result.out


def test_a_second_ctrl_c_stops_watching_and_says_how_to_ask(world: World) -> None:
    world.commit = interrupted(2)
    result = world.run("deploy")
    assert result.code == 130
    assert "stopped watching; the transaction on here goes on" in result.err
    assert "dflashctl status -t here" in result.err


def test_ctrl_c_means_what_it_meant_once_it_is_over(world: World) -> None:
    before = signal.getsignal(signal.SIGINT)
    world.run("deploy")
    assert signal.getsignal(signal.SIGINT) is before


def link_lost() -> LinkLost:
    return LinkLost(target="here", address="here", reason="silent for 30 s", transaction="t-1")


def lost(commit: Commit, on_event: Callable[[Event], None]) -> Outcome:
    """The connection breaks after the first step."""
    on_event(StepBegun(index=0))
    on_event(StepDone(index=0, seconds=0.0, result="well", facts={}))
    raise link_lost()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test waits for the time of a person."""
    monkeypatch.setattr(recover, "RECONNECT_S", 0.3)
    monkeypatch.setattr(recover, "PAUSE_S", 0.01)


@pytest.mark.usefixtures("impatient")
def test_after_a_lost_connection_the_outcome_is_asked_for(world: World) -> None:
    world.answers = [RUNNING_ALREADY]
    world.commit = lost
    result = world.run("deploy", "--restart", "--clear-checkpoints")
    assert result.code == 0
    assert world.asked[0].transaction == world.commits[0].transaction
    assert "connecting again" in result.err
    assert result.err.count("done  stop run") == 1
    assert "17 entries" in result.out


@pytest.mark.usefixtures("impatient")
def test_after_a_lost_connection_a_failure_is_told_as_one(world: World) -> None:
    world.commit = lost
    world.answer = failing("env_mismatch", names=["LD_LIBRARY_PATH"])
    result = world.run("deploy")
    assert result.code == 66
    assert "LD_LIBRARY_PATH" in result.err


@pytest.mark.usefixtures("impatient")
def test_a_transaction_that_never_began_is_told_as_one(world: World) -> None:
    world.commit = lost
    world.answer = Failure(code="not_begun", detail={})
    result = world.run("deploy")
    assert result.code == 69
    assert "Nothing was changed there" in result.err


@pytest.mark.usefixtures("impatient")
def test_a_target_that_stays_out_of_reach_leaves_the_question_open(world: World) -> None:
    def lost_for_good(commit: Commit, on_event: Callable[[Event], None]) -> Outcome:
        world.unreachable["here"] = Unreachable(target="here", address="here", reason="no route")
        return lost(commit, on_event)

    world.commit = lost_for_good
    result = world.run("deploy")
    assert result.code == 69
    assert "goes on over there, to its end, without us" in result.err


@pytest.mark.usefixtures("impatient")
def test_a_connection_that_breaks_again_and_again_ends_the_watching(world: World) -> None:
    world.commit = lost
    world.answer = link_lost()
    assert world.run("deploy").code == 69
    assert len(world.asked) == 3


def test_a_secret_shows_nowhere_but_in_the_commit(world: World) -> None:
    for options in ((), ("--json",), ("--dry-run",), ("--dry-run", "--json")):
        result = world.run("--debug", "deploy", *options)
        assert SECRET not in result.out + result.err
    secrets = [getattr(action, "secrets", {}) for action in world.commits[0].actions]
    assert {"WANDB_API_KEY": SECRET} in secrets


def test_a_secret_that_is_not_set_is_a_mistake(world: World) -> None:
    del world.environ["WANDB_API_KEY"]
    result = world.run("deploy")
    assert result.code == 2
    assert "WANDB_API_KEY" in result.err


def test_a_playbook_without_a_run_cannot_be_deployed(world: World) -> None:
    path = world.cwd / "playbooks" / "deploy.yml"
    path.write_text("version: 1\nname: dflash\n", encoding="utf-8")
    result = world.run("deploy")
    assert result.code == 2
    assert "deploy needs `run`" in result.err


@pytest.mark.provokes("too_many_targets")
def test_several_targets_are_one_too_many_for_a_terminal(world: World) -> None:
    result = world.run("attach", "-t", "training")
    assert result.code == 2
    assert "kpro6/dflash, kpro6/eval" in result.err
    assert world.looks == []


def test_no_wait_asks_only_for_the_start(world: World) -> None:
    world.run("deploy", "--no-wait")
    assert world.commits[0].actions[-1].alive_for_s == 0  # type: ignore[union-attr]  # a VerifyRun


def test_stop_with_nothing_running_says_so(world: World) -> None:
    result = world.run("stop")
    assert result.code == 0
    assert "nothing runs" in result.out


def test_stop_stops(world: World) -> None:
    world.answers = [RUNNING_ALREADY]
    result = world.run("stop")
    assert result.code == 0
    assert [type(action) for action in world.commits[0].actions] == [StopRun]
    assert "stopped" in result.out


def test_start_with_the_job_running_says_so(world: World) -> None:
    world.answers = [RUNNING_ALREADY]
    result = world.run("start")
    assert result.code == 0
    assert "already running" in result.out
    assert world.commits == []


def test_start_starts_from_what_is_there(world: World) -> None:
    world.answers = [replace(BARE, files=(), checkpoints=SEVENTEEN)]
    result = world.run("start")
    assert result.code == 0
    assert "running on here" in result.out
    assert world.pushed == []


def test_the_json_of_a_failure_is_the_only_thing_on_stdout(world: World) -> None:
    world.commit = failing("died_early", exit_code=1, signal=None, after_s=2.0, log=["x"])
    result = world.run("deploy", "--json")
    error = json.loads(result.out)["targets"]["here"]["error"]
    assert result.code == 66
    assert error["code"] == "unverified"
    assert error["detail"]["failure"] == "died_early"
    assert error["detail"]["log_tail"] == ["x"]


def test_the_run_that_was_started_is_the_one_that_is_reported(world: World) -> None:
    value = json.loads(world.run("deploy", "--json").out)["targets"]["here"]
    assert value["run_id"] == value["plan"]["run_id"] == after_start(value["run_id"]).run.id  # type: ignore[union-attr]  # it has one
