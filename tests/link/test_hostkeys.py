"""The verdict on a host key, in pure form; test_ssh meets real servers."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflashctl.errors import HostKeyChanged, HostKeyUnknown
from dflashctl.link.hostkeys import HostName, KnownHosts, fingerprint, read_known_hosts, record

if TYPE_CHECKING:
    from pathlib import Path

ED, RSA = "ssh-ed25519", "ssh-rsa"
OURS, OTHER = b"our key", b"another key"
HOST = HostName(host="kpro6", port=22)


def line(names: str, blob: bytes = OURS, kind: str = ED) -> str:
    return f"{names} {kind} {base64.b64encode(blob).decode()} a comment"


def hashed(name: str) -> str:
    salt = b"0123456789abcdefghij"
    digest = hmac.new(salt, name.encode(), hashlib.sha1).digest()
    return f"|1|{base64.b64encode(salt).decode()}|{base64.b64encode(digest).decode()}"


@pytest.fixture
def known(tmp_path: Path):
    def read(*lines: str) -> KnownHosts:
        path = tmp_path / "known_hosts"
        path.write_text("\n".join(lines))
        return read_known_hosts([path])

    return read


@pytest.mark.parametrize(
    ("names", "name"),
    [
        ("kpro6", HOST),
        ("KPRO6,192.0.2.6", HOST),
        ("other,kpro?", HOST),
        ("*", HOST),
        (hashed("kpro6"), HOST),
        ("[kpro6]:2222", HostName(host="kpro6", port=2222)),
        (hashed("[kpro6]:2222"), HostName(host="kpro6", port=2222)),
        ("kpro6", HostName(host="kpro6", port=2222)),  # as OpenSSH: its key on port 22 will do
        ("lab", HostName(host="kpro6", port=2222, alias="lab")),
    ],
)
def test_a_listed_key_is_accepted(known, names: str, name: HostName):
    known(line(names)).check("t", name, ED, OURS)


@pytest.mark.parametrize(
    ("names", "name"),
    [
        ("kpro60", HOST),
        ("*,!kpro6", HOST),
        (hashed("kpro7"), HOST),
        ("|1|nonsense", HOST),
        ("[kpro6]:2222", HOST),
        ("kpro6", HostName(host="kpro6", port=22, alias="lab")),
        ("k[a-z]ro6", HOST),
    ],
)
def test_a_key_of_somebody_else_does_not_count(known, names: str, name: HostName):
    with pytest.raises(HostKeyUnknown) as caught:
        known(line(names)).check("t", name, ED, OURS)
    assert caught.value.fingerprint == fingerprint(OURS)


def test_another_key_than_the_listed_one_is_a_change_with_file_and_line(known, tmp_path: Path):
    with pytest.raises(HostKeyChanged) as caught:
        known("# a comment", line("kpro6", b"rsa", RSA), line("kpro6", OTHER)).check(
            "t", HOST, ED, OURS
        )
    assert (caught.value.known_hosts, caught.value.line) == (str(tmp_path / "known_hosts"), 3)
    assert caught.value.expected == fingerprint(OTHER)
    assert caught.value.fingerprint == fingerprint(OURS)


def test_a_key_of_another_type_than_the_listed_one_is_a_change(known):
    with pytest.raises(HostKeyChanged):
        known(line("kpro6", OTHER, RSA)).check("t", HOST, ED, OURS)


def test_one_of_several_listed_keys_is_enough(known):
    known(line("kpro6", OTHER), line("kpro6")).check("t", HOST, ED, OURS)


def test_a_revoked_key_is_refused_though_it_is_listed_too(known):
    with pytest.raises(HostKeyChanged) as caught:
        known(line("kpro6"), f"@revoked {line('*')}").check("t", HOST, ED, OURS)
    assert caught.value.expected == "revoked"


def test_a_certificate_authority_vouches_for_no_plain_key(known):
    with pytest.raises(HostKeyUnknown):
        known(f"@cert-authority {line('*')}").check("t", HOST, ED, OURS)


def test_known_types_are_asked_for_first(known):
    hosts = known(line("kpro6", OTHER, RSA), line("kpro6"), line("kpro7", kind="ecdsa"))
    assert hosts.key_types(HOST) == (RSA, ED)


def test_all_files_count_and_a_missing_one_vouches_for_nobody(tmp_path: Path):
    second = tmp_path / "second"
    second.write_text(line("kpro6"))
    read_known_hosts([tmp_path / "missing", second]).check("t", HOST, ED, OURS)


@given(st.lists(st.text(max_size=80)))
def test_no_file_breaks_the_reader(tmp_path_factory: pytest.TempPathFactory, lines: list[str]):
    path = tmp_path_factory.getbasetemp() / "any_known_hosts"
    path.write_text("\n".join(lines), encoding="utf-8", errors="surrogatepass")
    with pytest.raises(HostKeyUnknown):
        read_known_hosts([path]).check("t", HOST, ED, OURS)


@pytest.mark.parametrize("hashes", [True, False])
@pytest.mark.parametrize("before", [None, "", "# no newline", "other ssh-rsa AAAA\n"])
def test_a_recorded_key_is_vouched_for_and_nothing_else_changes(
    tmp_path: Path, before: str | None, hashes: bool
):
    path = tmp_path / "ssh" / "known_hosts"
    if before is not None:
        path.parent.mkdir()
        path.write_text(before)
    record(path, HostName(host="kpro6", port=2222), ED, OURS, hashed=hashes)
    text = path.read_text()
    assert text.startswith(before or "")
    assert text.endswith("\n")
    assert ("kpro6" in text) != hashes
    known = read_known_hosts([path])
    known.check("t", HostName(host="KPRO6", port=2222), ED, OURS)
    with pytest.raises(HostKeyUnknown):
        known.check("t", HOST, ED, OURS)
    if before is None:
        assert path.stat().st_mode & 0o077 == path.parent.stat().st_mode & 0o077 == 0
