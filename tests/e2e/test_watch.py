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


def test_the_tmux_servers_death_ends_the_trainer_and_is_no_failure_of_its(by_ssh: Job) -> None:
    by_ssh.ok("deploy")
    pid = by_ssh.pid()
    record = by_ssh.sh(f"cat {by_ssh.route.state_dir}/jobs/dflash/runs/*/process.json")
    by_ssh.sh('kill -9 "$1"', str(json.loads(record)["tmux"][0]))
    until(lambda: by_ssh.status()["state"] == "STOPPED", 40)
    assert not by_ssh.alive(pid)
    shown = json.loads(by_ssh.ok("runs", "show", "--json"))["targets"]["box"]
    assert shown["stopped_by"] == "session closed"


DIES = """\
import os, pathlib, sys, time
folder = pathlib.Path(os.environ["CHECKPOINTS"])
print("goes on from", sorted(folder.glob("*/COMPLETE")), flush=True)
time.sleep(600 if "--resume" in sys.argv else 5)
for name in ("step-10", "step-20"):
    (folder / name).mkdir(parents=True, exist_ok=True)
(folder / "step-10" / "COMPLETE").touch()
sys.exit(9)
"""


def test_a_run_that_fails_is_started_again_and_a_stop_ends_that(by_ssh: Job) -> None:
    train = [by_ssh.route.python, by_ssh.train_py]
    by_ssh.write(
        watch={"every": "1s", "restart": "on-failure", "restart_after": "4s", "restart_limit": 9},
        run={"command": train, "resume": [*train, "--resume"], "env_base": "minimal",
             "env": {"CHECKPOINTS": by_ssh.checkpoints}},
        checkpoints={"path": by_ssh.checkpoints, "complete_when": {"file": "COMPLETE"}},
        files=[{"source": "payload/train.py", "dest": by_ssh.train_py}],
    )  # fmt: skip
    (by_ssh.folder / "payload" / "train.py").write_text(DIES)
    first = json.loads(by_ssh.ok("deploy", "--json"))["targets"]["box"]["run_id"]
    seen = {}

    def runs_again() -> bool:
        seen.update(by_ssh.status())
        return bool(seen["run"]["id"] != first and seen["state"] == "RUNNING")

    until(runs_again)
    shown = json.loads(by_ssh.ok("runs", "show", "--json"))["targets"]["box"]
    assert shown["attempt"] == {"of": first, "number": 1, "limit": 9}
    assert shown["command"][-1] == "--resume"
    assert shown["resumed_from"] == "step-10", "the newest complete one"
    assert shown["started_by"].startswith("watchdog@")
    by_ssh.sh('kill -9 "$1"', str(seen["run"]["pid"]))
    until(lambda: (by_ssh.status()["restart"] or {}).get("came") == "waits")
    assert "cancel the watchdog's restart" in by_ssh.dflashctl("stop").stderr
    over = by_ssh.status()
    assert (over["state"], over["restart"]["came"]) == ("FAILED", "cancelled")
