from __future__ import annotations

import json
from dataclasses import replace

import pytest

from dflashctl.agent.protocol import LogEnd, LogText
from tests.cli.world import World
from tests.plan.scenes import BUSY, METRICS, RECORD, RUNNING

END = LogEnd(run_id=RUNNING.id, state="RUNNING")
ROWS = "".join(
    f'{{"t":{1_795_867_000 + 2 * n},"step":{n},"loss":{2.0 + 1 / (n + 1)},"tokens_per_s":25100}}\n'
    for n in range(100)
)


@pytest.fixture(autouse=True)
def printed(world: World) -> None:
    world.log = [LogText(text=ROWS[:333]), LogText(text=ROWS[333:]), END]


def test_the_last_rows_are_a_table(world: World) -> None:
    lines = world.run("metrics", "-n", "3").out.splitlines()
    assert lines[0].split() == ["time", "step", "loss", "tok/s"]
    assert lines[-1].split() == ["11-28", "11:59:58", "99", "2.01", "25.1", "K"]
    assert len(lines) == 4
    assert len(world.run("metrics").out.splitlines()) == 21
    asked = [(request.what, request.lines) for request in world.log_requests]
    assert asked == [("metrics", 3), ("metrics", 20)]


def test_rows_of_the_last_while(world: World) -> None:
    assert len(world.run("metrics", "--since", "10s").out.splitlines()) == 7


def test_csv_and_json_have_all_rows(world: World) -> None:
    assert len(world.run("metrics", "--csv").out.splitlines()) == 101
    value = json.loads(world.run("metrics", "--json", "--run", "r-1").out)["targets"]["here"]
    assert set(value) == {"run_id", "state", "points", "error"}
    assert len(value["points"]) == 100
    assert value["points"][0]["step"] == 0
    assert world.log_requests[-1].run_id == "r-1"


def test_curves_fit_the_terminal(world: World) -> None:
    world.environ["COLUMNS"] = "60"
    out = world.run("metrics", "--plot", "loss,throughput").out
    assert out.startswith("loss\n")
    assert "\ntokens_per_s\n" in out
    assert max(map(len, out.splitlines())) <= 60


def test_prometheus_gets_the_state_of_now(world: World) -> None:
    world.answers = [replace(BUSY, metrics=METRICS)]
    out = world.run("metrics", "--prometheus").out
    assert f'dflashctl_step{{target="here",job_name="dflash",run="{RUNNING.id}"}} 254\n' in out


def test_a_run_without_metrics_says_so(world: World) -> None:
    world.log = [END]
    result = world.run("metrics")
    assert (result.code, result.out) == (0, "")
    assert f"run {RUNNING.id} has printed no metrics" in result.err
    assert world.run("metrics", "--csv").out == "time\n"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--csv", "--json"], "do not go together"),
        (["--plot", "los"], "--plot knows step"),
        (["-n", "0"], "greater than or equal to 1"),
    ],
)
def test_options_that_make_no_sense_are_a_mistake(
    world: World, words: list[str], complaint: str
) -> None:
    result = world.run("metrics", *words)
    assert result.code == 2
    assert complaint in result.err


@pytest.fixture
def two_runs(world: World) -> None:
    world.records = [replace(RECORD, run=replace(RUNNING, id=name)) for name in ("r-1", "r-2")]


def test_two_runs_are_set_side_by_side(world: World, two_runs: None) -> None:
    out = world.run("compare", "r-1", "last").out
    assert out.startswith("A  r-1\nB  r-2\n")
    assert "loss A" in out
    assert "\nA loss\n" in out
    value = json.loads(world.run("compare", "r-1", "r-2", "--json").out)["targets"]["here"]
    assert (value["a"], value["b"], len(value["steps"])) == ("r-1", "r-2", 12)
    assert set(value["steps"][0]) == {
        "step", "a_loss", "b_loss", "a_tokens_per_s", "b_tokens_per_s", "a_seconds", "b_seconds",
    }  # fmt: skip
