"""Many targets behind one sshd: sessions share its connections, and its limits are respected."""

from __future__ import annotations

import hashlib
import threading
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from dflashctl.agent.protocol import Commit, FileWanted, Look, PlaceFiles, Receive, Who
from dflashctl.errors import DflashError
from dflashctl.inventory.model import Target
from dflashctl.link.archive import Archives
from dflashctl.link.connect import Connections, open_agent
from dflashctl.link.fanout import each
from dflashctl.playbook.model import PushedFile
from tests.link.fakes import address_of, target_at, write_python
from tests.sshd import start_sshd

if TYPE_CHECKING:
    from pathlib import Path

MANY = 16


@pytest.mark.slow
@pytest.mark.parametrize(("sessions", "connected"), [(10, 2), (1, MANY), (100, 1)])
def test_all_are_reached_and_sent_to_over_as_few_connections_as_there_must_be(
    home: Path, tmp_path: Path, sessions: int, connected: int
):
    """The server lets nobody in while two others are on their way in: none may be."""
    content = bytes(range(256)) * 4000
    (tmp_path / "source").write_bytes(content)
    (tmp_path / "sshd").mkdir()
    extra = (f"MaxSessions {sessions}", "MaxStartups 2:100:2")
    server = start_sshd(tmp_path / "sshd", home=home, extra=extra)
    at = target_at(address_of(server), write_python(tmp_path / "py", home))
    targets = tuple(
        replace(at, name=f"box/{number}", state_dir=str(tmp_path / f"state-{number}"))
        for number in range(MANY)
    )
    wanted = {
        one.name: FileWanted(
            dest=str(tmp_path / f"arrived-{number}"),
            sha256=hashlib.sha256(content).hexdigest(),
            size=len(content),
            mode=0o600,
        )
        for number, one in enumerate(targets)
    }
    # All hold their session before any asks for the one that the file takes.
    all_there = threading.Barrier(MANY, timeout=60)

    def bring(target: Target) -> int | None:
        file = wanted[target.name]
        look = Look(job="j", session="j", tmux_socket=str(home / "t"), files=(file,), gpus=False)
        try:
            opened = open_agent(target, connections, look)
        except DflashError:
            all_there.abort()
            raise
        with opened as agent:
            seen = agent.observe(look)
            with suppress(threading.BrokenBarrierError):  # another one's error says why
                all_there.wait()
            pushed = PushedFile(source=tmp_path / "source", dest=file.dest, mode=0o600)
            agent.push("t-1", archives.of([pushed], [file]), lambda *_: None)
            commit = Commit(
                transaction="t-1",
                look=look,
                fingerprint=seen.fingerprint,
                actions=(Receive(files=(file,)), PlaceFiles(files=(file,))),
                who=Who(user="me", host="here", version="0"),
            )
            return agent.commit(commit, lambda _: None).failed_at

    try:
        with Connections(lambda _: None) as connections, Archives() as archives:
            ended = each(targets, bring, at_once=MANY)
        assert [str(one) for one in ended if isinstance(one, DflashError)] == []
        assert ended == [None] * MANY
        for file in wanted.values():
            assert (tmp_path / file.dest).read_bytes() == content
        log = server.log.read_text(errors="replace")
        assert log.count("Accepted publickey") == connected
        assert "MaxStartups" not in log
    finally:
        server.stop()
