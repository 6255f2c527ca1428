"""GPUs: nvidia-smi's figures within a deadline, and who holds the devices.

nvidia-smi's own process list is no evidence in a container (it shows the host's pids or
none): holders are found in ``/proc/*/fd``.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Collection
from contextlib import suppress
from typing import IO

from dflashctl.agent import process
from dflashctl.agent.process import Process
from dflashctl.agent.seen import Gpu, GpusSeen, GpuStatus, Holder

DEADLINE_S = 6.0
_FIELDS = (
    "index", "name", "utilization.gpu", "memory.used", "memory.total",
    "temperature.gpu", "power.draw",
)  # fmt: skip
_DEVICE = re.compile(r"/dev/nvidia(\d+|-uvm)$")
UVM = "/dev/nvidia-uvm"


class Question:
    """nvidia-smi, asked now and answered later, so that the rest of the look goes on."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[str] | None = None
        if shutil.which("nvidia-smi") is None:
            return
        self._child = subprocess.Popen(
            ("nvidia-smi", f"--query-gpu={','.join(_FIELDS)}", "--format=csv,noheader,nounits"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )

    def answer(self) -> tuple[GpuStatus, tuple[Gpu, ...], str | None]:
        """Status, the GPUs, and the first line of an error.

        A driver that hangs keeps nvidia-smi in an uninterruptible sleep: it is sent a
        KILL that it may never notice, and left behind.
        """
        if self._child is None:
            return "absent", (), None
        try:
            text, _ = self._child.communicate(timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            _abandon(self._child.stdout)
            return "unresponsive", (), f"nvidia-smi gave no answer in {DEADLINE_S:g} s"
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        if self._child.returncode != 0:
            return "unreadable", (), lines[0] if lines else f"exit {self._child.returncode}"
        try:
            return "ok", tuple(_gpu(line) for line in lines), None
        except ValueError:
            return "unreadable", (), lines[0]


def _abandon(stream: IO[str] | None) -> None:
    if stream is not None:
        with suppress(OSError):
            stream.close()


def _gpu(line: str) -> Gpu:
    part = [value.strip() for value in line.split(",")]
    if len(part) != len(_FIELDS):
        raise ValueError(line)
    return Gpu(
        index=int(part[0]),
        name=part[1],
        utilization_pct=_whole(part[2]),
        memory_used_mib=_whole(part[3]),
        memory_total_mib=_whole(part[4]),
        temperature_c=_whole(part[5]),
        power_w=_number(part[6]),
    )


def _number(text: str) -> float | None:
    """A figure; None for ``[N/A]`` and its like."""
    with suppress(ValueError):
        return float(text)
    return None


def _whole(text: str) -> int | None:
    value = _number(text)
    return None if value is None else round(value)


def devices() -> tuple[int, bool]:
    """How many GPU device files there are, and whether the compute device is there."""
    names = os.listdir("/dev")
    count = sum(re.fullmatch(r"nvidia\d+", name) is not None for name in names)
    return count, "nvidia-uvm" in names


def holders(ours: Collection[Process]) -> tuple[Holder, ...]:
    """Who computes on a GPU: whoever has ``/dev/nvidia-uvm`` open (monitors have not)."""
    found = []
    for pid, row in process.table().items():
        held = _held(pid)
        if UVM in held:
            found.append(
                Holder(
                    pid=pid,
                    name=row.name,
                    user=_user(pid),
                    devices=tuple(sorted(held - {UVM})),
                    ours=row.process in ours,
                )
            )
    return tuple(found)


def _held(pid: int) -> set[str]:
    held = set()
    with suppress(OSError):
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                target = os.readlink(entry.path)
                if _DEVICE.match(target):
                    held.add(target)
    return held


def _user(pid: int) -> str:
    with suppress(OSError, KeyError):
        return pwd.getpwuid(os.stat(f"/proc/{pid}").st_uid).pw_name
    return "unknown"


def seen(question: Question, ours: Collection[Process]) -> GpusSeen:
    """All of it together."""
    status, gpus, error = question.answer()
    count, uvm = devices()
    return GpusSeen(
        status=status,
        gpus=gpus,
        devices=count,
        uvm=uvm,
        holders=holders(ours),
        error=error,
    )
