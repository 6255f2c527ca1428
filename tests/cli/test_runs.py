from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from dflashctl.agent.watching import Attempt, RestartSeen
from tests.cli.world import World
from tests.plan.scenes import EARLIER, NEW, OLD, RECORD, RUNNING

LATER = replace(RECORD, run=RUNNING, files=(replace(RECORD.files[0], sha256=NEW), RECORD.files[1]))


@pytest.fixture
def past(world: World) -> World:
    world.records = [RECORD, LATER]
    world.blobs = {OLD: "print('old')\n", NEW: "print('\x1b[31mnew')\n"}
    return world


def answer(world: World, *words: str) -> dict[str, Any]:
    result = world.run(*words, "--json")
    assert result.code == 0, result.err
    (target,) = json.loads(result.out)["targets"].values()
    assert isinstance(target, dict)
    return target


def test_runs_alone_is_the_list_with_the_current_one_marked(past: World) -> None:
    result = past.run("runs")
    assert result.code == 0
    lines = result.out.splitlines()
    assert lines[0].split() == ["RUN", "STATE", "LASTED", "STEP", "RELEASE"]
    assert lines[1].startswith(EARLIER.id)
    assert lines[2].startswith(f"{RUNNING.id} *")
    assert past.run("runs", "list").out == result.out


@pytest.mark.parametrize("width", [64, 45, 34])
def test_in_a_narrow_window_columns_are_left_out_and_none_is_cut(past: World, width: int) -> None:
    past.environ["COLUMNS"] = str(width)
    out = past.run("runs").out
    assert max(map(len, out.splitlines())) <= width
    assert "…" not in out
    assert RUNNING.id in out


def test_without_runs_the_list_says_so(world: World) -> None:
    assert world.run("runs").out == "no run on record on here\n"
    assert world.run("runs", "show").code == 2


def test_a_run_shows_what_is_on_record(past: World) -> None:
    out = past.run("runs", "show", "previous").out
    for fact in (EARLIER.id, "8x NVIDIA H200", "torch 2.9.1", "WANDB_API_KEY (secret", "f" * 12):
        assert fact in out


def test_a_run_that_the_watchdog_made_tells_of_it_and_of_its_own_failure(past: World) -> None:
    attempt = Attempt(of=EARLIER.id, number=2, limit=3)
    then = RestartSeen(number=3, limit=3, due_at=0.0, came="started", why="r-9")
    past.records = [RECORD, replace(LATER, attempt=attempt, restart=then)]
    out = " ".join(past.run("runs", "show").out.split())
    assert f"attempt 2 of 3, since run {EARLIER.id} failed" in out
    assert "then attempt 3 of 3 made: run r-9" in out
    assert answer(past, "runs", "show")["attempt"]["number"] == 2


def test_a_diff_of_two_runs_shows_files_without_their_control_sequences(past: World) -> None:
    out = past.run("runs", "diff").out
    assert "-print('old')" in out
    assert "+print('new')" in out


@pytest.mark.provokes("unknown_run")
def test_an_unknown_run_is_a_mistake_that_says_how_one_is_named(past: World) -> None:
    result = past.run("runs", "show", "nope")
    assert result.code == 2
    assert "no run 'nope'" in result.err
    assert "dflashctl runs" in result.err


def test_options_before_the_noun_are_not_passed_over(past: World) -> None:
    result = past.run("runs", "-t", "here", "list")
    assert result.code == 2
    assert "after list" in result.err


def test_the_shapes_of_runs_are_as_documented(past: World) -> None:
    listed = answer(past, "runs")
    row = {
        "id", "state", "started_at", "ended_at", "elapsed_s", "exit_code", "exit_name", "signal",
        "oom", "stopped_by", "started_by", "release", "command", "metrics",
    }  # fmt: skip
    assert set(listed) == {"current", "runs", "error"}
    assert (listed["current"], set(listed["runs"][0])) == (RUNNING.id, row)
    assert set(answer(past, "runs", "show")) == row | {
        "version", "transaction", "repeats", "cwd", "user", "env_base", "env", "secrets",
        "exit_codes", "checkpoints", "resumed_from", "boundaries", "files", "source", "facts",
        "error", "attempt", "restart",
    }  # fmt: skip
    found = answer(past, "runs", "diff")
    assert set(found) == {"first", "second", "settings", "env", "boundaries", "files", "error"}
    assert set(found["files"][0]) == {"path", "change", "added", "removed", "diff"}
