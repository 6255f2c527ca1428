"""An sshd that turns some away: MaxStartups, seen from who is turned away."""

from __future__ import annotations

import socket
import threading
import time
from typing import TYPE_CHECKING

import pytest

from dflashctl.errors import Unreachable
from dflashctl.link.connect import Connections
from dflashctl.link.deadlines import Deadlines
from tests.link.fakes import address_of, run
from tests.link.test_ssh import second
from tests.sshd import start_sshd

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.sshd import Sshd

__all__ = ["second"]  # the fixture


@pytest.fixture
def narrow(tmp_path: Path) -> Iterator[Sshd]:
    """It lets one be on the way in at a time, and hangs up on all others."""
    (tmp_path / "narrow").mkdir()
    server = start_sshd(tmp_path / "narrow", home=tmp_path, extra=["MaxStartups 1:100:1"])
    yield server
    server.stop()


def in_the_doorway(server: Sshd) -> socket.socket:
    """Somebody who does not come in, with the server's first line already read."""
    there = socket.create_connection((server.host, server.port), timeout=10)
    until = time.monotonic() + 10
    while not (said := there.recv(8)).startswith(b"SSH-"):
        # The server's own test of its being up may still stand there.
        assert time.monotonic() < until, said
        there.close()
        time.sleep(0.05)
        there = socket.create_connection((server.host, server.port), timeout=10)
    return there


def test_who_is_turned_away_comes_back_until_there_is_room(narrow: Sshd):
    doorway = in_the_doorway(narrow)
    threading.Timer(1.5, doorway.close).start()
    began = time.monotonic()
    with Connections(lambda _: None) as connections:
        assert run(connections, address_of(narrow)) == b"hello\n"
    assert time.monotonic() - began > 1.0


def test_nobody_comes_back_for_ever(narrow: Sshd):
    with (
        in_the_doorway(narrow),
        Connections(lambda _: None, Deadlines(crowded_s=1.0)) as connections,
        pytest.raises(Unreachable),
    ):
        run(connections, address_of(narrow))


def test_behind_a_jump_it_is_the_same(narrow: Sshd, second: Sshd):
    doorway = in_the_doorway(narrow)
    threading.Timer(1.0, doorway.close).start()
    with Connections(lambda _: None) as connections:
        address = address_of(narrow, jump=address_of(second))
        assert run(connections, address) == b"hello\n"


def test_who_was_told_no_does_not_come_back(sshd: Sshd, tmp_path: Path):
    began = time.monotonic()
    with Connections(lambda _: None) as connections, pytest.raises(Exception, match="key"):
        run(connections, address_of(sshd, known_hosts_file=tmp_path / "none"))
    assert time.monotonic() - began < 15
