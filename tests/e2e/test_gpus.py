"""GPUs in a real container: who holds them decides, whatever nvidia-smi says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.lab.routes import pct_route
from tests.lab.stand_in import answering, failing

from .conftest import made, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import Lab

    from .conftest import Job

# Who holds a GPU in the container is seen by whoever looks at its host, as in life.
pytestmark = pytest.mark.alone

# Holding a device is having it open; the files stand in for the devices.
HOLD = "exec 3</dev/nvidia0 4</dev/nvidia-uvm; sleep 600 & wait"


@pytest.fixture
def job(lab: Lab, work: Path) -> Iterator[Job]:
    """A container with one GPU, and a trainer that uses it."""
    with lab.host.pct.restored(), pct_route(lab.container, lab.host.sshd) as route:
        job = made(route, work)
        job.sh("touch /dev/nvidia0 /dev/nvidiactl /dev/nvidia-uvm")
        route.put_nvidia_smi(answering(1, memory_used="3"))
        run = {"command": ["bash", "-c", HOLD], "env_base": "minimal"}
        job.write(files=None, run=run, preflight={"gpus": 1}, ready={"alive_for": "0s"})
        yield job
        job.sh("rm -f /dev/nvidia0 /dev/nvidiactl /dev/nvidia-uvm")


def test_the_jobs_own_hold_on_the_gpus_is_no_obstacle_to_its_restart(job: Job) -> None:
    job.ok("deploy")
    job.ok("deploy", "--restart")
    assert job.status()["state"] == "RUNNING"


def test_a_stranger_on_a_gpu_is_named_before_anything_is_stopped(job: Job) -> None:
    job.ok("deploy")
    pid = job.pid()
    job.route.tmux("new-session", "-d", "-s", "dflash-eval", f"bash -c '{HOLD}'")
    held = "ls -l /proc/[0-9]*/fd 2>/dev/null | grep -c nvidia-uvm"
    until(lambda: int(job.sh(held)) >= 4)
    done = job.dflashctl("deploy", "--restart")
    assert done.returncode == 65
    assert "/dev/nvidia0" in done.stderr
    assert "bash" in done.stderr
    assert job.alive(pid)
    assert job.status()["state"] == "RUNNING"


def test_a_monitor_that_holds_no_compute_device_does_not_count(job: Job) -> None:
    monitor = "bash -c 'exec 3</dev/nvidia0 4</dev/nvidiactl; sleep 600'"
    job.route.tmux("new-session", "-d", "-s", "dflash-eval", monitor)
    job.ok("deploy")


def test_gpus_that_only_the_running_trainer_can_still_use_refuse_its_restart(job: Job) -> None:
    job.ok("deploy")
    pid = job.pid()
    job.route.put_nvidia_smi(failing())
    done = job.dflashctl("deploy", "--restart")
    assert done.returncode == 65
    assert "NVML" in done.stderr
    assert job.alive(pid)
    assert job.dflashctl("status").returncode == 5


def test_memory_that_nobody_in_sight_holds_refuses_a_start(job: Job) -> None:
    job.route.put_nvidia_smi(answering(1, memory_used="61440"))
    done = job.dflashctl("deploy")
    assert done.returncode == 65
    assert "outside this container" in done.stderr


def test_fewer_gpus_than_the_playbook_wants_refuse_a_start(job: Job) -> None:
    job.write(files=None, run={"command": ["sleep", "600"]}, preflight={"gpus": 8})
    done = job.dflashctl("deploy")
    assert done.returncode == 65
    assert "8" in done.stderr


def test_a_missing_compute_device_refuses_a_start(job: Job) -> None:
    job.sh("rm /dev/nvidia-uvm")
    done = job.dflashctl("deploy")
    assert done.returncode == 65
    assert "/dev/nvidia-uvm" in done.stderr
