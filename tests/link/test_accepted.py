"""The key that a host accepted last comes first, and spares a session's round trips."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dflashctl.link.connect import Connections
from dflashctl.link.sshwire import Wire
from tests.link.fakes import address_of, run
from tests.sshd import make_key, start_sshd

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.sshd import Sshd

KNOWN = Path(".cache", "dflashctl", "keys.json")


@pytest.fixture
def foreseen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A word for each connection of which a session was asked along with the login."""
    words: list[str] = []
    foresee = Wire.foresee

    def noted(wire: Wire) -> None:
        words.append("foreseen")
        foresee(wire)

    monkeypatch.setattr(Wire, "foresee", noted)
    return words


def hello(sshd: Sshd, **other: object) -> bytes:
    """What a program says over a connection of its own."""
    with Connections() as connections:
        return run(connections, address_of(sshd, **other))


def test_the_second_connection_asks_for_a_session_along_with_the_login(
    sshd: Sshd, foreseen: list[str]
):
    assert hello(sshd) == b"hello\n"
    assert not foreseen
    assert hello(sshd) == b"hello\n"
    assert foreseen


def test_a_further_session_of_a_foreseen_one_is_opened_as_usual(sshd: Sshd, foreseen: list[str]):
    hello(sshd)
    with Connections() as connections:
        assert [run(connections, address_of(sshd)) for _ in range(3)] == [b"hello\n"] * 3
    assert len(foreseen) == 1


def test_what_is_kept_in_the_file_of_accepted_keys_is_public(
    sshd: Sshd, private_home: Path, foreseen: list[str]
):
    hello(sshd)
    text = (private_home / KNOWN).read_text()
    assert f"{sshd.user}@{sshd.host}:{sshd.port}" in text
    assert "SHA256:" in text


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"a": {}}', "\0"])
def test_a_damaged_file_of_accepted_keys_costs_a_round_trip_and_no_more(
    sshd: Sshd, private_home: Path, foreseen: list[str], damage: str
):
    hello(sshd)
    (private_home / KNOWN).write_text(damage)
    assert hello(sshd) == b"hello\n"
    assert not foreseen
    assert hello(sshd) == b"hello\n"
    assert foreseen


def test_without_a_place_for_the_file_all_goes_on(sshd: Sshd, private_home: Path):
    (private_home / ".cache").write_text("in the way")
    assert [hello(sshd), hello(sshd)] == [b"hello\n", b"hello\n"]


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Sshd]:
    """A server that lets in with two keys: its client key, and ``second`` beside it."""
    server = start_sshd(tmp_path, home=tmp_path)
    make_key(tmp_path / "second")
    with (tmp_path / "authorized_keys").open("a") as lines:
        lines.write((tmp_path / "second.pub").read_text())
    yield server
    server.stop()


def test_the_key_accepted_last_comes_before_those_that_the_host_refuses(
    other: Sshd, tmp_path: Path, private_home: Path
):
    folder = private_home / ".ssh"
    folder.mkdir()
    for name in ("id_rsa", "id_ecdsa"):
        make_key(folder / name)
    shutil.copy(tmp_path / "second", folder / "id_ed25519")
    refused = []
    for _ in range(2):
        assert hello(other, identity_file=None) == b"hello\n"
        refused.append(other.log.read_text().count("Failed publickey"))
    assert refused == [2, 2]


def test_a_key_that_is_no_longer_accepted_gives_way_to_another(
    other: Sshd, tmp_path: Path, private_home: Path, foreseen: list[str]
):
    """The connection on which it was taken for granted is given up for a new one."""
    folder = private_home / ".ssh"
    folder.mkdir()
    for name in ("id_rsa", "id_ed25519"):
        source = other.client_key if name == "id_rsa" else tmp_path / "second"
        shutil.copy(source, folder / name)
    assert hello(other, identity_file=None) == b"hello\n"
    authorized = tmp_path / "authorized_keys"
    lines = authorized.read_text().splitlines(keepends=True)
    first = (private_home / KNOWN).read_text()
    authorized.write_text(lines[1])
    assert hello(other, identity_file=None) == b"hello\n"
    assert foreseen
    assert (private_home / KNOWN).read_text() != first
