"""The demo trainer: it learns, saves whole checkpoints, and goes on where it stopped."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

DEMO = Path(__file__).parents[2] / "playbooks" / "demo"
LINE = re.compile(
    r"step (\d+) \| epoch (\d+) \| loss (\d+\.\d{4}) \| (\d+\.\d\d) Ktok/s \| ETA (\d+)s"
)
pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def trainer() -> Iterator[Any]:
    """train.py as a module, its signal handlers undone afterwards."""
    spec = importlib.util.spec_from_file_location("demo_train", DEMO / "train.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    before = {name: os.environ.get(name) for name in os.environ}
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    spec.loader.exec_module(module)
    yield module
    for number, handler in handlers.items():
        signal.signal(number, handler)
    os.environ.clear()
    os.environ.update({name: value for name, value in before.items() if value is not None})


def start(out: Path, *options: str) -> subprocess.Popen[str]:
    words = [sys.executable, str(DEMO / "train.py"), "--out", str(out), *options]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def finish(out: Path, *options: str) -> tuple[int, list[str]]:
    process = start(out, *options)
    text, _ = process.communicate(timeout=60)
    return process.returncode, text.splitlines()


def interrupt_after_first_line(out: Path, number: signal.Signals) -> tuple[int, list[str]]:
    process = start(out, "--pace", "0.02")
    assert process.stdout
    first = process.stdout.readline()
    process.send_signal(number)
    # Not communicate(), which forgets what readline() has read beyond its line.
    text = process.stdout.read()
    return process.wait(timeout=60), [first.rstrip("\n"), *text.splitlines()]


def losses(lines: list[str]) -> dict[int, str]:
    matches = [match for line in lines if (match := LINE.fullmatch(line))]
    return {int(match[1]): match[3] for match in matches}


def checkpoints(out: Path) -> list[str]:
    return sorted(path.parent.name for path in out.glob("step-*/COMPLETE"))


def test_the_loss_falls_clearly(tmp_path: Path) -> None:
    code, lines = finish(tmp_path, "--pace", "0", "--steps", "150")
    loss = [float(value) for value in losses(lines).values()]
    assert code == 0
    assert loss[0] > 3
    assert loss[-1] < loss[0] / 3


def test_each_progress_line_has_step_epoch_loss_speed_and_time_left(tmp_path: Path) -> None:
    _, lines = finish(tmp_path, "--pace", "0", "--steps", "20", "--every", "1000")
    progress = [match for line in lines if (match := LINE.fullmatch(line))]
    assert [int(match[1]) for match in progress] == [5, 10, 15, 20]
    assert all(float(match[4]) > 0 for match in progress)
    assert progress[-1][5] == "0"


def test_lines_arrive_while_it_runs(tmp_path: Path) -> None:
    process = start(tmp_path, "--pace", "0.01")
    assert process.stdout
    try:
        assert LINE.fullmatch(process.stdout.readline().rstrip("\n"))
        assert process.poll() is None
    finally:
        process.kill()
        process.communicate()


def test_a_checkpoint_has_its_weights_its_state_and_the_mark(tmp_path: Path) -> None:
    finish(tmp_path, "--pace", "0", "--steps", "20", "--every", "10")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000010", "step-00000020"]
    newest = tmp_path / "step-00000020"
    assert {path.name for path in newest.iterdir()} == {"weights.npz", "state.json", "COMPLETE"}
    assert json.loads((newest / "state.json").read_text())["step"] == 20


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_int_and_term_save_and_exit_75(tmp_path: Path, number: signal.Signals) -> None:
    code, lines = interrupt_after_first_line(tmp_path, number)
    assert code == 75
    assert lines[-1] == "interrupted and saved"
    assert len(checkpoints(tmp_path)) == 1
    assert checkpoints(tmp_path)[0] >= "step-00000005"


def test_an_interrupted_and_resumed_run_learns_exactly_what_an_unbroken_one_does(
    tmp_path: Path,
) -> None:
    _, before = interrupt_after_first_line(tmp_path / "broken", signal.SIGINT)
    stopped_at = int(checkpoints(tmp_path / "broken")[0].removeprefix("step-"))
    steps = ("--pace", "0", "--steps", str(stopped_at + 150))
    code, after = finish(tmp_path / "broken", "--resume", "latest", *steps)
    _, unbroken = finish(tmp_path / "whole", *steps)
    assert code == 0
    assert after[0].startswith("resumed from ")
    assert min(losses(after)) > stopped_at
    assert losses(before) | losses(after) == losses(unbroken)


def test_resume_without_a_checkpoint_begins_at_the_beginning(tmp_path: Path) -> None:
    (tmp_path / "step-00000900").mkdir()
    code, lines = finish(tmp_path, "--pace", "0", "--steps", "5", "--resume", "latest")
    assert code == 0
    assert list(losses(lines)) == [5]


def test_a_save_cut_anywhere_leaves_only_whole_checkpoints(
    tmp_path: Path, trainer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    training = trainer.Training(seed=0)
    training.learn(trainer.sentences()[:4])
    training.save(tmp_path)
    calls, cut_at = 0, 0

    def count() -> None:
        nonlocal calls
        calls += 1
        if calls == cut_at:
            raise Killed

    def before(real: Any) -> Any:
        def cut_or_call(*words: Any, **options: Any) -> Any:
            count()
            return real(*words, **options)

        return cut_or_call

    monkeypatch.setattr(trainer.os, "fsync", before(os.fsync))
    for name in ("mkdir", "touch", "write_text", "rename"):
        monkeypatch.setattr(trainer.Path, name, before(getattr(Path, name)))
    monkeypatch.setattr(trainer.np, "savez", before(trainer.np.savez))
    training.learn(trainer.sentences()[:4])
    outcomes = []
    for cut_at in range(1, 20):  # noqa: B007 - read by count()
        calls = 0
        try:
            training.save(tmp_path)
        except Killed:
            found = trainer.latest(tmp_path)
            trainer.Training(seed=0).load(found)
            outcomes.append(found.name)
        else:
            break
    else:
        pytest.fail("the save was cut at every step of it")
    assert len(outcomes) >= 8
    assert set(outcomes[:-1]) == {"step-00000001"}
    assert outcomes[-1] == "step-00000002"
    assert checkpoints(tmp_path) == ["step-00000001", "step-00000002"]


def test_a_trainer_killed_outright_leaves_a_checkpoint_to_go_on_from(tmp_path: Path) -> None:
    process = start(tmp_path, "--pace", "0", "--every", "1", "--steps", "100000")
    assert process.stdout
    deadline = time.monotonic() + 60
    while len(checkpoints(tmp_path)) < 20:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.kill()
    process.communicate()
    newest = int(checkpoints(tmp_path)[-1].removeprefix("step-"))
    code, _ = finish(tmp_path, "--pace", "0", "--resume", "latest", "--steps", str(newest + 5))
    assert code == 0
    assert checkpoints(tmp_path)[-1] == f"step-{newest + 5:08d}"


def test_the_start_script_passes_its_words_on_and_becomes_the_trainer(tmp_path: Path) -> None:
    out = tmp_path / "check points"
    environment = {**os.environ, "PYTHON": sys.executable, "CHECKPOINTS": str(out)}
    words = ["bash", str(DEMO / "start_training.sh"), "--pace", "0.02"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 75
    assert len(checkpoints(out)) == 1


def write_buckets(folder: Path, **changes: Any) -> Path:
    settings = {"token_budget": 6000, "max_batch_size": 16, "ranks": 2, **changes}
    document = {"version": 1, "boundaries": [0, 120, 400, 2001], "settings": settings}
    (folder / "buckets.json").write_text(json.dumps(document))
    return folder / "buckets.json"


@pytest.fixture
def bucketed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a dataset whose boundaries the trainer finds."""
    np.save(tmp_path / "lengths.npy", np.arange(184) * 7919 % 2000 + 1)
    monkeypatch.setenv("DFLASH_BUCKETS", str(write_buckets(tmp_path)))
    monkeypatch.setenv("DATASET", str(tmp_path))
    return tmp_path


