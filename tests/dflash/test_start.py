"""start_training.sh: processes that end together, signals that are heard, telling exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from .conftest import DFLASH, ROOT, Trainer, until

pytest.importorskip("torch", reason="torch is not here: make torch-venv")
checkpoints: Any = pytest.importorskip("dflash_checkpoints")


def start(trainer: Trainer, *words: str, processes: int = 1) -> subprocess.Popen[str]:
    trainer.words()
    environment = {
        **os.environ,
        "PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "CONFIG": str(trainer.folder / "config.json"),
        "PROCESSES": str(processes),
        "TMPDIR": str(trainer.folder),
    }
    environment.pop("DFLASH_BUCKETS", None)
    return subprocess.Popen(
        ["bash", str(DFLASH / "start_training.sh"), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        start_new_session=True,
    )


def of_the_run(trainer: Trainer) -> dict[int, str]:
    """The processes of a run by what they say in their environment: pid and command line."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"CONFIG={trainer.folder}".encode() in (process / "environ").read_bytes():
                state = (process / "stat").read_text().rpartition(")")[2].split()[0]
                words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                if state != "Z":
                    found[int(process.name)] = words
    return found


def assert_nothing_is_left(trainer: Trainer) -> None:
    until(lambda: not of_the_run(trainer), 10)
    assert not list(trainer.folder.glob("tmp.*")), "its own folder is gone"


def told(process: subprocess.Popen[str]) -> tuple[int, str]:
    output, _ = process.communicate(timeout=60)
    return process.returncode, output


@pytest.mark.parametrize(
    ("number", "whom", "processes"),
    [(signal.SIGINT, "group", 2), (signal.SIGTERM, "script", 1)],
)
def test_a_signal_to_the_script_or_its_group_saves_and_exits_75(
    trainer: Trainer, number: signal.Signals, whom: str, processes: int
) -> None:
    process = start(trainer, processes=processes)
    until(lambda: len(trainer.events("step")) > 2)
    if whom == "group":
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    begun = time.monotonic()
    code, output = told(process)
    assert code == 75, output
    assert time.monotonic() - begun < 20
    last = trainer.events("step")[-1]["step"]
    assert checkpoints.load(checkpoints.newest(trainer.out)).state["step"] == last
    assert_nothing_is_left(trainer)


def test_a_whole_run_exits_0_and_then_a_refusal_78(trainer: Trainer) -> None:
    trainer.config["epochs"] = 1
    code, output = told(start(trainer, processes=2))
    assert code == 0, output
    assert "loss" in output
    trainer.config["epochz"] = 1
    code, output = told(start(trainer, processes=2))
    assert code == 78, output
    assert output.count("unknown: epochz") == 1
    assert_nothing_is_left(trainer)


def test_when_torchrun_is_killed_its_workers_are_gone_with_it(trainer: Trainer) -> None:
    process = start(trainer, processes=2)
    until(lambda: trainer.events("step"))
    (torchrun,) = [pid for pid, words in of_the_run(trainer).items() if "distributed.run" in words]
    os.kill(torchrun, signal.SIGKILL)
    code, _ = told(process)
    assert code not in (0, 75, 78)
    assert_nothing_is_left(trainer)


def test_when_the_script_is_killed_what_it_started_saves_and_ends(trainer: Trainer) -> None:
    process = start(trainer)
    until(lambda: len(trainer.events("step")) > 2)
    process.kill()
    process.communicate(timeout=60)
    until(lambda: not of_the_run(trainer), 30)
    last = trainer.events("step")[-1]["step"]
    assert checkpoints.load(checkpoints.newest(trainer.out)).state["step"] == last


def test_the_real_runs_configuration_is_understood() -> None:
    pipeline: Any = pytest.importorskip("train_dflash_pipeline")
    config = pipeline.Config.read(DFLASH / "config.json", {})
    settings = config.settings(8)
    assert (settings.token_budget, settings.max_batch_size, settings.ranks) == (49152, 64, 8)
    assert settings.boundaries[-1] == 8192
    assert config.epochs == 6
    assert json.loads((DFLASH / "config.json").read_text())["drafter"]["block"] == 16
