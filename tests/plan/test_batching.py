"""What the optimiser is asked for, and when what it found is stale."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from dflashctl.agent.protocol import FileWanted, PlaceFiles, StartRun
from dflashctl.agent.recorded import FileKept
from dflashctl.agent.seen import BucketsSeen, FileSeen
from dflashctl.errors import MissingSetting
from dflashctl.plan.batching import task_for
from dflashctl.plan.deploy import plan_deploy
from dflashctl.plan.look import look_before_start
from dflashctl.plan.model import Desired
from dflashctl.plan.rollback import as_it_was, plan_rollback
from dflashctl.plan.start import plan_start
from dflashctl.playbook.boundaries import BucketsFile
from dflashctl.playbook.model import BatchingSpec, DatasetSpec
from tests.plan.scenes import (
    BARE,
    DEPLOYED,
    DESIRED,
    FAILED,
    RECORD,
    SCRIPT,
    SEVENTEEN,
    TRAIN,
    action,
    actions,
    codes,
    placed,
)

DATASET = DatasetSpec(path="/data/lengths.npy")
BATCHING = BatchingSpec(token_budget=49152, max_batch_size=64, max_length=8192)
ASKED = task_for(DATASET, BATCHING, Path("deploy.yml"), 8)
MADE = BucketsFile(
    path=Path("buckets.json"),
    sha256="d" * 64,
    boundaries=(0, 1000, 8192),
    settings=ASKED["settings"] | {"strategy": "bucketed", "jitter": 0},
    rules={"count": 6, "align": 1, "max_length": 8192},
    expected_efficiency=0.8781,
    dataset={
        "target": "kpro6/dflash", "path": "/data/lengths.npy", "column": None,
        "fingerprint": "then",
    },
)  # fmt: skip
OURS = (
    FileWanted(dest="ab12/buckets.json", sha256="e" * 64, size=900, mode=0o644),
    FileWanted(dest="ab12/dflashctl/buckets/batching.py", sha256="f" * 64, size=9000, mode=0o644),
)
LIBRARY = "/root/.local/state/dflashctl/lib"


def desired(**changes: Any) -> Desired:
    playbook = replace(DESIRED.playbook, dataset=DATASET, batching=BATCHING)
    return replace(
        DESIRED,
        playbook=replace(playbook, **changes),
        files=(TRAIN, SCRIPT, *OURS),
        boundaries=MADE,
    )


def there(file: FileWanted, **changes: Any) -> FileSeen:
    return placed(file, real_dest=f"{LIBRARY}/{file.dest}", **changes)


NEW = replace(
    BARE,
    dataset="then",
    files=(*BARE.files, *(there(f, sha256=None, mode=None, stored=False) for f in OURS)),
)
THERE = replace(DEPLOYED, dataset="then", files=(*DEPLOYED.files, *map(there, OURS)))


def notes(wanted: Desired, dataset: str | None = "then") -> list[str]:
    seen = replace(THERE, dataset=dataset)
    plan = plan_deploy(wanted, seen, restart=False, clear=False, wait=True)
    return [note for note in plan.notes if "stale" in note]


def test_the_ranks_are_the_targets_gpus_unless_said() -> None:
    assert ASKED["settings"]["ranks"] == 8
    assert task_for(DATASET, BATCHING, Path("x"), None)["settings"]["ranks"] == 1
    said = replace(BATCHING, ranks=4)
    assert task_for(DATASET, said, Path("x"), 8)["settings"]["ranks"] == 4


@pytest.mark.parametrize(
    ("batching", "name"),
    [
        (replace(BATCHING, token_budget=None), "token_budget"),
        (replace(BATCHING, max_batch_size=None), "max_batch_size"),
    ],
)
def test_the_limits_of_a_batch_must_be_said(batching: BatchingSpec, name: str) -> None:
    with pytest.raises(MissingSetting) as caught:
        task_for(DATASET, batching, Path("x"), None)
    assert caught.value.setting == f"batching.{name}"


def test_the_boundaries_and_their_reader_are_one_step_and_a_variable() -> None:
    plan = plan_deploy(desired(), NEW, restart=False, clear=False, wait=True)
    assert actions(plan) == ["Receive", "PlaceFiles", "PlaceFiles", "StartRun", "VerifyRun"]
    assert plan.steps[2].what == (
        "put 2 buckets (87.81% expected, dddddddddddd) in place, and what reads them"
    )
    start: StartRun = action(plan, StartRun)
    assert start.env["DFLASH_BUCKETS"] == f"{LIBRARY}/ab12/buckets.json"
    assert start.release == (TRAIN, SCRIPT, *OURS)
    assert [diff.path for diff in plan.diffs] == [TRAIN.dest, SCRIPT.dest]


def test_what_is_there_already_is_not_put_there_again() -> None:
    plan = plan_deploy(desired(), THERE, restart=False, clear=False, wait=True)
    assert actions(plan) == ["StartRun", "VerifyRun"]
    assert plan_start(desired(), THERE, wait=True).steps[0].action == plan.steps[0].action


def test_a_start_without_the_boundaries_there_is_refused_by_their_name() -> None:
    plan = plan_start(desired(), NEW, wait=True)
    assert codes(plan) == ["not_deployed"]
    assert "buckets.json: not on the target yet" in plan.refusals[0].message


def test_boundaries_that_fit_need_no_remark() -> None:
    assert notes(desired()) == []
    assert notes(desired(dataset=None, batching=None)) == []


def test_other_settings_make_them_stale_each_by_its_name() -> None:
    (note,) = notes(desired(batching=replace(BATCHING, token_budget=65536, count=8)))
    assert "made with other settings: count 6, now 8, token_budget 49152, now 65536" in note
    assert "optimize-buckets --apply" in note


def test_other_data_make_them_stale() -> None:
    assert "its dataset /data/lengths.npy has changed since" in notes(desired(), "now")[0]
    assert "is not there any more" in notes(desired(), None)[0]
    (note,) = notes(desired(dataset=DatasetSpec(path="/data/new.npy")))
    assert "made for /data/lengths.npy, not /data/new.npy" in note
    (note,) = notes(desired(dataset=replace(DATASET, column="tokens")))
    assert "made with no column named, now column tokens" in note


def test_data_of_another_machine_are_not_looked_for_here() -> None:
    elsewhere = replace(MADE, dataset={**MADE.dataset, "target": "kpro7/dflash"})
    wanted = replace(desired(), boundaries=elsewhere)
    assert look_before_start(desired()).dataset == "/data/lengths.npy"
    assert look_before_start(wanted).dataset is None
    assert notes(wanted, None) == []


def test_data_of_several_machines_are_looked_at_on_each_of_them() -> None:
    spread = {**MADE.dataset, "target": None, "fingerprint": None}
    name = DESIRED.target.name
    parts = replace(MADE, dataset={**spread, "parts": {name: "then", "kpro7/dflash": "else"}})
    wanted = replace(desired(), boundaries=parts)
    assert look_before_start(wanted).dataset == "/data/lengths.npy"
    assert notes(wanted, "then") == []
    assert "has changed since" in notes(wanted, "else")[0]
    elsewhere = replace(MADE, dataset={**spread, "parts": {"kpro7/dflash": "else"}})
    assert look_before_start(replace(desired(), boundaries=elsewhere)).dataset is None


def test_a_rollback_brings_the_boundaries_of_the_old_run_back() -> None:
    files = (*RECORD.files, *(FileKept(**asdict(file), kept=True) for file in OURS))
    env = {**RECORD.run.env, "DFLASH_BUCKETS": "/elsewhere/lib/ab12/buckets.json"}
    record = replace(RECORD, files=files, run=replace(RECORD.run, env=env))
    wanted = as_it_was(DESIRED, record)
    before = tuple(placed(f) for f in wanted.files if f.dest.startswith("/"))
    seen = replace(BARE, files=(*before, *(there(f, sha256=None, mode=None) for f in OURS)))
    plan = plan_rollback(wanted, seen, record, wait=True)
    assert plan.refusals == ()
    assert action(plan, PlaceFiles).files == OURS
    start: StartRun = action(plan, StartRun)
    assert start.env["DFLASH_BUCKETS"] == f"{LIBRARY}/ab12/buckets.json"


AGAIN = ("bash", "/root/start.sh", "--resume", "latest")
IN_NEW_BATCHES = (*AGAIN, "--on-batching-change", "remaining")


def resumed(
    with_buckets: str | None, *, new: tuple[str, ...] | None, clear: bool = False
) -> tuple[tuple[str, ...], str]:
    """How the next run starts when the last one had the buckets of this hash; the note on it."""
    wanted = desired()
    assert wanted.playbook.run
    run = replace(wanted.playbook.run, resume=AGAIN, resume_new_buckets=new)
    wanted = replace(wanted, playbook=replace(wanted.playbook, run=run))
    had = with_buckets and BucketsSeen(
        path="/b", sha256=with_buckets, boundaries=(0, 9), expected_efficiency=None
    )
    seen = replace(THERE, run=replace(FAILED, buckets=had or None), checkpoints=SEVENTEEN)
    plan = plan_deploy(wanted, seen, restart=True, clear=clear, wait=True)
    return action(plan, StartRun).command, " ".join(plan.notes)


def test_with_the_buckets_of_before_a_run_goes_on_as_ever() -> None:
    command, note = resumed("d" * 12, new=IN_NEW_BATCHES)
    assert command == AGAIN
    assert "other buckets" not in note


@pytest.mark.parametrize("before", ["a" * 12, None])
def test_with_other_buckets_it_goes_on_as_the_playbook_says_for_that(before: str | None) -> None:
    command, note = resumed(before, new=IN_NEW_BATCHES)
    assert command == IN_NEW_BATCHES
    assert "--on-batching-change remaining" in note
    assert "--clear-checkpoints starts anew" in note


def test_with_other_buckets_and_nothing_said_for_that_the_plan_warns_of_a_refusal() -> None:
    command, note = resumed("a" * 12, new=None)
    assert command == AGAIN
    assert "may refuse" in note


def test_other_buckets_are_nothing_to_a_fresh_start() -> None:
    command, note = resumed("a" * 12, new=IN_NEW_BATCHES, clear=True)
    assert command == ("bash", "/root/start.sh")
    assert "other buckets" not in note
