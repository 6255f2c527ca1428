"""Key files and passphrases; test_ssh offers them to real servers."""

from __future__ import annotations

import base64
import os
import pty
import subprocess
import sys
import termios
from pathlib import Path

import paramiko
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dflashctl
from dflashctl.link.auth import KeyFile, Keyring, look_at_key
from tests.sshd import make_key, why_no_sshd

pytestmark = pytest.mark.skipif(why_no_sshd() is not None, reason=why_no_sshd() or "")


def seen(path: Path) -> KeyFile:
    file = look_at_key(path)
    assert file is not None
    return file


def public_blob(key: Path) -> bytes:
    return base64.b64decode(key.with_name(key.name + ".pub").read_text().split()[1])


@pytest.mark.parametrize("passphrase", ["", "open sesame"])
@pytest.mark.parametrize("kind", ["ed25519", "rsa", "ecdsa"])
def test_the_public_part_shows_without_the_passphrase(tmp_path: Path, kind: str, passphrase: str):
    key = tmp_path / "key"
    make_key(key, kind=kind, passphrase=passphrase)
    blob = public_blob(key)
    key.with_name("key.pub").unlink()
    assert seen(key) == KeyFile(path=key, blob=blob, encrypted=bool(passphrase), problem=None)
    opened = Keyring(lambda _: passphrase).open(seen(key))
    assert isinstance(opened, paramiko.PKey)
    assert opened.asbytes() == blob


def test_a_pem_key_takes_its_public_part_from_the_file_beside(tmp_path: Path):
    key = tmp_path / "key"
    words = ["ssh-keygen", "-q", "-t", "rsa", "-m", "PEM", "-N", "open sesame", "-f", str(key)]
    subprocess.run(words, check=True, timeout=20)
    file = seen(key)
    assert (file.blob, file.encrypted) == (public_blob(key), True)
    assert isinstance(Keyring(lambda _: "open sesame").open(file), paramiko.PKey)


def test_a_wrong_passphrase_is_asked_for_three_times_and_never_again(tmp_path: Path):
    asked: list[str] = []

    def ask(prompt: str) -> str:
        asked.append(prompt)
        return "wrong"

    make_key(tmp_path / "key", passphrase="open sesame")
    keyring = Keyring(ask)
    for _ in range(2):
        assert keyring.open(seen(tmp_path / "key")) == "the passphrase does not fit"
    assert len(asked) == 3


def test_an_empty_answer_leaves_the_key_alone(tmp_path: Path):
    make_key(tmp_path / "key", passphrase="open sesame")
    assert Keyring(lambda _: "").open(seen(tmp_path / "key")) == "no passphrase was given"


def test_a_missing_file_is_none_and_a_folder_has_a_problem(tmp_path: Path):
    assert look_at_key(tmp_path / "none") is None
    assert seen(tmp_path).problem == "Is a directory"


@given(st.binary(max_size=300))
def test_no_file_breaks_the_reader(tmp_path_factory: pytest.TempPathFactory, content: bytes):
    path = tmp_path_factory.getbasetemp() / "any_key"
    path.write_bytes(content)
    path.chmod(0o600)
    assert isinstance(Keyring(lambda _: None).open(seen(path)), str)


ROOT = Path(str(dflashctl.__file__)).parents[1]
ASK = "from dflashctl.link.asking import ask_on_terminal; print(ask_on_terminal('Say it: '))"


def test_without_a_terminal_nobody_is_asked():
    done = subprocess.run(
        [sys.executable, "-c", ASK],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        start_new_session=True,
        timeout=20,
        check=True,
    )
    assert done.stdout == b"None\n"


@pytest.mark.parametrize(
    ("typed", "answer"), [(b"open sesame\n", b"open sesame\n"), (b"\x04", b"\n")]
)
def test_on_a_terminal_the_answer_is_read_without_an_echo(typed: bytes, answer: bytes):
    ours, theirs = pty.openpty()
    # Opening it makes it the controlling terminal of the new session.
    take = f"import os; os.open({os.ttyname(theirs)!r}, os.O_RDWR); "
    process = subprocess.Popen(
        [sys.executable, "-c", take + ASK],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    shown = b""
    while b"Say it: " not in shown:
        shown += os.read(ours, 100)
    assert not termios.tcgetattr(theirs)[3] & termios.ECHO
    os.write(ours, typed)
    assert process.communicate(timeout=20)[0] == answer
    assert b"sesame" not in shown
    os.close(ours)
    os.close(theirs)
