"""What ssh's configuration says of an address, and what the inventory changes of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dflashctl.errors import BadFile
from dflashctl.inventory.model import SshAddress
from dflashctl.link.sshconfig import Hop, parse_jumps, resolve

needs_ssh = pytest.mark.skipif(shutil.which("ssh") is None, reason="needs ssh")
pytestmark = needs_ssh


def configure(ssh_config: Path, text: str) -> None:
    ssh_config.write_text(text)


def test_an_alias_is_resolved_as_openssh_does(ssh_config: Path, tmp_path: Path):
    included = tmp_path / "more"
    included.write_text(
        "Host kpro6\n HostName 192.0.2.6\n Port 2222\n User trainer\n HostKeyAlias the-six\n"
        f" IdentityFile {tmp_path}/key-of-%n-%r\n IdentitiesOnly yes\n ConnectTimeout 3\n"
        f' UserKnownHostsFile "{tmp_path}/known hosts" {tmp_path}/more\n'
    )
    configure(ssh_config, f"Include {included}\n")
    hop = resolve(SshAddress(address="kpro6"))
    assert (hop.host, hop.port, hop.user) == ("192.0.2.6", 2222, "trainer")
    assert hop.host_key_alias == "the-six"
    assert hop.identity_files == (tmp_path / "key-of-kpro6-trainer",)
    assert hop.identities_only
    assert hop.known_hosts[:2] == (tmp_path / "known hosts", tmp_path / "more")
    assert hop.connect_s == 3
    assert hop.via is None


def test_the_inventory_wins(ssh_config: Path, tmp_path: Path):
    key = tmp_path / "key"
    key.touch()
    configure(
        ssh_config,
        "Host kpro6\n Port 2222\n User trainer\n IdentityFile /k\n UserKnownHostsFile /x\n",
    )
    hop = resolve(
        SshAddress(
            address="kpro6",
            port=22,
            user="root",
            identity_file=key,
            known_hosts_file=tmp_path / "known",
        )
    )
    assert (hop.port, hop.user, hop.named_identity) == (22, "root", key)
    assert hop.identity_files == (key, Path("/k"))
    assert hop.known_hosts[0] == tmp_path / "known"
    assert Path("/x") not in hop.known_hosts


def test_a_match_for_the_inventorys_user_holds(ssh_config: Path):
    configure(ssh_config, "Match user trainer\n Port 2222\n")
    assert resolve(SshAddress(address="h", user="trainer")).port == 2222
    assert resolve(SshAddress(address="h", user="root")).port == 22


def test_a_chain_of_jumps_is_resolved_hop_by_hop(ssh_config: Path):
    configure(
        ssh_config,
        "Host inner\n ProxyJump first,me@second:2200\n"
        "Host second\n HostName 192.0.2.2\n"
        "Host first\n HostName 192.0.2.1\n ProxyJump zeroth\n",
    )
    hop = resolve(SshAddress(address="inner"))
    way = []
    while isinstance(hop.via, Hop):
        hop = hop.via
        way.append((hop.host, hop.port))
    assert way == [("192.0.2.2", 2200), ("192.0.2.1", 22), ("zeroth", 22)]


def test_the_way_by_hand_is_that_of_the_hop(ssh_config: Path):
    configure(ssh_config, "Host *\n User ann\nHost inner\n ProxyJump first,me@second:2200\n")
    key = Path("/home/ann/a key")
    hop = resolve(SshAddress(address="inner", user="root", port=2222, identity_file=key))
    jumps = "ann@first:22,me@second:2200"
    assert hop.by_hand == ("ssh", "-i", str(key), "-J", jumps, "-p", "2222", "root@inner")
    assert resolve(SshAddress(address="other")).by_hand == ("ssh", "ann@other")


def test_the_inventorys_jump_replaces_that_of_the_configuration(ssh_config: Path):
    configure(ssh_config, "Host inner\n ProxyJump wrong\nHost other\n ProxyCommand nc %h %p\n")
    jump = SshAddress(address="right", port=2200)
    via = resolve(SshAddress(address="inner", jump=jump)).via
    assert isinstance(via, Hop)
    assert (via.host, via.port) == ("right", 2200)
    assert resolve(SshAddress(address="inner", jump="none")).via is None
    assert resolve(SshAddress(address="other", jump="none")).via is None


def test_a_proxy_command_has_its_tokens_filled_in(ssh_config: Path):
    configure(ssh_config, "Host h\n HostName 192.0.2.9\n Port 2\n ProxyCommand nc %h %p %% %n\n")
    assert resolve(SshAddress(address="h")).via == "nc 192.0.2.9 2 % h"


def test_jumps_in_a_circle_are_a_mistake_and_no_endless_loop(ssh_config: Path):
    configure(ssh_config, "Host a\n ProxyJump b\nHost b\n ProxyJump a\n")
    with pytest.raises(BadFile) as caught:
        resolve(SshAddress(address="a"))
    assert "circle" in caught.value.faults[0].message


def test_a_mistake_in_the_configuration_is_told_in_sshs_words(ssh_config: Path):
    configure(ssh_config, "Hots a\n")
    with pytest.raises(BadFile) as caught:
        resolve(SshAddress(address="a"))
    assert "line 1" in caught.value.faults[0].message


def test_without_ssh_the_same_files_are_read(monkeypatch: pytest.MonkeyPatch, private_home: Path):
    monkeypatch.setenv("PATH", str(private_home))
    (private_home / ".ssh").mkdir()
    (private_home / ".ssh" / "config").write_text(
        "Host kpro6\n HostName 192.0.2.6\n Port 2222\n ProxyJump first,second\n IdentityFile /k\n"
    )
    hop = resolve(SshAddress(address="kpro6", user="root"))
    assert (hop.host, hop.port, hop.user) == ("192.0.2.6", 2222, "root")
    assert hop.identity_files == (Path("/k"),)
    assert isinstance(hop.via, Hop)
    assert hop.via.address == "second"
    assert hop.known_hosts[0] == private_home / ".ssh" / "known_hosts"
    plain = resolve(SshAddress(address="other"))
    assert private_home / ".ssh" / "id_ed25519" in plain.identity_files


@pytest.mark.parametrize(
    ("text", "user", "host", "port"),
    [
        ("h", None, "h", None),
        ("u@h:22", "u", "h", 22),
        ("u@x@h", "u@x", "h", None),
        ("[::1]:22", None, "::1", 22),
        ("ssh://h:2", None, "h", 2),
    ],
)
def test_a_jump_reads_as_in_ssh(text: str, user: str | None, host: str, port: int | None):
    assert parse_jumps(text) == SshAddress(address=host, user=user, port=port)


@pytest.mark.parametrize("text", ["", "a,,b", "h:x", ":22"])
def test_what_is_no_jump_is_refused(text: str):
    with pytest.raises(ValueError, match="host"):
        parse_jumps(text)
