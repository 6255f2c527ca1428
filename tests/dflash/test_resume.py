"""A resumed run is the one that would have been, or it is refused."""

from __future__ import annotations

import json
import os
import signal
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .conftest import Trainer, ended, until

pytest.importorskip("torch", reason="torch is not here: make torch-venv")
checkpoints: Any = pytest.importorskip("dflash_checkpoints")


def sha_of_weights(out: Path) -> str:
    folder = checkpoints.newest(out)
    mark = json.loads((folder / "COMPLETE").read_text())
    return f"{folder.name} {mark['drafter.safetensors']['sha256']}"


@pytest.mark.parametrize("ranks", [1, 2])
def test_stopped_and_resumed_it_learns_bit_by_bit_what_an_unbroken_run_does(
    trainer: Trainer, other: Trainer, ranks: int
) -> None:
    assert trainer.run("--stop-after-step", "14", ranks=ranks) == 75
    assert trainer.run("--resume", "latest", "--stop-after-step", "22", ranks=ranks) == 75
    assert other.run("--stop-after-step", "22", ranks=ranks) == 75
    assert len(trainer.losses()) == 22
    assert trainer.losses() == other.losses()
    assert sha_of_weights(trainer.out) == sha_of_weights(other.out)
    (resumed,) = trainer.events("resume")
    assert resumed["step"] == 14


def test_killed_it_goes_on_from_the_last_checkpoint_and_learns_the_same(
    trainer: Trainer, other: Trainer
) -> None:
    trainer.config["save_every"] = other.config["save_every"] = 9
    (process,) = trainer.start()
    until(lambda: len(trainer.events("step")) >= 13)
    assert process.pid
    os.kill(process.pid, signal.SIGKILL)
    assert ended(process) == -signal.SIGKILL
    first = trainer.losses()
    assert trainer.run("--resume", "latest", "--stop-after-step", "40") == 75
    assert other.run("--stop-after-step", "40") == 75
    assert trainer.events("resume")[0]["step"] % 9 == 0
    assert first.items() <= other.losses().items()
    assert trainer.losses() == other.losses()
    assert sha_of_weights(trainer.out) == sha_of_weights(other.out)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_one_rank_stops_both_after_the_same_step(
    trainer: Trainer, number: signal.Signals
) -> None:
    processes = trainer.start(ranks=2)
    until(lambda: trainer.events("step"))
    assert processes[1].pid
    os.kill(processes[1].pid, number)
    assert [ended(process) for process in processes] == [75, 75]
    last = trainer.events("step")[-1]["step"]
    assert checkpoints.load(checkpoints.newest(trainer.out)).state["step"] == last


@pytest.fixture
def stopped(trainer: Trainer) -> Trainer:
    """After 5 steps."""
    assert trainer.run("--stop-after-step", "5") == 75
    return trainer


def test_changed_batches_are_refused_by_the_name_of_what_changed(stopped: Trainer) -> None:
    stopped.config["batching"]["boundaries"] = [0, 100, 520]
    stopped.config["batching"]["accumulation"] = 2
    assert stopped.run("--resume", "latest") == 78
    assert "boundaries (was [0, 40, 64, 96, 150, 240, 520], is [0, 100, 520])" in stopped.log()
    assert "accumulation (was 1, is 2)" in stopped.log()
    assert "remaining" in stopped.log()
    assert "next-epoch" in stopped.log()
    assert len(stopped.losses()) == 5


def test_another_number_of_ranks_is_refused(stopped: Trainer) -> None:
    assert stopped.run("--resume", "latest", ranks=2) == 78
    assert "ranks (was 1, is 2)" in stopped.log()


def test_remaining_takes_what_the_epoch_has_not_seen_in_new_batches(
    stopped: Trainer, data: Path
) -> None:
    lengths = np.load(data / "lengths.npy")
    stopped.config["batching"]["boundaries"] = [0, 100, 520]
    on = ("--resume", "latest", "--on-batching-change", "remaining")
    assert stopped.run(*on, "--stop-after-step", "8") == 75
    # What such a resume saved is resumed as any other.
    stopped.config["epochs"] = 1
    assert stopped.run("--resume", "latest") == 0
    assert [told["batches"] for told in stopped.events("resume")] == ["remaining", "as it was"]
    # Each sample once, or it is another number.
    assert sum(told["tokens"] for told in stopped.events("step")) == lengths.sum()


def test_next_epoch_leaves_the_rest_of_this_one_out(stopped: Trainer, data: Path) -> None:
    stopped.config |= {"strategy": "shuffle", "epochs": 2}
    assert stopped.run("--resume", "latest", "--on-batching-change", "next-epoch") == 0
    assert {told["epoch"] for told in stopped.events("step")[5:]} == {1}
    tokens = sum(told["tokens"] for told in stopped.events("step")[5:])
    assert tokens == np.load(data / "lengths.npy").sum()


