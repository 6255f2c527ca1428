"""optimize-buckets, as typed: a dataset of this machine, and one that an agent looks at."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dflashctl.agent.dataset import fingerprint
from dflashctl.agent.optimizing import Cancel, Detach, Fetch, Optimize, Optimized
from dflashctl.agent.seen import BucketsSeen, OptimizerSeen
from dflashctl.buckets import job
from dflashctl.errors import BadDataset, MissingModule, OptimizerAtWork
from dflashctl.playbook.boundaries import read_boundaries
from tests.cli.world import World
from tests.plan.scenes import BUSY, RUNNING

DOCUMENT = Path(__file__).parents[2] / "docs" / "json.md"
PLAYBOOK = """\
version: 1
name: dflash
dataset: {{path: {path}}}
batching: {{count: 3, token_budget: 8192, max_batch_size: 32, max_length: 2048}}
"""
LIMITS = ("--token-budget", "8192", "--max-batch-size", "32")
DRAWN = np.concatenate([np.arange(5, 300), np.full(200, 700), np.arange(1000, 2000, 3)])


@pytest.fixture
def data(world: World) -> Path:
    """A dataset of this machine, and the playbook that names it."""
    path = world.cwd / "lengths.npy"
    np.save(path, DRAWN)
    text = PLAYBOOK.format(path=path)
    (world.cwd / "playbooks" / "optimize-buckets.yml").write_text(text)
    return path


def answer(world: World, *words: str, target: str = "here") -> Any:
    result = world.run("optimize-buckets", "--json", *words)
    assert result.code == 0, result.err
    return json.loads(result.out)["targets"][target]


# --- on this machine ------------------------------------------------------------------


def test_boundaries_table_and_drawing_fit_into_80_columns(world: World, data: Path) -> None:
    world.environ["COLUMNS"] = "80"
    result = world.run(
        "optimize-buckets", "--compare", "--calibrate", "25.1@0.868", "--current", "0,300,2048"
    )
    assert result.code == 0, result.err
    lines = result.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert re.search(r"^boundaries +\[0, \d+, \d+, 2048\]$", result.out, re.MULTILINE)
    assert re.search(r"^in use now +\[0, 300, 2048\]$", result.out, re.MULTILINE)
    assert re.search(r"^in total +829 +100\.0% .*%$", result.out, re.MULTILINE)
    assert re.search(r"^gain, points .* \+\d", result.out, re.MULTILINE)
    assert sum("┴" in line for line in lines) == 1
    assert re.search(r"^buckets in use now .* \d+\.\d$", result.out, re.MULTILINE)
    assert "\x1b" not in result.out
    assert not world.optimizing, "no agent was needed"


def test_the_json_has_every_field_that_the_document_names(world: World, data: Path) -> None:
    told = answer(world, "--compare", "--calibrate", "25.1@86.8%")
    assert told["boundaries"][-1] == 2048
    assert told["dataset"] == {
        "target": "here", "path": str(data), "column": None,
        "fingerprint": fingerprint(str(data)), "parts": None,
    }  # fmt: skip
    assert (told["current"], told["written"], told["error"]) == (None, None, None)
    assert told["throughput"]["low_ktok_s"] > 0
    described = set(re.findall(r"`([a-z_0-9]+)`", DOCUMENT.read_text(encoding="utf-8")))
    named = {*told, *told["per_bucket"][0], *told["strategies"][0], *told["throughput"]}
    assert named <= described | {"shortest"}, named - described


def test_options_come_before_the_playbook(world: World, data: Path) -> None:
    told = answer(world, "--buckets", "2", "--align", "64", "--window", "16", "--order", "random")
    assert len(told["boundaries"]) == 3
    assert told["boundaries"][1] % 64 == 0
    assert told["settings"] == {
        "token_budget": 8192, "max_batch_size": 32, "strategy": "bucketed", "order": "random",
        "window": 16, "jitter": 0, "ranks": 1, "accumulation": 1, "seed": 0,
    }  # fmt: skip
    assert told["rules"] == {"count": 2, "align": 64, "max_length": 2048}


def test_what_is_applied_lies_beside_the_playbook_and_is_in_use_from_then_on(
    world: World, data: Path
) -> None:
    place = world.cwd / "playbooks" / "buckets.json"
    result = world.run("optimize-buckets", "--apply")
    assert result.code == 0, result.err
    assert str(place) in " ".join(result.err.split())
    made = read_boundaries(place)
    assert made.dataset["fingerprint"] == fingerprint(str(data))
    told = answer(world)
    assert told["current"]["boundaries"] == told["boundaries"] == list(made.boundaries)
    assert re.search(r"^gain +none$", world.run("optimize-buckets").out, re.MULTILINE)


@pytest.mark.usefixtures("data")
def test_what_a_measured_run_promises_goes_with_the_boundaries(world: World) -> None:
    place = world.cwd / "playbooks" / "buckets.json"
    assert world.run("optimize-buckets", "--apply").code == 0
    assert json.loads(place.read_text())["predicted_tokens_per_s"] is None
    told = answer(world, "--apply", "--calibrate", "25.1@0.5")
    promise = json.loads(place.read_text())["predicted_tokens_per_s"]
    assert promise == pytest.approx(1000 * told["throughput"]["low_ktok_s"], rel=1e-3)
    assert promise == pytest.approx(25_100 * told["expected_efficiency"] / 0.5, rel=1e-3)


def test_a_file_of_this_machine_needs_neither_inventory_nor_playbook(world: World) -> None:
    for folder in ("inventory", "playbooks"):
        for file in (world.cwd / folder).iterdir():
            file.unlink()
    np.savetxt(world.cwd / "lengths.txt", DRAWN, fmt="%d")
    few = world.run("optimize-buckets", "--where", "here", "--dataset", "lengths.txt")
    assert few.code == 2
    assert "it takes --dataset, --token-budget and --max-batch-size" in few.err
    told = answer(world, "--where", "here", "--dataset", "lengths.txt", *LIMITS, "--apply")
    assert told["samples"] == DRAWN.size
    assert (world.cwd / "buckets.json").exists()


@pytest.mark.provokes("bad_dataset")
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--dataset", "none.npy"), "there is no"),
        (("--column", "length", "--dataset", "a.csv"), "length"),
        (("--token-budget", "1500"), "167 samples are above 1,500 tokens (sample"),
        (("--buckets", "9", "--align", "1024"), "Change what was asked for"),
        (("--detach", "--fetch"), "one of them"),
        (("--detach", "--apply"), "--apply goes with --fetch"),
        (("--where", "here", "--fetch"), "is for a target"),
        (("--current", "770,1216"), "--current is 0 and ascending numbers"),
        (("--calibrate", "fast"), "--calibrate must be Ktok/s@efficiency"),
        (("-t", "dflash", "--dataset", "lengths.npy"), "--dataset is an absolute path on a target"),
        (("-t", "training", "--detach"), "optimize-buckets --detach works on one target at a time"),
        (("--all", "--fetch"), "optimize-buckets --fetch works on one target at a time"),
        (("--all", "--where", "target"), "--where target works on one target at a time"),
    ],
)
def test_what_cannot_be_done_as_typed_is_told(
    world: World, data: Path, words: tuple[str, ...], says: str
) -> None:
    (world.cwd / "a.csv").write_text("id,text\n1,x\n")
    result = world.run("optimize-buckets", *words)
    assert result.code == 2
    assert says in " ".join(result.err.split())
    assert result.out == ""


def test_a_playbook_that_says_too_little_is_told_what_is_missing(world: World) -> None:
    result = world.run("optimize-buckets")
    assert result.code == 2
    assert "optimize-buckets needs `dataset.path`" in result.err
    result = world.run("optimize-buckets", "--dataset", "x.npy")
    assert "optimize-buckets needs `batching.token_budget`" in result.err


# --- on a target ----------------------------------------------------------------------


def found(world: World, **result: Any) -> None:
    """Let the agent find what this process would, or what was counted."""
    world.optimized = Optimized(result=result, dataset="0123", task=task(world))


def task(world: World) -> dict[str, Any]:
    """The task that the playbook makes."""
    world.run("optimize-buckets", "-t", "dflash", "--detach")
    request = world.optimizing.pop()
    assert isinstance(request, Detach)
    return {**request.task, "needs_numpy": False}


def test_an_agent_is_asked_with_the_settings_and_the_interpreter(world: World, data: Path) -> None:
    path = world.cwd / "playbooks" / "optimize-buckets.yml"
    path.write_text(path.read_text().replace("npy}", "npy, python: /venv/bin/python}"))
    report = job.run(task(world), lambda _, __: None)["report"]
    found(world, report=report)
    told = answer(world, "-t", "dflash", target="kpro6/dflash")
    assert told["boundaries"] == report["boundaries"]
    assert told["dataset"]["fingerprint"] == "0123"
    (request,) = world.optimizing
    assert isinstance(request, Optimize)
    assert (request.job, request.python) == ("dflash", "/venv/bin/python")
    assert request.dataset == request.task["path"] == str(data)
    assert request.task["settings"]["ranks"] == 8, "the target's GPUs"
    assert request.task["needs_numpy"] is False
    answer(world, "-t", "dflash", "--where", "target", target="kpro6/dflash")
    assert world.optimizing[-1].task["needs_numpy"] is True  # type: ignore[union-attr] # an Optimize


def test_counted_lengths_are_optimised_here(world: World, data: Path) -> None:
    from dflashctl.buckets import plain

    counted = plain.count(task(world), lambda _, __: None)
    found(world, counted=plain.packed(counted))
    told = answer(world, "-t", "dflash", target="kpro6/dflash")
    assert told["boundaries"] == answer(world)["boundaries"]


def test_a_detached_one_is_started_and_fetched(world: World, data: Path) -> None:
    result = world.run("optimize-buckets", "-t", "dflash", "--detach")
    assert result.code == 0
    assert "optimize-buckets --fetch -t kpro6/dflash" in result.out
    (request,) = world.optimizing
    assert isinstance(request, Detach)
    assert request.session == "dflash-buckets"
    found(world, report=job.run(task(world), lambda _, __: None)["report"])
    answer(world, "-t", "dflash", "--fetch", target="kpro6/dflash")
    assert world.optimizing[-1] == Fetch(job="dflash")
    result = world.run("optimize-buckets", "-t", "dflash", "--cancel")
    assert "ended        tmux session dflash-buckets" in result.out
    *_, cancelled = world.optimizing
    assert cancelled == Cancel(job="dflash", tmux_socket=None)
    for words in (
        ("--fetch", "--buckets", "4"),
        ("--cancel", "--compare"),
        ("--detach", "--cancel"),
    ):
        assert world.run("optimize-buckets", "-t", "dflash", *words).code == 2


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (BadDataset(target="h", path="/d", problem="no-column", text="no length"), 2, "--column"),
        (MissingModule(target="h", python="/v/python", module="pyarrow", needed="/d"), 78,
         "/v/python -m pip install pyarrow"),
        (OptimizerAtWork(target="h", session="dflash-buckets"), 75, "--fetch"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)  # fmt: skip
def test_what_goes_wrong_there_is_told_with_what_to_do(
    world: World, data: Path, error: BaseException, code: int, says: str
) -> None:
    world.optimized = error
    result = world.run("optimize-buckets", "-t", "dflash")
    assert result.code == code
    assert says in " ".join(result.err.split())


def test_on_a_narrow_terminal_the_drawing_has_fewer_columns(world: World, data: Path) -> None:
    world.environ["COLUMNS"] = "50"
    lines = world.run("optimize-buckets").out.splitlines()
    assert max(map(len, lines)) <= 50
    (ground,) = (line for line in lines if "┴" in line)
    assert len(ground) > 25
    assert ground.count("┴") == 2


# --- what status says of it -----------------------------------------------------------


AT_WORK = OptimizerSeen(
    state="working",
    session="dflash-buckets",
    started_at=1_795_860_000.0,
    ended_at=None,
    stage="proving",
    share=0.25,
    error=None,
)


@pytest.mark.parametrize(
    ("seen", "says"),
    [
        (AT_WORK, "at work in tmux session dflash-buckets: proving 25%"),
        (
            replace(AT_WORK, state="done", ended_at=1_795_860_060.0),
            "done at .*; optimize-buckets --fetch",
        ),
        (replace(AT_WORK, state="failed", ended_at=1_795_860_060.0), "--fetch tells why"),
    ],
)
def test_status_shows_a_detached_one(world: World, seen: OptimizerSeen, says: str) -> None:
    world.answers = [replace(BUSY, optimizer=seen)]
    assert re.search(f"^optimizer .*{says}$", world.run("status", "-t", "dflash").out, re.MULTILINE)
    (told,) = json.loads(world.run("status", "--json").out)["targets"].values()
    assert told["optimizer"]["state"] == seen.state
    assert told["optimizer"]["started_at"] == "2026-11-28T10:00:00Z"


def test_status_names_the_buckets_of_the_run(world: World) -> None:
    buckets = BucketsSeen(
        path="/x/buckets.json",
        sha256="0123456789ab",
        boundaries=(0, 1000, 8192),
        expected_efficiency=0.8781,
    )
    world.answers = [replace(BUSY, run=replace(RUNNING, buckets=buckets))]
    assert "0123456789ab, 2 buckets, 87.81% expected" in world.run("status").out
    (told,) = json.loads(world.run("status", "--json").out)["targets"].values()
    assert told["buckets"] == {
        "path": "/x/buckets.json", "sha256": "0123456789ab", "boundaries": [0, 1000, 8192],
        "expected_efficiency": 0.8781, "predicted_tokens_per_s": None,
    }  # fmt: skip
