"""Being let in by real servers: keys, passphrases, ssh-agent."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dflashctl.errors import HostKeyUnknown, NotLetIn
from dflashctl.link.connect import Connections
from tests.lab.terminal import on_terminal
from tests.link.fakes import address_of, run, target_at
from tests.sshd import make_key, start_sshd

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.sshd import Sshd


def test_a_refused_key_is_named(sshd: Sshd, connections: Connections, tmp_path: Path):
    make_key(tmp_path / "stranger")
    with pytest.raises(NotLetIn) as caught:
        run(connections, address_of(sshd, identity_file=tmp_path / "stranger"))
    assert str(tmp_path / "stranger") in caught.value.tried
    assert caught.value.user == sshd.user


def test_a_missing_key_file_is_named(sshd: Sshd, connections: Connections, tmp_path: Path):
    with pytest.raises(NotLetIn, match="no such file"):
        run(connections, address_of(sshd, identity_file=tmp_path / "gone"))


def test_a_key_that_others_may_read_is_not_used(
    sshd: Sshd, connections: Connections, tmp_path: Path
):
    key = tmp_path / "open"
    key.write_bytes(sshd.client_key.read_bytes())
    key.chmod(0o644)
    with pytest.raises(NotLetIn, match="others may read it"):
        run(connections, address_of(sshd, identity_file=key))


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[Sshd]:
    """A server whose client key has a passphrase: ``open sesame``."""
    server = start_sshd(tmp_path, home=tmp_path)
    subprocess.run(
        ["ssh-keygen", "-q", "-p", "-P", "", "-N", "open sesame", "-f", server.client_key],
        check=True,
        timeout=10,
    )
    yield server
    server.stop()


def test_a_passphrase_is_asked_for_once_for_all_hosts(locked: Sshd, sshd: Sshd):
    answers, asked = ["wrong", "open sesame"], []

    def ask(prompt: str) -> str:
        asked.append(prompt)
        return answers.pop(0)

    with Connections(ask) as connections:
        assert run(connections, address_of(locked)) == b"hello\n"
        again = address_of(locked, address="localhost", known_hosts_file=locked.known_hosts)
        with pytest.raises(HostKeyUnknown):
            run(connections, again)
        with pytest.raises(NotLetIn):
            run(connections, address_of(sshd, identity_file=locked.client_key))
    assert len(asked) == 2
    assert str(locked.client_key) in asked[0]


def test_without_a_terminal_a_locked_key_is_told_and_nothing_is_asked(
    locked: Sshd, connections: Connections
):
    with pytest.raises(NotLetIn, match="no terminal") as caught:
        run(connections, address_of(locked))
    assert str(locked.client_key) not in caught.value.tried


@pytest.fixture
def agent(work: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A running ssh-agent's socket, in the environment."""
    path = work / "agent"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", path], stdout=subprocess.DEVNULL)
    until = time.monotonic() + 5
    while not path.exists() and time.monotonic() < until:
        time.sleep(0.01)
    monkeypatch.setenv("SSH_AUTH_SOCK", str(path))
    yield path
    process.terminate()
    process.wait(5)


def test_a_key_of_ssh_agent_is_used(
    sshd: Sshd, agent: Path, connections: Connections, tmp_path: Path
):
    subprocess.run(["ssh-add", "-q", sshd.client_key], check=True, timeout=10)
    make_key(tmp_path / "other")
    assert run(connections, address_of(sshd, identity_file=tmp_path / "other")) == b"hello\n"


def test_identities_only_keeps_other_keys_of_ssh_agent_back(
    sshd: Sshd, agent: Path, connections: Connections, ssh_config: Path, tmp_path: Path
):
    subprocess.run(["ssh-add", "-q", sshd.client_key], check=True, timeout=10)
    make_key(tmp_path / "other")
    ssh_config.write_text("IdentitiesOnly yes\n")
    with pytest.raises(NotLetIn) as caught:
        run(connections, address_of(sshd, identity_file=tmp_path / "other"))
    assert caught.value.tried == (str(tmp_path / "other"),)


def test_a_public_key_file_chooses_a_key_of_ssh_agent(
    sshd: Sshd, agent: Path, connections: Connections, ssh_config: Path, tmp_path: Path
):
    subprocess.run(["ssh-add", "-q", sshd.client_key], check=True, timeout=10)
    ssh_config.write_text("IdentitiesOnly yes\n")
    chosen = tmp_path / "chosen.pub"
    chosen.write_bytes(sshd.client_key.with_suffix(".pub").read_bytes())
    assert run(connections, address_of(sshd, identity_file=chosen)) == b"hello\n"


def test_too_many_keys_are_told_as_such(sshd: Sshd, agent: Path, tmp_path: Path):
    (tmp_path / "strict").mkdir()
    server = start_sshd(tmp_path / "strict", extra=["MaxAuthTries 2"])
    try:
        for number in range(4):
            make_key(tmp_path / str(number))
            subprocess.run(["ssh-add", "-q", tmp_path / str(number)], check=True, timeout=10)
        with (
            Connections() as connections,
            pytest.raises(NotLetIn, match="Too many authentication failures"),
        ):
            run(connections, address_of(server, identity_file=None))
    finally:
        server.stop()


def test_ssh_agent_stays_here_whatever_sshs_configuration_says(
    sshd: Sshd, agent: Path, connections: Connections, ssh_config: Path
):
    subprocess.run(["ssh-add", "-q", sshd.client_key], check=True, timeout=10)
    ssh_config.write_text("ForwardAgent yes\n")
    show = ("sh", "-c", 'echo "agent=[$SSH_AUTH_SOCK]"')
    address = address_of(sshd)
    assert run(connections, address, show) == b"agent=[]\n"
    words = connections.transport(target_at(address)).terminal_words(show)
    with on_terminal(words, env=dict(os.environ)) as terminal:
        terminal.wait_for(r"agent=\[\]")
        assert terminal.wait() == 0
