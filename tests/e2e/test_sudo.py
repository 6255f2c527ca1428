"""`become: sudo`: an ordinary user of a real sshd, and a real sudo, with and without a password."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import Lab
from tests.lab.account import Account, account
from tests.lab.routes import pct_route, ssh_route
from tests.lab.terminal import on_terminal
from tests.sshd import Sshd, start_sshd

from .conftest import Job, made

ALL = "ALL=(root) NOPASSWD: ALL"
WITH_PASSWORD = "ALL=(root) ALL"
SECURITY = Path(__file__).parents[2] / "docs" / "security.md"


@pytest.fixture(scope="session")
def open_folder() -> Iterator[Path]:
    """A folder that everybody may look into; pytest's own are closed again and again."""
    folder = Path(tempfile.mkdtemp(prefix="dflash-open-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def trainer(open_folder: Path) -> Iterator[Account]:
    (open_folder / "home").mkdir()
    with account(open_folder / "home") as made_account:
        yield made_account


@pytest.fixture(scope="session")
def their_sshd(trainer: Account, open_folder: Path) -> Iterator[Sshd]:
    """It lets that user in, and reads the keys as that user."""
    (open_folder / "sshd").mkdir()
    seen = open_folder / "bin" / "pct"
    seen.parent.mkdir()
    seen.write_text("#!/bin/sh\nexit 1\n")  # as /usr/sbin/pct: for all to see, for root to run
    seen.chmod(0o755)
    server = start_sshd(open_folder / "sshd", path=f"/usr/local/bin:/usr/bin:/bin:{seen.parent}")
    yield replace(server, user=trainer.name)
    server.stop()


@pytest.fixture
def plain(trainer: Account, their_sshd: Sshd, private_home: Path, work: Path) -> Iterator[Job]:
    """A job on this machine, as root by way of that user."""
    trainer.may(ALL)
    with ssh_route(private_home, their_sshd, become="sudo") as route:
        yield made(route, work)
    trainer.forget()


@pytest.fixture
def contained(trainer: Account, their_sshd: Sshd, lab: Lab, work: Path) -> Iterator[Job]:
    """A job in a container, where sudo lets that user run what docs/security.md says."""
    folder = str(lab.host.pct.folder)
    found = re.search(r"```sudoers\n(.*?)```", SECURITY.read_text(), re.DOTALL)
    assert found is not None
    text = found[1].replace("trainer", trainer.name).replace("/usr/sbin/pct", f"{folder}/pct")
    trainer.says(f'Defaults:{trainer.name} secure_path="{folder}:/usr/sbin:/usr/bin:/bin"\n{text}')
    with ExitStack() as stack:
        stack.enter_context(lab.host.pct.restored())
        yield made(stack.enter_context(pct_route(lab.container, their_sshd, become="sudo")), work)
    trainer.forget()


def test_without_a_password_everything_is_done_as_root(plain: Job) -> None:
    assert plain.ok("exec", "--", "id", "-u") == "0\n"
    plain.ok("deploy", "--json")
    assert plain.status()["state"] == "RUNNING"
    owner = os.stat(f"/proc/{plain.pid()}").st_uid
    assert owner == 0
    plain.write(version=2)
    plain.ok("deploy", "--restart", "--json")
    assert "VERSION = 2" in Path(plain.train_py).read_text()
    assert "Ktok/s" in plain.ok("logs")
    plain.ok("stop")
    assert "sudo" in plain.ok("inventory", "show")


def test_nobody_to_ask_for_a_password_is_an_error_that_says_so(plain: Job, trainer: Account):
    trainer.may(WITH_PASSWORD)
    done = plain.dflashctl("status", "--json")
    (target,) = json.loads(done.stdout)["targets"].values()
    assert (done.returncode, target["error"]["code"]) == (77, "sudo_refused")
    assert "no terminal to ask on" in plain.dflashctl("status").stderr
    doctor = plain.dflashctl("doctor")
    assert doctor.returncode == 65
    assert "sudo" in doctor.stdout


@pytest.mark.provokes("sudo_refused")
def test_a_user_whom_sudo_does_not_know_is_told_so(plain: Job, trainer: Account) -> None:
    trainer.forget()
    done = plain.dflashctl("status")
    assert done.returncode == 77, done.stderr
    assert "sudo" in done.stderr


def test_what_sudo_does_not_allow_is_told_apart_from_what_is_missing(
    plain: Job, trainer: Account
) -> None:
    trainer.may("ALL=(root) NOPASSWD: /usr/bin/id")
    done = plain.dflashctl("status")
    assert done.returncode == 77, done.stderr
    assert "does not make" in done.stderr


def argvs() -> str:
    shown = subprocess.run(["ps", "axeww", "-o", "args"], capture_output=True, check=True)
    return shown.stdout.decode(errors="replace")


def test_a_password_is_asked_for_once_and_seen_nowhere(plain: Job, trainer: Account) -> None:
    """Once for a deploy, which runs several programs there; a wrong one is asked for again."""
    trainer.may(WITH_PASSWORD)
    command = plain.command("--debug", "deploy")
    with on_terminal(command, env=plain.environment) as terminal:
        terminal.wait_for(f"sudo password of {trainer.name}@127.0.0.1: ")
        terminal.type("not this\n")
        terminal.wait_for("that was not it; sudo password of")
        terminal.type(f"{trainer.password}\n")
        terminal.wait_for("the agent is ready", 60)
        assert trainer.password not in argvs()
        assert terminal.wait(60) == 0, terminal.seen
    assert terminal.seen.count("sudo password of") == 2
    assert trainer.password not in terminal.seen
    found = plain.sh('grep -rlF -e "$1" "$2" || true', trainer.password, plain.route.state_dir)
    assert found == ""
    with on_terminal(plain.command("stop"), env=plain.environment) as terminal:
        terminal.wait_for("sudo password of")
        terminal.type(f"{trainer.password}\n")
        assert terminal.wait(60) == 0, terminal.seen


def test_an_empty_answer_is_a_no(plain: Job, trainer: Account) -> None:
    trainer.may(WITH_PASSWORD)
    with on_terminal(plain.command("status"), env=plain.environment) as terminal:
        terminal.wait_for("sudo password of")
        terminal.type("\n")
        assert terminal.wait(60) == 77
    assert "none was given" in terminal.seen


def test_a_shell_and_a_session_are_gone_into_through_sudo(plain: Job) -> None:
    plain.ok("deploy", "--json")
    # tmux opens no terminal that cannot be cleared, as "dumb" cannot.
    environment = {**plain.environment, "TERM": "xterm"}
    with on_terminal(plain.command("attach"), env=environment) as terminal:
        terminal.wait_for("Ktok/s", 60)
        terminal.type("\x02d")
        assert terminal.wait(60) == 0, terminal.seen
    with on_terminal(plain.command("shell"), env=environment) as terminal:
        terminal.type("echo uid=$(id -u); exit\n")
        terminal.wait_for("uid=0", 60)
        assert terminal.wait(60) == 0
    plain.ok("stop")


def test_the_documented_line_of_sudoers_is_all_that_a_container_needs(contained: Job) -> None:
    assert contained.ok("exec", "--", "id", "-u") == "0\n"
    contained.ok("deploy", "--json")
    assert contained.status()["state"] == "RUNNING"
    contained.ok("stop")
    with on_terminal(
        contained.command("exec", "--tty", "--", "id"), env=contained.environment
    ) as t:
        t.wait_for("uid=0", 60)
        assert t.wait(60) == 0


def test_the_documented_line_is_all_that_discover_needs(contained: Job) -> None:
    shown = json.loads(contained.ok("inventory", "discover", "kpro6", "--json"))["targets"]
    assert {target["vmid"] for target in shown.values()} >= {200, 202}


def test_with_the_documented_line_a_stopped_container_is_still_known_as_such(
    contained: Job,
) -> None:
    inventory = contained.folder / "inventory.yml"
    inventory.write_text(inventory.read_text().replace("vmid: 200", "vmid: 202"))
    done = contained.dflashctl("status", "--json")
    (target,) = json.loads(done.stdout)["targets"].values()
    assert target["error"]["code"] in ("sudo_refused", "container_stopped")


def test_the_documented_line_lets_nobody_do_more(contained: Job, trainer: Account, lab: Lab):
    """Not another container, not the host: each is tried as that user."""
    pct = f"{lab.host.pct.folder}/pct"
    for words in (
        ("sh", "-c", "id"),
        (pct, "exec", "201", "--", "id"),
        (pct, "exec", "200", "id"),
        (pct, "push", "200", "/etc/shadow", "/tmp/shadow"),
        (pct, "set", "200", "-hookscript", "x"),
        (pct, "stop", "200"),
        (pct, "start", "200"),
    ):
        tried = subprocess.run(
            ["runuser", "-u", trainer.name, "--", "sudo", "-n", *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )
        assert tried.returncode == 1, words
        assert "sudo:" in tried.stderr
