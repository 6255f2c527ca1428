from __future__ import annotations

import json
from dataclasses import replace

import pytest

from dflashctl.agent.protocol import StartRun
from tests.cli.world import SECRET, World
from tests.plan.scenes import BUSY, EARLIER, NEW, RECORD, RUNNING

LATER = replace(RECORD, run=RUNNING, files=(replace(RECORD.files[0], sha256=NEW), RECORD.files[1]))


@pytest.fixture
def past(world: World) -> World:
    world.records = [RECORD, LATER]
    world.answers = [replace(BUSY, files=())]
    return world


def start(world: World) -> StartRun:
    (found,) = (a for a in world.commits[-1].actions if isinstance(a, StartRun))
    return found


def test_a_rollback_goes_to_the_run_before_and_reads_secrets_by_name(past: World) -> None:
    result = past.run("rollback")
    assert result.code == 0, result.err
    assert start(past).about.repeats == EARLIER.id
    assert start(past).secrets == {"WANDB_API_KEY": SECRET}
    assert not past.pushed
    assert SECRET not in result.out + result.err


def test_a_rollback_to_a_named_run(past: World) -> None:
    assert past.run("rollback", "a2b3").code == 0
    assert start(past).about.repeats == RUNNING.id


def test_a_dry_run_shows_the_plan_and_does_nothing(past: World) -> None:
    result = past.run("rollback", "--dry-run", "--json")
    assert result.code == 10
    (target,) = json.loads(result.out)["targets"].values()
    assert [step["action"] for step in target["plan"]["steps"]][-2:] == ["start_run", "verify_run"]
    assert past.commits == []


def test_a_secret_that_a_record_names_is_read_only_if_the_playbook_names_it(past: World) -> None:
    past.environ["AWS_SECRET"] = "not for the target"
    past.records = [replace(RECORD, secrets=("AWS_SECRET",)), LATER]
    result = past.run("rollback")
    assert result.code == 65
    assert "AWS_SECRET" in result.err
    assert past.commits == []


def test_a_variable_that_the_old_run_had_not_need_not_be_set(past: World) -> None:
    del past.environ["WANDB_API_KEY"]
    past.records = [replace(RECORD, secrets=()), LATER]
    assert past.run("rollback").code == 0


def test_the_files_of_the_playbook_may_be_gone(past: World) -> None:
    (past.cwd / "playbooks" / "train.py").unlink()
    assert past.run("rollback").code == 0


def test_with_one_run_only_there_is_nothing_to_go_back_to(past: World) -> None:
    past.records = [RECORD]
    result = past.run("rollback")
    assert result.code == 2
    assert "no run before" in result.err
