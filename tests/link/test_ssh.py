"""Connections to real servers on loopback: who is trusted, who is let in, what breaks."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dflashctl.errors import (
    HostKeyChanged,
    HostKeyUnknown,
    LinkLost,
    Unreachable,
)
from dflashctl.link import sshchannel
from dflashctl.link.connect import Connections
from dflashctl.link.deadlines import Deadlines
from dflashctl.link.transport import NoFileChannel, NoScp
from tests.link.fakes import address_of, read_all, run, target_at
from tests.sshd import fingerprint, free_port, known_hosts_line, make_key, start_sshd

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.sshd import Sshd


@pytest.fixture
def second(tmp_path: Path) -> Iterator[Sshd]:
    folder = tmp_path / "second"
    folder.mkdir()
    server = start_sshd(folder, home=folder)
    yield server
    server.stop()


def descendants(pids: list[int]) -> list[int]:
    found = list(pids)
    for pid in pids:
        listed = Path(f"/proc/{pid}/task/{pid}/children")
        if listed.exists():
            found += descendants([int(child) for child in listed.read_text().split()])
    return found


def test_a_program_runs_and_its_end_is_known(sshd: Sshd, connections: Connections):
    transport = connections.transport(target_at(address_of(sshd)))
    channel = transport.start(("sh", "-c", "cat; echo oops >&2; exit 7"))
    channel.write(b"some input")
    channel.close_input()
    assert read_all(channel) == b"some input"
    assert channel.exit_code(5) == 7
    assert channel.stderr_tail() == "oops\n"
    channel.close()


def test_the_cipher_is_the_fast_one(sshd: Sshd, connections: Connections):
    assert run(connections, address_of(sshd)) == b"hello\n"
    (host,) = connections._hosts.values()
    assert host.wire("t").local_cipher == "aes128-gcm@openssh.com"


# --- host keys -------------------------------------------------------------------------


def test_an_unknown_host_is_refused_and_its_fingerprint_shown(
    sshd: Sshd, connections: Connections, tmp_path: Path
):
    with pytest.raises(HostKeyUnknown) as caught:
        run(connections, address_of(sshd, known_hosts_file=tmp_path / "none"))
    assert caught.value.fingerprint == fingerprint(sshd.host_key)
    assert (caught.value.host, caught.value.port) == (sshd.host, sshd.port)
    assert str(tmp_path / "none") in caught.value.known_hosts


def test_a_changed_host_key_is_refused_with_both_fingerprints(
    sshd: Sshd, connections: Connections, tmp_path: Path
):
    make_key(tmp_path / "old")
    known = tmp_path / "known"
    known.write_text("# old\n" + known_hosts_line(f"[127.0.0.1]:{sshd.port}", tmp_path / "old"))
    with pytest.raises(HostKeyChanged) as caught:
        run(connections, address_of(sshd, known_hosts_file=known))
    assert caught.value.fingerprint == fingerprint(sshd.host_key)
    assert caught.value.expected == fingerprint(tmp_path / "old")
    assert (caught.value.known_hosts, caught.value.line) == (str(known), 2)


def test_hashed_known_hosts_are_understood(sshd: Sshd, connections: Connections, tmp_path: Path):
    known = tmp_path / "known"
    known.write_bytes(sshd.known_hosts.read_bytes())
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", known], check=True, capture_output=True)
    assert "127.0.0.1" not in known.read_text()
    assert run(connections, address_of(sshd, known_hosts_file=known)) == b"hello\n"


def test_a_host_key_alias_names_the_line_to_look_for(
    sshd: Sshd, connections: Connections, tmp_path: Path, ssh_config: Path
):
    known = tmp_path / "known"
    known.write_text(known_hosts_line("the-lab", sshd.host_key))
    ssh_config.write_text("Host box\n HostName 127.0.0.1\n HostKeyAlias the-lab\n")
    address = address_of(sshd, address="box", known_hosts_file=known)
    assert run(connections, address) == b"hello\n"


def test_the_type_of_key_that_is_known_is_asked_for(tmp_path: Path, connections: Connections):
    make_key(tmp_path / "rsa", kind="rsa")
    server = start_sshd(tmp_path, extra=[f"HostKey {tmp_path / 'rsa'}"])
    try:
        known = tmp_path / "known"
        known.write_text(known_hosts_line(f"[127.0.0.1]:{server.port}", tmp_path / "rsa"))
        assert run(connections, address_of(server, known_hosts_file=known)) == b"hello\n"
    finally:
        server.stop()


# --- the way there ---------------------------------------------------------------------


def test_a_jump_of_the_inventory_is_gone_through_and_shared(
    sshd: Sshd, second: Sshd, connections: Connections
):
    jump = address_of(second)
    assert run(connections, address_of(sshd, jump=jump)) == b"hello\n"
    assert run(connections, jump) == b"hello\n"
    assert second.log.read_text().count("Accepted publickey") == 1


def test_a_jump_of_sshs_configuration_is_gone_through(
    sshd: Sshd, second: Sshd, connections: Connections, ssh_config: Path
):
    ssh_config.write_text(
        f"Host inner\n HostName 127.0.0.1\n ProxyJump bastion\n"
        f"Host bastion\n HostName 127.0.0.1\n Port {second.port}\n"
        f" IdentityFile {second.client_key}\n UserKnownHostsFile {second.known_hosts}\n"
    )
    assert run(connections, address_of(sshd, address="inner")) == b"hello\n"
    assert "Accepted publickey" in second.log.read_text()


def test_the_host_key_of_a_jump_counts_as_much(
    sshd: Sshd, second: Sshd, connections: Connections, tmp_path: Path
):
    jump = address_of(second, known_hosts_file=tmp_path / "none")
    with pytest.raises(HostKeyUnknown) as caught:
        run(connections, address_of(sshd, jump=jump))
    assert caught.value.port == second.port


def test_a_host_that_the_jump_cannot_reach_is_unreachable(second: Sshd, connections: Connections):
    address = address_of(second, port=free_port(), jump=address_of(second))
    with pytest.raises(Unreachable, match="cannot reach it"):
        run(connections, address)


def test_a_proxy_command_is_run(
    sshd: Sshd, connections: Connections, ssh_config: Path, tmp_path: Path
):
    relay = "import os,socket,sys,threading as t; s=socket.create_connection(sys.argv[1:]);"
    relay += "p=lambda r,w:[w(d) for d in iter(r,bytes())];"
    relay += "t.Thread(target=p,args=(lambda:os.read(0,9999),s.sendall),daemon=True).start();"
    relay += "p(lambda:s.recv(9999),lambda d:os.write(1,d))"
    ssh_config.write_text(f'Host box\n ProxyCommand python3 -c "{relay}" 127.0.0.1 %p\n')
    known = tmp_path / "known"
    known.write_text(known_hosts_line(f"[box]:{sshd.port}", sshd.host_key))
    address = address_of(sshd, address="box", known_hosts_file=known)
    assert run(connections, address) == b"hello\n"


def test_a_failing_proxy_command_is_quoted(sshd: Sshd, connections: Connections, ssh_config: Path):
    ssh_config.write_text("Host box\n ProxyCommand echo no way to %h >&2\n")
    with pytest.raises(Unreachable, match="no way to box"):
        run(connections, address_of(sshd, address="box"))


def test_a_dead_port_is_told_in_the_systems_words(sshd: Sshd, connections: Connections):
    with pytest.raises(Unreachable) as caught:
        run(connections, address_of(sshd, port=free_port()))
    assert caught.value.reason == "Connection refused"


def test_an_unknown_name_is_told_in_the_systems_words(
    sshd: Sshd, connections: Connections, monkeypatch: pytest.MonkeyPatch
):
    def unknown(*_: object, **__: object) -> object:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(Unreachable, match="Name or service not known"):
        run(connections, address_of(sshd, address="nowhere"))


def test_a_name_that_cannot_be_one_is_unreachable_too(sshd: Sshd, connections: Connections):
    with pytest.raises(Unreachable):
        run(connections, address_of(sshd, address="a" * 70 + ".invalid"))


def test_a_black_hole_ends_at_the_deadline(sshd: Sshd, connections: Connections, ssh_config: Path):
    ssh_config.write_text("ConnectTimeout 1\n")
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        waiting = []
        for _ in range(8):  # until its queue is full and no further SYN is answered
            one = socket.socket()
            one.setblocking(False)
            one.connect_ex(full.getsockname())
            waiting.append(one)
        began = time.monotonic()
        with pytest.raises(Unreachable, match="timed out"):
            run(connections, address_of(sshd, port=full.getsockname()[1]))
        assert time.monotonic() - began < 5
        for one in waiting:
            one.close()


def test_a_port_that_never_speaks_ends_at_the_deadline(
    sshd: Sshd,
):
    with (
        Connections(lambda _: None, Deadlines(banner_s=1.0)) as connections,
        socket.create_server(("127.0.0.1", 0)) as mute,
        pytest.raises(Unreachable, match="no ssh server"),
    ):
        run(connections, address_of(sshd, port=mute.getsockname()[1]))


def test_a_dead_host_is_waited_for_once_and_told_for_each_target(
    sshd: Sshd, connections: Connections
):
    address = address_of(sshd, port=free_port())
    names = []
    for _ in range(2):
        with pytest.raises(Unreachable) as caught:
            run(connections, address)
        names.append(caught.value.target)
    assert names == ["there", "there"]
    assert len(connections._hosts) == 1


# --- streams, files, links that die ----------------------------------------------------


def test_ten_mebibytes_on_both_streams_at_once_pass(sshd: Sshd, connections: Connections):
    script = (
        "import os, threading\n"
        "def pour(fd):\n"
        "    left = 10 << 20\n"
        "    while left: left -= os.write(fd, b'x' * min(left, 65536))\n"
        "t = threading.Thread(target=pour, args=(2,)); t.start(); t.join(); pour(1)\n"
    )
    channel = connections.transport(target_at(address_of(sshd))).start(("python3", "-c", script))
    assert len(read_all(channel)) == 10 << 20
    assert channel.exit_code(5) == 0
    assert channel.stderr_tail().endswith("xxxx")


@pytest.mark.parametrize("name", ["plain", "with space", "qu'ote\"s", "$(touch x)", "né\nw", "-l"])
def test_a_file_arrives_in_folders_of_any_name(
    sshd: Sshd, connections: Connections, tmp_path: Path, name: str
):
    folder, source = tmp_path / name, tmp_path / "source"
    folder.mkdir()
    source.write_bytes(os.urandom(700_000))
    seen: list[tuple[int, int]] = []
    transport = connections.transport(target_at(address_of(sshd)))
    transport.send_file(source, str(folder), "files.tar", lambda *at: seen.append(at))
    assert (folder / "files.tar").read_bytes() == source.read_bytes()
    assert (folder / "files.tar").stat().st_mode & 0o777 == 0o600
    assert seen[-1] == (700_000, 700_000)
    assert seen == sorted(seen)


def test_a_server_of_one_session_has_no_file_channel_but_runs_a_second_program(tmp_path: Path):
    server = start_sshd(tmp_path, home=tmp_path, extra=["MaxSessions 1"])
    try:
        with Connections() as connections:
            transport = connections.transport(target_at(address_of(server)))
            first = transport.start(("cat",))
            with pytest.raises(NoFileChannel):
                transport.send_file(server.client_key, str(tmp_path), "copy", lambda *_: None)
            assert read_all(transport.start(("echo", "two"))) == b"two\n"
            first.write(b"still here")
            assert first.read(5) == b"still here"
    finally:
        server.stop()


def test_those_who_are_refused_a_session_at_once_share_further_connections(tmp_path: Path):
    server = start_sshd(tmp_path, home=tmp_path, extra=["MaxSessions 4"])
    target = target_at(address_of(server))
    try:
        with Connections() as connections, ThreadPoolExecutor(12) as at_once:
            transport = connections.transport(target)
            channels = list(at_once.map(lambda _: transport.start(("cat",)), range(12)))
            for channel in channels:
                channel.write(b"here")
                assert channel.read(10) == b"here"
        assert server.log.read_text().count("Accepted publickey") == 3
    finally:
        server.stop()


def test_a_missing_scp_is_told_from_a_failing_one(
    sshd: Sshd, connections: Connections, tmp_path: Path
):
    transport = connections.transport(target_at(address_of(sshd)))
    assert isinstance(transport, sshchannel.SshTransport)
    source = sshd.client_key
    with pytest.raises(NoScp):
        transport.send_by_scp(("no-such-scp",), source, str(tmp_path), "x", lambda *_: None)
    with pytest.raises(NoFileChannel) as caught:
        transport.send_file(source, str(tmp_path / "missing"), "x", lambda *_: None)
    assert not isinstance(caught.value, NoScp)


def test_a_killed_connection_is_a_connection_error(second: Sshd, connections: Connections):
    channel = connections.transport(target_at(address_of(second))).start(("cat",))
    for pid in descendants(second.connections()):
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(ConnectionError):
        channel.read(5)
    with pytest.raises(ConnectionError):
        channel.write(b"anybody?")
    channel.close()


def test_a_frozen_server_holds_no_call_for_ever(second: Sshd):
    connections = Connections(lambda _: None, Deadlines(stall_s=0.5, answer_s=2.0, farewell_s=0.5))
    transport = connections.transport(target_at(address_of(second)))
    channel = transport.start(("cat",))
    frozen = descendants(second.connections())
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(TimeoutError):
            channel.read(0.2)
        with pytest.raises(LinkLost):
            transport.start(("true",))
        with pytest.raises(ConnectionError):
            channel.write(b"x" * (32 << 20))
    finally:
        for pid in frozen:
            os.kill(pid, signal.SIGKILL)
