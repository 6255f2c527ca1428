"""The operator's own side: keys, agent, known hosts, programs."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dflashctl.cli.ownside import OwnSide, own_findings
from dflashctl.plan.findings import Finding
from tests.lab.need import need
from tests.sshd import make_key


def findings(home: Path, *files: Path, **environ: str) -> dict[str, Finding]:
    found = own_findings(OwnSide(environ=environ, home=home, identity_files=files))
    for one in found:
        assert bool(one.remedy) == (one.grade in ("warning", "problem")), one
    return {one.check: one for one in found}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / ".ssh").mkdir(mode=0o700)
    return tmp_path


@pytest.fixture
def agent(work: Path) -> Iterator[str]:
    need("ssh-agent", "ssh-add")
    path = str(work / "agent")
    process = subprocess.Popen(["ssh-agent", "-D", "-a", path], stdout=subprocess.DEVNULL)
    while not os.path.exists(path):
        assert process.poll() is None
    yield path
    process.terminate()
    process.wait(10)


def test_a_usable_key_in_an_orderly_folder_is_well(home: Path):
    make_key(home / ".ssh" / "id_ed25519")
    found = findings(home)
    assert {one.grade for one in found.values()} <= {"ok"}
    assert "id_ed25519" in found["keys"].evidence
    assert found["packages"].evidence.startswith("fabric ")


def test_a_key_that_others_may_read_is_a_problem(home: Path):
    make_key(home / ".ssh" / "id_ed25519")
    (home / ".ssh" / "id_ed25519").chmod(0o644)
    found = findings(home)
    assert found["key"].grade == "problem"
    assert found["key"].remedy == f"chmod 600 {home}/.ssh/id_ed25519"


def test_a_folder_that_others_may_write_to_is_a_problem(home: Path):
    (home / ".ssh").chmod(0o777)
    assert findings(home)["~/.ssh"].grade == "problem"


def test_no_key_at_all_is_a_warning(home: Path):
    assert findings(home)["keys"].grade == "warning"


def test_an_identity_file_that_is_not_there_is_a_problem(home: Path):
    assert findings(home, home / "gone")["key"].grade == "problem"


def test_a_locked_key_without_an_agent_is_a_warning(home: Path):
    make_key(home / ".ssh" / "id_ed25519", passphrase="secret words")
    assert findings(home)["ssh-agent"].grade == "warning"


def test_what_an_agent_holds_is_shown(home: Path, agent: str):
    assert findings(home, SSH_AUTH_SOCK=agent)["ssh-agent"].grade == "warning"
    make_key(home / "key")
    environ = {**os.environ, "SSH_AUTH_SOCK": agent}
    subprocess.run(["ssh-add", "-q", home / "key"], env=environ, check=True)
    found = findings(home, SSH_AUTH_SOCK=agent)
    assert (found["ssh-agent"].grade, found["keys"].grade) == ("ok", "ok")
    assert "1 key" in found["ssh-agent"].evidence


def test_an_agent_s_socket_without_an_agent_is_a_warning(home: Path, work: Path):
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(work / "agent"))
    found = findings(home, SSH_AUTH_SOCK=str(work / "agent"))
    assert found["ssh-agent"].grade == "warning"


def test_a_check_that_breaks_does_not_break_the_others(home: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(home))
    (home / "ssh").write_text("no program")
    (home / "ssh").chmod(0o755)
    found = findings(home)
    assert found["ssh"].grade == "unchecked"
    assert found["locale"].grade == "ok"


def test_a_machine_without_ssh_gets_a_warning(home: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(home))
    assert findings(home)["ssh"].grade == "warning"


def test_the_known_hosts_that_are_used_are_looked_at(home: Path, tmp_path: Path):
    side = OwnSide(environ={}, home=home, known_hosts=(tmp_path / "mine", tmp_path / "ours"))
    told = [one.evidence for one in own_findings(side) if one.check == "known_hosts"]
    assert [str(tmp_path / name) in said for name, said in zip(("mine", "ours"), told, strict=True)]
