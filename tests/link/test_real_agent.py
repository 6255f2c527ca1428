"""The real agent, shipped and started as a target gets it."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from dflashctl.agent.protocol import Commit, FileWanted, Look, PlaceFiles, Receive, Who
from dflashctl.inventory.model import Local, Target
from dflashctl.link.archive import Archives
from dflashctl.link.connect import Connections, open_agent
from dflashctl.link.local import LocalTransport
from dflashctl.link.sshchannel import SshTransport
from dflashctl.link.transport import NoFileChannel
from dflashctl.playbook.model import PushedFile
from tests.link.fakes import address_of, write_python

if TYPE_CHECKING:
    from pathlib import Path

    from tests.sshd import Sshd


@pytest.mark.parametrize("way", ["local", "ssh"])
@pytest.mark.parametrize("files_go", ["as a file", "over the agent's channel"])
def test_a_file_is_pushed_checked_and_put_in_place(
    sshd: Sshd,
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    way: str,
    files_go: str,
):
    def refuse(*_: object) -> None:
        raise NoFileChannel("not today")

    if files_go != "as a file":
        monkeypatch.setattr(LocalTransport, "send_file", refuse)
        monkeypatch.setattr(SshTransport, "send_file", refuse)
    content = bytes(range(256)) * 1000
    (tmp_path / "source").write_bytes(content)
    dest = str(home / "né w" / "train.py")
    (home / "né w").mkdir()
    wanted = FileWanted(
        dest=dest, sha256=hashlib.sha256(content).hexdigest(), size=len(content), mode=0o750
    )
    target = Target(
        name="box",
        route=Local() if way == "local" else address_of(sshd),
        path=(write_python(tmp_path / "py", home),),
        state_dir=str(home / "state"),
    )
    look = Look(job="j", session="j", tmux_socket=str(home / "tmux"), files=(wanted,), gpus=False)
    with Connections() as connections, open_agent(target, connections, look) as agent:
        seen = agent.observe(look)
        assert seen.files[0].sha256 is None
        pushed = PushedFile(source=tmp_path / "source", dest=dest, mode=0o750)
        with Archives() as archives:
            agent.push("t-1", archives.of([pushed], [wanted]), lambda *_: None)
        outcome = agent.commit(
            Commit(
                transaction="t-1",
                look=look,
                fingerprint=seen.fingerprint,
                actions=(Receive(files=(wanted,)), PlaceFiles(files=(wanted,))),
                who=Who(user="me", host="here", version="0"),
            ),
            lambda _: None,
        )
    assert (outcome.failed_at, outcome.failure) == (None, None)
    assert (home / "né w" / "train.py").read_bytes() == content
    assert (home / "né w" / "train.py").stat().st_mode & 0o777 == 0o750
