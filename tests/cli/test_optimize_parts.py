"""optimize-buckets over several targets, each with a part of the dataset."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dflashctl.agent.optimizing import Optimize, Optimized
from dflashctl.buckets import plain
from dflashctl.errors import BadDataset, Unreachable
from dflashctl.playbook.boundaries import read_boundaries
from tests.cli.test_optimize_buckets import DRAWN, PLAYBOOK
from tests.cli.world import World

ROOT = Path(__file__).parents[2]
PARTS = {"kpro6/dflash": DRAWN[:500], "kpro6/eval": DRAWN[500:]}
DATA = "/workspace/data"
REFUSED = BadDataset(
    target="kpro6/eval", path=DATA, problem="not-found", text=f"there is no {DATA}"
)


@pytest.fixture
def spread(world: World) -> World:
    """A dataset of which two targets have a part each."""
    text = PLAYBOOK.format(path=DATA)
    (world.cwd / "playbooks" / "optimize-buckets.yml").write_text(text)
    for number, (target, lengths) in enumerate(PARTS.items()):
        has(world, target, lengths, f"print-{number}")
    return world


def has(world: World, target: str, lengths: Any, fingerprint: str = "") -> None:
    result = {"counted": plain.packed(Counter(np.asarray(lengths).tolist()))}
    world.optimized_on[target] = Optimized(result=result, dataset=fingerprint, task={})


def answer(world: World, *words: str) -> Any:
    result = world.run("optimize-buckets", "-t", "training", "--json", *words)
    assert result.code == 0, result.err
    return json.loads(result.out)


def test_the_counts_add_up_to_one_optimum(spread: World) -> None:
    whole = spread.cwd / "whole.npy"
    np.save(whole, DRAWN)
    told = answer(spread)
    limits = ("--token-budget", "8192", "--max-batch-size", "32")
    alone = json.loads(
        spread.run("optimize-buckets", "--where", "here", "--dataset", str(whole),
                   *limits, "--json").out
    )["targets"]["here"]  # fmt: skip
    assert {k: v for k, v in told["together"].items() if k not in {"dataset", "settings"}} == {
        k: v for k, v in alone.items() if k not in {"dataset", "settings"}
    }
    assert {**told["together"]["settings"], "ranks": 1} == alone["settings"]
    assert told["targets"]["kpro6/dflash"] == {
        "samples": 500, "tokens": int(DRAWN[:500].sum()), "shortest": 5, "longest": 1012,
        "fingerprint": "print-0", "error": None,
    }  # fmt: skip
    assert list(told["targets"]) == list(PARTS)


def test_each_is_asked_to_count_and_no_more(spread: World) -> None:
    answer(spread)
    requests = [one for one in spread.optimizing if isinstance(one, Optimize)]
    assert len(requests) == 2
    for request in requests:
        assert request.task["only_counts"]
        assert not request.task["needs_numpy"]
        assert request.dataset == DATA


def test_what_each_target_has_is_in_the_table(spread: World) -> None:
    spread.environ["COLUMNS"] = "80"
    lines = spread.run("optimize-buckets", "-t", "training").out.splitlines()
    assert lines[0].split() == ["TARGET", "SAMPLES", "TOKENS", "SHORTEST", "LONGEST"]
    assert lines[1].split()[:2] == ["kpro6/dflash", "500"]
    assert lines[2].split()[:2] == ["kpro6/eval", "329"]
    assert any("829 samples" in line for line in lines[3:])
    assert max(map(len, lines)) <= 80


def test_one_that_cannot_be_read_refuses_the_whole_and_is_named(spread: World) -> None:
    spread.optimized_on["kpro6/eval"] = REFUSED
    result = spread.run("optimize-buckets", "-t", "training", "--apply")
    assert result.code == 2
    assert f"the dataset {DATA} on kpro6/eval cannot be used" in result.err
    assert result.out == ""
    assert not (spread.cwd / "playbooks" / "buckets.json").exists()


def test_all_that_fail_are_told_and_the_gravest_counts(spread: World) -> None:
    spread.optimized_on["kpro6/eval"] = REFUSED
    spread.unreachable["kpro6/dflash"] = Unreachable(
        target="kpro6/dflash", address="192.0.2.6", reason="no route to host"
    )
    result = spread.run("optimize-buckets", "-t", "training", "--json")
    value = json.loads(result.out)
    assert (result.code, value["exit_code"], value["together"]) == (2, 2, None)
    codes = {name: one["error"]["code"] for name, one in value["targets"].items()}
    assert codes == {"kpro6/dflash": "unreachable", "kpro6/eval": "bad_dataset"}
    assert result.err.count("error:") == 2


def test_lengths_that_no_batch_can_have_name_their_target(spread: World) -> None:
    has(spread, "kpro6/eval", [5, 9000])
    result = spread.run("optimize-buckets", "-t", "training")
    assert result.code == 2
    words = " ".join(result.err.split())
    assert "on kpro6/eval cannot be used: 1 sample is above 8,192 tokens" in words


def test_a_target_with_nothing_adds_nothing(spread: World) -> None:
    has(spread, "kpro6/dflash", DRAWN)
    has(spread, "kpro6/eval", [])
    told = answer(spread)
    assert told["targets"]["kpro6/eval"]["samples"] == 0
    assert told["together"]["samples"] == DRAWN.size


def test_the_file_says_what_each_had_so_that_a_change_of_one_is_noticed(spread: World) -> None:
    told = answer(spread, "--apply")
    file = spread.cwd / "playbooks" / "buckets.json"
    assert told["together"]["written"] == str(file)
    made = read_boundaries(Path(file))
    assert made.dataset["target"] is None
    assert made.fingerprints == {"kpro6/dflash": "print-0", "kpro6/eval": "print-1"}


def test_real_agents_on_two_targets_read_their_parts(tmp_path: Path) -> None:
    """Two targets of this machine, that is: each reads all of it, and it counts twice."""
    hosts = "".join(f"  {n}: {{connection: local, state_dir: {tmp_path}/{n}}}\n" for n in "ab")
    (tmp_path / "hosts.yml").write_text(f"version: 1\nhosts:\n{hosts}")
    (tmp_path / "lengths.txt").write_text("".join(f"{length}\n" for length in DRAWN))
    words = (
        *("-i", "hosts.yml", "optimize-buckets", "--all", "--json", "--buckets", "3"),
        *("--dataset", str(tmp_path / "lengths.txt"), "--token-budget", "8192"),
        *("--max-batch-size", "32"),
    )
    done = subprocess.run(
        (sys.executable, "-m", "dflashctl", *words),
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert [one["samples"] for one in told["targets"].values()] == [DRAWN.size, DRAWN.size]
    assert told["together"]["samples"] == 2 * DRAWN.size
    assert told["together"]["dataset"]["parts"] == dict.fromkeys(
        "ab", told["targets"]["a"]["fingerprint"]
    )
