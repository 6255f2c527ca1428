"""The stand-in for nvidia-smi answers one question, and fails and hangs when told."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.lab.machine import Here
from tests.lab.stand_in import Behaviour, answering, failing, hanging, put_nvidia_smi

FIELDS = "index,name,utilization.gpu,memory.used,memory.total,temperature.gpu,power.draw"
QUESTION = (f"--query-gpu={FIELDS}", "--format=csv,noheader,nounits")


def ask(folder: Path, behaviour: Behaviour, *words: str) -> subprocess.CompletedProcess[str]:
    put_nvidia_smi(Here(home=folder), str(folder), behaviour, sys.executable)
    return subprocess.run(
        [folder / "nvidia-smi", *(words or QUESTION)],
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )


def test_it_answers_one_line_a_gpu(tmp_path: Path) -> None:
    done = ask(tmp_path, answering(8))
    lines = done.stdout.splitlines()
    assert done.returncode == 0
    assert len(lines) == 8
    assert lines[3] == "3, NVIDIA H100 80GB HBM3, 93, 61443, 81559, 58, 615.50"


def test_fields_come_in_the_order_they_were_asked_for(tmp_path: Path) -> None:
    done = ask(tmp_path, answering(1), "--format=csv,noheader,nounits", "--query-gpu=name,index")
    assert done.stdout == "NVIDIA H100 80GB HBM3, 0\n"


def test_a_figure_may_be_unknown(tmp_path: Path) -> None:
    done = ask(tmp_path, answering(1, power_draw="[N/A]"))
    assert done.stdout.endswith(", 55, [N/A]\n")


@pytest.mark.parametrize(
    "words",
    [
        ("-L",),
        ("--query-gpu=index",),
        ("--query-gpu=index", "--format=csv"),
        ("--query-gpu=index,colour", "--format=csv,noheader,nounits"),
        ("--query-compute-apps=pid", "--format=csv,noheader,nounits"),
        (*QUESTION, "--loop=1"),
    ],
)
def test_another_question_is_refused(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = ask(tmp_path, answering(8), *words)
    assert done.returncode == 2
    assert not done.stdout


def test_it_fails_when_told(tmp_path: Path) -> None:
    done = ask(tmp_path, failing())
    assert done.returncode == 255
    assert done.stdout == "Failed to initialize NVML: Unknown Error\n"


def test_it_answers_late_when_told(tmp_path: Path) -> None:
    before = time.monotonic()
    assert ask(tmp_path, answering(1, delay_s=0.3)).returncode == 0
    assert time.monotonic() - before > 0.3


def test_it_hangs_and_hears_nothing_but_kill(tmp_path: Path) -> None:
    put_nvidia_smi(Here(home=tmp_path), str(tmp_path), hanging(), sys.executable)
    process = subprocess.Popen([tmp_path / "nvidia-smi", *QUESTION])
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)
    finally:
        process.kill()
    assert process.wait(10) == -signal.SIGKILL
