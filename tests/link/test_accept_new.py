"""``host_key: accept-new``: an unknown key is recorded once, a changed one never."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from dflashctl.errors import HostKeyChanged, HostKeyUnknown
from dflashctl.inventory.model import SshAddress
from dflashctl.link.connect import Connections
from dflashctl.link.hostkeys import HostName, record
from tests.link.fakes import address_of, run
from tests.link.test_ssh import second
from tests.sshd import fingerprint, known_hosts_line, make_key

if TYPE_CHECKING:
    from pathlib import Path

    from dflashctl.link.hostkeys import Recorded
    from tests.sshd import Sshd

__all__ = ["second"]  # the fixture


def new_address(sshd: Sshd, known: Path, **other: object) -> SshAddress:
    return address_of(sshd, known_hosts_file=known, host_key="accept-new", **other)


def lines(known: Path) -> list[str]:
    return known.read_text().splitlines()


def test_an_unknown_key_is_recorded_and_told_once(sshd: Sshd, tmp_path: Path):
    told: list[Recorded] = []
    known = tmp_path / "not" / "yet"
    for _ in range(2):
        with Connections(lambda _: None, recorded=told.append) as connections:
            assert run(connections, new_address(sshd, known)) == b"hello\n"
    assert lines(known) == [known_hosts_line(f"[127.0.0.1]:{sshd.port}", sshd.host_key).strip()]
    assert known.stat().st_mode & 0o777 == 0o600
    (key,) = told
    assert (key.fingerprint, key.path) == (fingerprint(sshd.host_key), known)


def test_a_changed_key_is_never_taken(sshd: Sshd, connections: Connections, tmp_path: Path):
    make_key(tmp_path / "old")
    known = tmp_path / "known"
    known.write_text(known_hosts_line(f"[127.0.0.1]:{sshd.port}", tmp_path / "old"))
    with pytest.raises(HostKeyChanged) as caught:
        run(connections, new_address(sshd, known))
    assert caught.value.expected == fingerprint(tmp_path / "old")
    assert len(lines(known)) == 1


def test_a_revoked_key_is_never_taken(sshd: Sshd, connections: Connections, tmp_path: Path):
    known = tmp_path / "known"
    known.write_text("@revoked " + known_hosts_line(f"[127.0.0.1]:{sshd.port}", sshd.host_key))
    with pytest.raises(HostKeyChanged):
        run(connections, new_address(sshd, known))
    assert len(lines(known)) == 1


def test_a_jump_of_the_inventory_goes_by_what_is_said_of_itself(
    sshd: Sshd, second: Sshd, connections: Connections, tmp_path: Path
):
    strict = address_of(second, known_hosts_file=tmp_path / "none")
    with pytest.raises(HostKeyUnknown):
        run(connections, new_address(sshd, tmp_path / "known", jump=strict))
    assert not (tmp_path / "known").exists()
    new = new_address(second, tmp_path / "jumps")
    address = address_of(sshd, known_hosts_file=tmp_path / "none", jump=new)
    with pytest.raises(HostKeyUnknown):
        run(connections, address)
    assert len(lines(tmp_path / "jumps")) == 1


def test_a_jump_that_is_only_named_is_trusted_as_the_end_is(
    sshd: Sshd, second: Sshd, connections: Connections, ssh_config: Path, tmp_path: Path
):
    known = tmp_path / "known"
    ssh_config.write_text(
        f"UserKnownHostsFile {tmp_path / 'jumps'}\nIdentityFile {second.client_key}\n"
    )
    jump = f"{second.user}@127.0.0.1:{second.port}"
    address = new_address(sshd, known, jump=jump)
    assert run(connections, address) == b"hello\n"
    assert len(lines(known)) == len(lines(tmp_path / "jumps")) == 1


def test_many_at_once_record_it_once(tmp_path: Path):
    make_key(tmp_path / "key")
    kind, blob = (tmp_path / "key.pub").read_text().split()[:2]
    import base64

    name, known = HostName(host="h", port=22), tmp_path / "known"
    recorded = []

    def work() -> None:
        recorded.append(record(known, name, kind, base64.b64decode(blob), hashed=True))

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(recorded) == [False] * 15 + [True]
    assert len(lines(known)) == 1


def test_who_comes_second_with_another_key_is_refused(tmp_path: Path):
    name, known = HostName(host="h", port=22), tmp_path / "known"
    record(known, name, "ssh-ed25519", b"one", hashed=False)
    with pytest.raises(HostKeyChanged):
        record(known, name, "ssh-ed25519", b"other", hashed=False)
    assert len(lines(known)) == 1
