"""Many operators on one target, through an sshd that is set as Debian sets it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab.machine import Here
from tests.lab.routes import ssh_route
from tests.sshd import Sshd, start_sshd

from .conftest import Job, made, until

OPERATORS, RIVALS = 20, 5
# sshd's own defaults, said so that no system's file can say otherwise.
DEFAULTS = ("MaxSessions 10", "MaxStartups 10:30:100")
# So the winner holds the lock for as long as the test wants.
TRAINER = """\
import pathlib, sys, time
while not pathlib.Path(sys.argv[1]).exists():
    print("waiting", flush=True)
    time.sleep(0.1)
step = 0
while True:
    step += 1
    print(f"step {step} loss=0.1", flush=True)
    time.sleep(0.1)
"""


@pytest.fixture
def server(work: Path) -> Iterator[Sshd]:
    (work / "sshd").mkdir()
    server = start_sshd(work / "sshd", home=work, extra=DEFAULTS)
    yield server
    server.stop()


@pytest.fixture
def crowd(server: Sshd, private_home: Path, work: Path) -> Iterator[Job]:
    with ssh_route(private_home, server) as route:
        job = made(route, work)
        (work / "payload" / "train.py").write_text(TRAINER)
        go = f"{route.tmp}/go"
        job.write(
            files=[{"source": "payload/train.py", "dest": job.train_py}],
            run={"command": [route.python, job.train_py, go], "env_base": "minimal"},
            ready={"metric": "step", "within": "20m"},
        )
        (work / "payload" / "train.py").write_text(TRAINER)
        yield job


def begin(job: Job, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        job.command(*words, "--json"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=job.environment,
        cwd=job.folder,
    )


def answer(process: subprocess.Popen[str], timeout_s: float = 300) -> tuple[int, dict[str, Any]]:
    out, err = process.communicate(timeout=timeout_s)
    assert out, err
    (target,) = json.loads(out)["targets"].values()
    return process.returncode, target


def ours(job: Job) -> list[str]:
    """The processes on this machine that speak of the job's folder, but the run's own."""
    shown = subprocess.run(["ps", "axww", "-o", "pid=,args="], capture_output=True, check=True)
    lines = shown.stdout.decode(errors="replace").splitlines()
    return [line for line in lines if job.route.state_dir in line and "/runs/" not in line]


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.timeout(900)
def test_twenty_look_while_five_deploy_and_one_of_them_wins(crowd: Job, server: Sshd) -> None:
    deploys = [begin(crowd, "deploy") for _ in range(RIVALS)]
    looks = [begin(crowd, "status") for _ in range(OPERATORS)]
    seen = [answer(look) for look in looks]
    assert [target["error"] for code, target in seen if target["error"] is not None] == []
    assert {code for code, _ in seen} <= {0, 3, 5}
    until(lambda: sum(deploy.poll() is not None for deploy in deploys) == RIVALS - 1, 300)
    (winner,) = [deploy for deploy in deploys if deploy.poll() is None]
    losers = [answer(deploy) for deploy in deploys if deploy is not winner]
    assert [code for code, _ in losers] == [75] * (RIVALS - 1)
    for _, target in losers:
        assert target["error"]["code"] == "lock_held"
        assert "@" in target["error"]["detail"]["holder"]
        assert target["error"]["detail"]["since"].endswith("Z")
    Here(home=crowd.folder).put(f"{crowd.route.tmp}/go", b"")
    code, target = answer(winner)
    assert (code, target["error"]) == (0, None)
    assert crowd.status()["state"] == "RUNNING"
    crowd.ok("stop")
    until(lambda: not ours(crowd), 60)
    until(lambda: not server.connections(), 60)
    left = Path(crowd.route.state_dir, "staging")
    assert list(left.iterdir()) == []
    assert not Path(crowd.route.state_dir, "lock.json").exists()


@pytest.mark.slow
@pytest.mark.alone
def test_one_command_keeps_to_a_single_connection(crowd: Job, server: Sshd) -> None:
    before = server.log.read_text().count("Accepted publickey")
    crowd.dflashctl("status")
    assert server.log.read_text().count("Accepted publickey") == before + 1
    assert os.path.exists(crowd.folder)