def test_new_batches_do_not_make_the_learning_rate_jump(stopped: Trainer) -> None:
    stopped.config["batching"] |= {"max_batch_size": 4}
    on = ("--resume", "latest", "--on-batching-change", "remaining")
    assert stopped.run(*on, "--stop-after-step", "8") == 75
    rates = [told["learning_rate"] for told in stopped.events("step")[3:]]
    assert all(0 < two - one < 0.1 * 4e-3 for one, two in pairwise(rates)), "it warms up evenly"


def test_a_folder_with_checkpoints_is_not_begun_anew(stopped: Trainer) -> None:
    assert stopped.run() == 78
    assert "--resume latest, or clear it" in stopped.log()


def test_a_drafter_of_another_shape_is_refused(stopped: Trainer) -> None:
    stopped.config["drafter"]["layers"] = 2
    assert stopped.run("--resume", "latest") == 78
    assert "another shape" in stopped.log()


def test_a_damaged_checkpoint_is_refused(stopped: Trainer) -> None:
    (stopped.out / "step-00000005" / "training.pt").write_bytes(b"")
    assert stopped.run("--resume", "latest") == 78
    assert "training.pt is not what was saved" in stopped.log()


def test_two_trainers_do_not_save_in_one_folder(trainer: Trainer) -> None:
    (process,) = trainer.start()
    until(lambda: trainer.events("step"))
    assert trainer.run("--resume", "latest") == 78
    assert "another trainer saves" in trainer.log()
    assert process.pid
    os.kill(process.pid, signal.SIGTERM)
    assert ended(process) == 75


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"learning_rat": 1}, "unknown: learning_rat"),
        ({"drafter": {"layer": 1}}, "layer"),
        ({"target": {"hidden": 32, "layers": 5, "seed": 0, "odd": 1}}, "odd"),
        ({"batching": {"token_budget": 9, "max_batch_size": 1, "odd": 1}}, "unknown settings: odd"),
        ({"strategy": "random"}, "strategy"),
        ({"batching": {"token_budget": 9, "max_batch_size": 1}}, "boundaries"),
        ({"data": "/nowhere"}, "/nowhere"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    trainer: Trainer, change: dict[str, Any], words: str
) -> None:
    trainer.config |= change
    assert trainer.run() == 78
    assert words in trainer.log()


def test_the_boundaries_of_a_file_come_before_the_configurations(trainer: Trainer) -> None:
    buckets = trainer.folder / "buckets.json"
    settings = {"token_budget": 900, "max_batch_size": 5, "window": 8}
    buckets.write_text(json.dumps({"version": 1, "boundaries": [0, 99, 520], "settings": settings}))
    trainer.environment["DFLASH_BUCKETS"] = str(buckets)
    assert trainer.run("--stop-after-step", "2") == 75
    plan = checkpoints.load(checkpoints.newest(trainer.out)).state["plan"]
    assert (plan["token_budget"], plan["window"], plan["boundaries"]) == (900, 8, [0, 99, 520])


def test_without_room_for_a_checkpoint_it_trains_on_and_says_so(
    trainer: Trainer, monkeypatch: pytest.MonkeyPatch, as_in_a_test: None
) -> None:
    pipeline: Any = pytest.importorskip("train_dflash_pipeline")
    usage = checkpoints.shutil.disk_usage(trainer.folder)
    free = iter([9, 9, 1 << 40])
    monkeypatch.setattr(checkpoints.shutil, "disk_usage", lambda _: usage._replace(free=next(free)))
    trainer.config["save_every"] = 2
    assert pipeline.main(trainer.words("--stop-after-step", "5")) == 75
    assert [told["step"] for told in trainer.events("checkpoint_failed")] == [2, 4]
    assert [told["step"] for told in trainer.events("checkpoint")] == [5]


def test_a_gradient_that_is_no_number_is_left_out_and_told(
    trainer: Trainer, monkeypatch: pytest.MonkeyPatch, as_in_a_test: None
) -> None:
    pipeline: Any = pytest.importorskip("train_dflash_pipeline")
    whole = pipeline.draft_loss

    def broken_once(*words: Any, **options: Any) -> Any:
        monkeypatch.setattr(pipeline, "draft_loss", whole)
        sums = whole(*words, **options)
        return sums._replace(loss=sums.loss * float("nan"), counts=sums.counts * float("nan"))

    monkeypatch.setattr(pipeline, "draft_loss", broken_once)
    assert pipeline.main(trainer.words("--stop-after-step", "3")) == 75
    told = trainer.events("step")
    assert [one["skipped"] for one in told] == [True, False, False]
    assert (told[0]["loss"], told[0]["grad_norm"]) == ("nan", "nan")
    assert told[2]["loss"] > 0
