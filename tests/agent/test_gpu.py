"""nvidia-smi that answers, fails, hangs or is not there."""

import stat
import time
from pathlib import Path

import pytest

from dflashctl.agent import gpu

LINE = "0, NVIDIA RTX PRO 6000 Blackwell, 97, 88123, 97887, 71, 598.20\n"


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place for a program by that name, first on PATH."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path / "nvidia-smi"


def write(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_figures_are_read_and_what_is_not_available_is_unknown(smi: Path) -> None:
    write(smi, f"printf '%s' '{LINE}'; echo '1, H200, [N/A], 0, 143771, 30, [Not Supported]'")
    status, gpus, error = gpu.Question().answer()
    assert (status, error) == ("ok", None)
    assert (gpus[0].name, gpus[0].utilization_pct, gpus[0].power_w) == (
        "NVIDIA RTX PRO 6000 Blackwell", 97, 598.2,
    )  # fmt: skip
    assert (gpus[1].utilization_pct, gpus[1].memory_used_mib, gpus[1].power_w) == (None, 0, None)


def test_a_driver_that_does_not_answer_is_said_so_within_the_deadline(
    smi: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "DEADLINE_S", 0.5)
    write(smi, "trap '' TERM; while :; do sleep 1; done")
    begun = time.monotonic()
    status, gpus, error = gpu.Question().answer()
    assert (status, gpus) == ("unresponsive", ())
    assert error is not None
    assert time.monotonic() - begun < 2


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ("echo 'Failed to initialize NVML: Unknown Error'; exit 255",
         "Failed to initialize NVML: Unknown Error"),
        ("exit 9", "exit 9"),
        ("echo garbage", "garbage"),
    ],
)  # fmt: skip
def test_an_answer_that_is_none_is_unreadable_with_its_first_line(
    smi: Path, script: str, error: str
) -> None:
    write(smi, script)
    assert gpu.Question().answer() == ("unreadable", (), error)


def test_no_nvidia_smi_means_no_gpus(smi: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(smi.parent))
    assert gpu.Question().answer() == ("absent", (), None)
