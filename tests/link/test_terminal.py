"""The argv for a person's terminal: run with the real ssh where there is one."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from dflashctl.inventory.model import SshAddress
from dflashctl.link.connect import Connections
from dflashctl.link.terminal import terminal_on
from tests.link.fakes import address_of, target_at
from tests.sshd import start_sshd

if TYPE_CHECKING:
    from tests.sshd import Sshd


def run_on_a_terminal(words: tuple[str, ...]) -> tuple[int, bytes]:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE)
    os.close(theirs)
    said = b""
    try:
        while piece := os.read(ours, 65536):
            said += piece
    except OSError:
        pass  # the other side is closed
    os.close(ours)
    return process.wait(10), said + process.communicate(timeout=10)[1]


def test_what_the_inventory_says_becomes_options():
    address = SshAddress(
        address="kpro6",
        port=2222,
        user="root",
        identity_file=Path("/k"),
        known_hosts_file=Path("/with space/known"),
        jump="none",
    )
    assert terminal_on(address, ("tmux", "attach", "-t", "=it's")) == (
        *("ssh", "-t", "-a", "-o", "RemoteCommand=none", "-o", "StrictHostKeyChecking=yes"),
        *("-p", "2222", "-l", "root", "-o", 'IdentityFile="/k"'),
        *("-o", 'UserKnownHostsFile="/with space/known"', "-o", "ProxyJump=none"),
        *("--", "kpro6", "tmux attach -t '=it'\"'\"'s'"),
    )


def test_a_program_gets_a_real_terminal_and_its_words(sshd: Sshd, connections: Connections):
    target = target_at(address_of(sshd))
    words = ("sh", "-c", 'test -t 0 && printf "<%s>" "$@"', "sh", "a b", "$HOME", "")
    code, said = run_on_a_terminal(connections.transport(target).terminal_words(words))
    assert (code, b"<a b><$HOME><>" in said) == (0, True), said


def test_an_unknown_host_is_refused_by_ssh_too(sshd: Sshd, tmp_path: Path):
    address = address_of(sshd, known_hosts_file=tmp_path / "empty")
    code, said = run_on_a_terminal(terminal_on(address, ("true",)))
    assert code == 255, said


def test_a_terminal_goes_through_jumps_with_keys_of_their_own(sshd: Sshd, tmp_path: Path):
    folder, odd = tmp_path / "bastion", tmp_path / '50% of %h\'s "keys"'
    folder.mkdir()
    odd.mkdir()
    bastion = start_sshd(folder)
    try:
        for file in (bastion.client_key, bastion.known_hosts):
            shutil.copy2(file, odd)
        near = address_of(
            bastion, identity_file=odd / "client_key", known_hosts_file=odd / "known_hosts"
        )
        middle = address_of(sshd, jump=near)
        far = address_of(bastion, jump=middle)
        code, said = run_on_a_terminal(terminal_on(far, ("echo", "here I am")))
        assert (code, b"here I am" in said) == (0, True), said
        # Not past a jump host that nobody vouches for.
        stranger = address_of(sshd, jump=address_of(bastion, known_hosts_file=tmp_path / "empty"))
        assert run_on_a_terminal(terminal_on(stranger, ("true",)))[0] == 255
    finally:
        bastion.stop()
