"""The kernel's memory killer in a real container with a limit."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.lab.machine import end_processes
from tests.lab.routes import pct_route

from .conftest import made, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Lab

    from .conftest import Job

GREEDY = "import time; print('loading', flush=True); time.sleep(1.5); x = b'x' * 600_000_000"


@pytest.fixture
def job(lab: Lab, work: Path) -> Iterator[Job]:
    """A container that may use 256 MiB."""
    unified = Path("/sys/fs/cgroup/cgroup.controllers").exists()
    key = "memory.max" if unified else "memory.limit_in_bytes"
    where = ("lxc-cgroup", "-P", str(lab.container.lxc_folder), "-n", str(lab.container.vmid), key)
    with lab.host.pct.restored(), pct_route(lab.container, lab.host.sshd) as route:
        subprocess.run([*where, "268435456"], check=True, timeout=30)
        yield made(route, work)
        subprocess.run([*where[:-1], "--", key, "max" if unified else "-1"], check=True, timeout=30)


def test_a_run_that_the_memory_killer_ended_is_told_as_such(job: Job) -> None:
    job.write(
        files=None,
        run={"command": [job.route.python, "-c", GREEDY], "env_base": "minimal"},
        ready={"alive_for": "0s"},
    )
    job.ok("deploy")
    until(lambda: job.status()["state"] == "FAILED")
    run = job.status()["run"]
    assert (run["signal"], run["oom"]) == ("KILL", True)
    assert "memory" in job.dflashctl("status").stdout
    assert job.dflashctl("status").returncode == 4
    job.write()
    job.ok("deploy")
    assert job.status()["state"] == "RUNNING"


HOG = "import time; time.sleep(1); x = b'x' * 600_000_000; time.sleep(60)"


def test_a_neighbour_whose_memory_kill_takes_the_tmux_server_is_no_wish_to_stop(job: Job) -> None:
    """The killer ends the server, the run goes with it: neither finished nor stopped."""
    job.ok("deploy")
    record = json.loads(job.sh(f"cat {job.route.state_dir}/jobs/dflash/runs/*/process.json"))
    server = str(record["tmux"][0])
    job.sh('echo 1000 > "/proc/$1/oom_score_adj"', server)
    job.sh(
        'setsid sh -c \'echo -900 > /proc/self/oom_score_adj; exec "$0" -c "$1"\' "$1" "$2" '
        "</dev/null >/dev/null 2>&1 &",
        job.route.python,
        HOG,
    )
    until(lambda: not job.alive(int(server)), 60)
    until(lambda: job.status()["state"] == "FAILED", 60)
    seen = job.status()
    assert seen["run"]["oom"] is True
    assert not job.alive(record["trainer"][0])
    assert "memory" in job.dflashctl("status").stdout
    end_processes(job.route.machine, "x = b'x'", job.route.python)
    job.ok("deploy")
    assert job.status()["state"] == "RUNNING"
