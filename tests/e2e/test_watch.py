"""Watching a real run over ssh, on a real terminal, with a network that breaks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import Job, made, until
from tests.lab.proxy import Proxy
from tests.lab.routes import ssh_route
from tests.lab.terminal import on_terminal
from tests.sshd import Sshd


@pytest.fixture
def by_ssh(sshd: Sshd, private_home: Path, work: Path) -> Iterator[Job]:
    with ssh_route(private_home, sshd) as route:
        yield made(route, work)


def test_a_lost_link_is_told_with_the_last_known_state_and_recovers(by_ssh: Job) -> None:
    by_ssh.ok("deploy")
    sshd = by_ssh.route.sshd
    assert sshd is not None
    with Proxy(target=(sshd.host, sshd.port)) as proxy:
        (by_ssh.folder / "inventory.yml").write_text(by_ssh.route.inventory_through(proxy.port))
        env = {**by_ssh.environment, "TERM": "xterm"}
        with on_terminal(by_ssh.command("status", "--watch"), env=env, rows=30) as screen:
            screen.wait_for(r"RUNNING[\s\S]*Ktok/s")
            proxy.refuse()
            screen.wait_for(r"UNREACHABLE, RUNNING \d")
            screen.seen = ""
            screen.wait_for("25.1 Ktok/s")  # what was known stays on the screen
            proxy.recover()
            screen.seen = ""
            screen.wait_for(r"(?<!UNREACHABLE, )RUNNING\s")
            screen.type("\x03")
            assert screen.wait() == 130


def test_the_watchdog_tells_of_a_run_and_its_death_harms_nobody(by_ssh: Job) -> None:
    told = f"{by_ssh.route.tmp}/told"
    tell = ["sh", "-c", f'echo "$DFLASHCTL_EVENT $DFLASHCTL_CODE" >> {told}']
    by_ssh.write(watch={"every": "1s", "notify": [{"command": tell}]})
    assert by_ssh.ok("notify", "--test") == "command  sent\n"
    by_ssh.ok("deploy")
    record = f"{by_ssh.route.state_dir}/jobs/dflash/runs/*/watchdog.json"
    until(lambda: by_ssh.sh(f"ls {record} 2>/dev/null || true"))
    pid = json.loads(by_ssh.sh(f"cat {record}"))["process"][0]
    by_ssh.sh('kill -9 "$1"', str(pid))
    until(lambda: [v["code"] for v in by_ssh.status()["verdicts"]] == ["not_watched"])
    assert by_ssh.status()["state"] == "RUNNING"
    assert by_ssh.sh(f"cat {told}") == "test test\n"
