"""inventory trust against real servers: what it shows, asks, records and refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dflashctl.cli.call import Call
from dflashctl.cli.main import main
from tests.cli.world import Result
from tests.sshd import fingerprint, known_hosts_line, make_key, start_sshd

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.sshd import Sshd


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    def command(*words: str) -> Result:
        environ = {"HOME": str(tmp_path), "TERM": "dumb"}
        code = main(("inventory", *words), Call(environ=environ, cwd=tmp_path))
        return Result(code, *capsys.readouterr())

    return command


def place(sshd: Sshd) -> str:
    return f"{sshd.user}@{sshd.host}:{sshd.port}"


@pytest.mark.provokes("needs_yes")
def test_without_a_terminal_it_asks_for_a_word(run, sshd: Sshd, tmp_path: Path):
    result = run("trust", place(sshd), "--known-hosts-file", "known")
    assert result.code == 2
    assert fingerprint(sshd.host_key) in result.err
    assert "--yes" in result.err
    assert not (tmp_path / "known").exists()


@pytest.mark.parametrize("how", ["--yes", "--fingerprint"])
def test_a_recorded_key_is_one_that_ssh_knows(run, sshd: Sshd, tmp_path: Path, how: str):
    (tmp_path / "known").write_text("# no newline at the end")
    words = (how, fingerprint(sshd.host_key)) if how == "--fingerprint" else (how,)
    result = run("trust", place(sshd), "--known-hosts-file", "known", *words, "--json")
    assert result.code == 0, result.err
    (key,) = json.loads(result.out)["targets"][place(sshd)]["keys"]
    assert (key["fingerprint"], key["state"]) == (fingerprint(sshd.host_key), "recorded")
    found = subprocess.run(
        ["ssh-keygen", "-F", f"[{sshd.host}]:{sshd.port}", "-f", tmp_path / "known"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "found: line 2" in found.stdout
    again = run("trust", place(sshd), "--known-hosts-file", "known")
    assert (again.code, "known already" in again.err) == (0, True)
    assert len((tmp_path / "known").read_text().splitlines()) == 2


@pytest.mark.provokes("other_fingerprint")
def test_another_fingerprint_than_the_named_one_is_refused(run, sshd: Sshd, tmp_path: Path):
    words = ("--known-hosts-file", "known", "--fingerprint", "SHA256:x")
    result = run("trust", place(sshd), *words)
    assert result.code == 76
    assert fingerprint(sshd.host_key) in result.err
    assert not (tmp_path / "known").exists()


def test_a_changed_key_is_never_recorded(run, sshd: Sshd, tmp_path: Path):
    make_key(tmp_path / "old")
    line = known_hosts_line(f"[{sshd.host}]:{sshd.port}", tmp_path / "old")
    (tmp_path / "known").write_text(line)
    shown = fingerprint(sshd.host_key)
    words = ("--known-hosts-file", "known", "--yes", "--fingerprint", shown)
    result = run("trust", place(sshd), *words)
    assert result.code == 76
    assert shown in result.err
    assert fingerprint(tmp_path / "old") in result.err
    assert f"ssh-keygen -f {tmp_path / 'known'} -R" in result.err
    assert (tmp_path / "known").read_text() == line


def test_a_host_behind_another_is_asked_through_it(run, sshd: Sshd, tmp_path: Path):
    (tmp_path / "inner").mkdir()
    inner = start_sshd(tmp_path / "inner")
    (tmp_path / "inventory").mkdir()
    (tmp_path / "inventory" / "hosts.yml").write_text(f"""\
version: 1
hosts:
  bastion:
    address: 127.0.0.1
    port: {sshd.port}
    user: {sshd.user}
    identity_file: {sshd.client_key}
    known_hosts_file: {tmp_path / "known"}
    proxy_jump: none
  inner:
    address: 127.0.0.1
    port: {inner.port}
    user: {inner.user}
    known_hosts_file: {tmp_path / "known"}
    proxy_jump: bastion
    containers:
      box: {{vmid: 200}}
""")
    try:
        result = run("trust", "box", "--yes", "--json")
        assert result.code == 0, result.err
        keys = json.loads(result.out)["targets"]["box"]["keys"]
        wanted = [fingerprint(sshd.host_key), fingerprint(inner.host_key)]
        assert [key["fingerprint"] for key in keys] == wanted
    finally:
        inner.stop()


@pytest.mark.parametrize(("typed", "code"), [("yes\n", 0), ("y\nno\n", 76), ("\n", 76)])
def test_on_a_terminal_it_asks(
    run, sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: str, code: int
):
    terminal = Terminal(typed)
    monkeypatch.setattr(sys, "stdin", terminal)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    result = run("trust", place(sshd), "--known-hosts-file", "known")
    assert result.code == code
    assert fingerprint(sshd.host_key) in result.err
    assert (tmp_path / "known").exists() == (code == 0)


class Terminal:
    """Standard input where somebody types."""

    def __init__(self, typed: str) -> None:
        self._lines = iter(typed.splitlines(keepends=True))

    def isatty(self) -> bool:
        return True

    def readline(self) -> str:
        return next(self._lines, "")


def test_this_machine_has_no_key_to_trust(run, tmp_path: Path):
    (tmp_path / "inventory").mkdir()
    text = "version: 1\nhosts:\n  here: {connection: local}\n"
    (tmp_path / "inventory" / "hosts.yml").write_text(text)
    assert run("trust", "here").code == 0


@pytest.mark.provokes("bad_address")
@pytest.mark.parametrize("word", ["a b", "a,b", "x:99999999", "user@", "a/b"])
def test_what_is_no_address_is_told(run, word: str):
    result = run("trust", word)
    assert result.code == 2
    assert "no address" in result.err


def test_what_is_to_be_typed_for_an_unknown_key_is_what_helps(
    sshd: Sshd, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "other.yml").write_text(f"""\
version: 1
hosts:
  box:
    address: 127.0.0.1
    port: {sshd.port}
    known_hosts_file: {tmp_path / "known"}
    proxy_jump: none
""")
    call = Call(environ={"HOME": str(tmp_path)}, cwd=tmp_path)
    assert main(("-i", "other.yml", "inventory", "check", "--json"), call) == 76
    error = json.loads(capsys.readouterr().out)["targets"]["box"]["error"]
    assert error["detail"]["fingerprint"] == fingerprint(sshd.host_key)
    typed = error["next"].partition("dflashctl ")[2].split()
    call = Call(environ={"HOME": str(tmp_path)}, cwd=tmp_path)
    assert main((*typed, "--yes"), call) == 0
    assert (tmp_path / "known").exists()
