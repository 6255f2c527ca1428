"""Sending by scp, to a real one and to some that misbehave."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING

import pytest

from dflashctl.link.connect import Connections
from dflashctl.link.scp import ScpError, send, start
from dflashctl.link.sshchannel import SshTransport
from tests.link.fakes import address_of, target_at

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from dflashctl.link.sshwire import Session
    from tests.sshd import Sshd


@pytest.fixture
def session(sshd: Sshd) -> Iterator[Session]:
    """A session with nothing started in it."""
    with Connections() as connections:
        transport = connections.transport(target_at(address_of(sshd)))
        assert isinstance(transport, SshTransport)
        opened = transport._host.session("there")
        yield opened
        opened.close()


def sent(session: Session, content: bytes, path: Path) -> list[int]:
    """How far it was told to be, time by time."""
    seen: list[int] = []
    start(session, ("scp",), str(path))
    send(session, io.BytesIO(content), len(content), "x", seen.append)
    return seen


@pytest.mark.parametrize("first", [b"C", b"D", b"T", b"E", b"\1", b"\2", b"\0", b"0", b""])
def test_any_content_arrives_whatever_its_first_byte(
    session: Session, tmp_path: Path, first: bytes
):
    content = first + os.urandom(1 << 20) if first else b""
    assert sent(session, content, tmp_path / "here")[-1:] == ([len(content)] if first else [])
    assert (tmp_path / "here").read_bytes() == content


@pytest.mark.parametrize("content", [b"C0644 3 pwned\nabc\0E\n", b"plain\nC0644 3 pwned\nabc\0"])
def test_content_is_never_taken_for_orders_by_a_scp_that_cannot_open_the_file(
    session: Session, tmp_path: Path, content: bytes
):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ScpError, match="No such file"):
        sent(session, content, tmp_path / "empty" / "no" / "folder")
    assert not list((tmp_path / "empty").iterdir())
    assert not list(tmp_path.rglob("pwned"))


def test_a_folder_in_the_place_of_the_file_is_not_filled(session: Session, tmp_path: Path):
    (tmp_path / "taken" / "x").mkdir(parents=True)
    with pytest.raises(ScpError, match="directory"):
        sent(session, b"0" * 100, tmp_path / "taken")


def test_an_end_without_answers_is_told(session: Session):
    session.run("exec true")
    with pytest.raises((ScpError, ConnectionError)):
        send(session, io.BytesIO(b"0" * (8 << 20)), 8 << 20, "x", lambda _: None)
