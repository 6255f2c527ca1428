from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from dflashctl.agent.protocol import (
    Commit,
    Event,
    ExecuteCommand,
    Failure,
    Outcome,
    StepDone,
    StepPassed,
)
from tests.cli.world import SECRET, World
from tests.plan.scenes import BARE, BUSY

STEPS = """\
version: 1
name: dflash
steps:
  - {do: run, command: [make, venv], on_failure: continue, when: {missing: [/venv]}}
  - {do: stop, when: {state: [RUNNING]}}
"""


@pytest.fixture
def file(world: World) -> str:
    (world.cwd / "steps.yml").write_text(STEPS)
    return "steps.yml"


def pass_the_first(commit: Commit, on_event: Callable[[Event], None]) -> Outcome:
    failure = Failure(code="command_failed", detail={"exit_code": 2, "after_s": 1.0, "log": []})
    on_event(StepPassed(index=0, seconds=1.0, failure=failure))
    on_event(StepDone(index=1, seconds=0.1, result="gone", facts={}))
    return Outcome(run_id=None, failed_at=None, failure=None, observed=replace(BARE, gpus=None))


@pytest.mark.provokes("unverified.command_failed")
def test_the_steps_are_one_plan_and_one_transaction(world: World, file: str) -> None:
    world.answers = [replace(BUSY, absent=("/venv",), files=())]
    world.commit = pass_the_first
    result = world.run("play", file, "--json")
    assert result.code == 0
    assert "exit code 2; goes on" in result.err
    (commit,) = world.commits
    assert isinstance(commit.actions[0], ExecuteCommand)
    assert (len(commit.actions), commit.may_fail) == (2, (0,))
    (target,) = json.loads(result.out)["targets"].values()
    assert [(p["step"], p["code"]) for p in target["passed_over"]] == [(0, "command_failed")]
    assert [done["step"] for done in target["done"]] == [1]


def test_a_dry_run_says_what_is_left_out(world: World, file: str) -> None:
    world.answers = [replace(BARE, files=())]
    result = world.run("play", file, "--dry-run")
    assert result.code == 0
    assert "step 1 (run) is left out: /venv is there" in result.out
    assert world.commits == []


def test_a_playbook_without_steps_has_nothing_to_play(world: World) -> None:
    result = world.run("play", "playbooks/deploy.yml")
    assert result.code == 2
    assert "steps" in result.err


def test_secrets_and_files_are_read_only_for_steps_that_need_them(world: World, file: str) -> None:
    job = (world.cwd / "playbooks" / "deploy.yml").read_text()
    path = world.cwd / "playbooks" / "whole.yml"
    del world.environ["WANDB_API_KEY"]
    path.write_text(f"{job}steps: [{{do: stop}}]\n")
    assert world.run("play", str(path)).code == 0
    assert world.looks[-1].files == ()
    path.write_text(f"{job}steps: [{{do: push}}, {{do: start}}]\n")
    assert world.run("play", str(path)).code == 2
    world.environ["WANDB_API_KEY"] = SECRET
    assert world.run("play", str(path)).code == 0
    assert len(world.looks[-1].files) == 1


def test_boundaries_are_made_before_the_target_is_looked_at_and_pushed(world: World) -> None:
    (world.cwd / "lengths.txt").write_text("".join(f"{n % 40 + 1}\n" for n in range(200)))
    path = world.cwd / "playbooks" / "buckets.yml"
    path.write_text(
        f"version: 1\nname: dflash\ndataset: {{path: {world.cwd}/lengths.txt}}\n"
        "batching: {count: 2, token_budget: 256, max_batch_size: 8, max_length: 64, ranks: 1}\n"
        "buckets: buckets.json\n"
        "steps: [{do: optimize_buckets}, {do: push}]\n"
    )
    world.answers = [replace(BARE, files=())]
    result = world.run("play", str(path))
    assert result.code == 0, result.err
    boundaries = json.loads(path.with_name("buckets.json").read_text())["boundaries"]
    assert (boundaries[0], len(boundaries)) == (0, 3)
    assert any(file.dest.endswith("buckets.json") for file in world.looks[-1].files)
