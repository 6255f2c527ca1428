"""The driver's two halves are read where they are kept."""

from __future__ import annotations

from pathlib import Path

from dflashctl.agent import driver
from dflashctl.agent.seen import DriverSeen


def write(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_both_halves_are_found(tmp_path: Path):
    write(tmp_path / "sys/module/nvidia/version", "570.124.06\n")
    folder = tmp_path / "usr/lib/x86_64-linux-gnu"
    write(folder / "libnvidia-ml.so.535.161.08")  # left over from an upgrade
    library = write(folder / "libnvidia-ml.so.570.124.06")
    (folder / "libnvidia-ml.so.1").symlink_to(library.name)
    assert driver.see(tmp_path) == DriverSeen(module="570.124.06", library="570.124.06")


def test_the_open_module_tells_its_version_in_proc(tmp_path: Path):
    line = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\n"
    write(tmp_path / "proc/driver/nvidia/version", line)
    assert driver.see(tmp_path) == DriverSeen(module="580.65.06", library=None)


def test_without_a_driver_nothing_is_known(tmp_path: Path):
    assert driver.see(tmp_path) == DriverSeen(module=None, library=None)