PADDED_LINE = re.compile(
    r"step (\d+) \| epoch (\d+) \| loss (\d+\.\d{4}) .* \| pad (0\.\d{4}) \| ETA .*"
)


def padded_losses(lines: list[str]) -> dict[int, str]:
    matches = [match for line in lines if (match := PADDED_LINE.fullmatch(line))]
    return {int(match[1]): match[3] for match in matches}


def test_with_boundaries_it_batches_by_them_and_says_what_share_is_no_padding(
    bucketed: Path,
) -> None:
    code, lines = finish(bucketed / "out", "--pace", "0", "--steps", "25", "--every", "9999")
    assert code == 0
    said = re.fullmatch(
        r"bucketed batches of 184 samples: 25 steps of 2 an epoch, padding efficiency (.*)",
        lines[0],
    )
    assert said
    measured = [match for line in lines if (match := PADDED_LINE.fullmatch(line))]
    assert measured[-1][4] == said[1]  # the whole epoch is over
    loss = [float(match[3]) for match in measured]
    assert loss[-1] < loss[0]


def test_with_boundaries_too_a_resumed_run_learns_exactly_what_an_unbroken_one_does(
    bucketed: Path,
) -> None:
    quick = ("--pace", "0", "--every", "9999")
    finish(bucketed / "broken", *quick, "--steps", "7")
    _, after = finish(bucketed / "broken", *quick, "--steps", "10", "--resume", "latest")
    _, unbroken = finish(bucketed / "whole", *quick, "--steps", "10")
    assert list(padded_losses(after)) == [10]
    assert padded_losses(after).items() <= padded_losses(unbroken).items()


def test_after_new_boundaries_the_epoch_begins_anew(bucketed: Path) -> None:
    finish(bucketed / "out", "--pace", "0", "--steps", "7")
    write_buckets(bucketed, window=64)
    _, lines = finish(bucketed / "out", "--pace", "0", "--steps", "10", "--resume", "latest")
    assert "the batches have changed: epoch 0 begins anew" in lines


def test_without_a_dataset_the_boundaries_are_for_its_own_sentences(
    bucketed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DATASET")
    code, lines = finish(bucketed / "out", "--pace", "0", "--steps", "5")
    assert code == 0
    assert lines[0].startswith("bucketed batches of 3000 samples: ")
    assert list(padded_losses(lines)) == [5]


def test_a_dataset_that_cannot_be_batched_is_refused(
    bucketed: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    np.save(bucketed / "lengths.npy", np.array([5, 0, 7]))
    code, _ = finish(bucketed / "out")
    assert code == 2
    assert "the batches cannot be made: 1 sample is of length zero" in capfd.readouterr().err
