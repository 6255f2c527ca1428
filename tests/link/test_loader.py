"""The loader in a forked child: its words, its care, and what it leaves behind."""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from types import SimpleNamespace

import pytest

from dflashctl.link import loader
from dflashctl.link.bundle import read_bundle

BUNDLE = read_bundle()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the loader believes that its user lives."""
    account = SimpleNamespace(pw_dir=str(tmp_path), pw_name="ada", pw_shell="/bin/sh")
    monkeypatch.setattr(pwd, "getpwuid", lambda _: account)
    return tmp_path


def run(state: Path, given: bytes) -> tuple[list[str], int]:
    """The lines that it printed, and its exit code, for this input."""
    requests, sink = os.pipe()
    source, answers = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(sink)
        os.dup2(requests, 0)
        os.dup2(answers, 1)
        code = 0
        try:
            loader.main(BUNDLE.sha256, str(state), "")
        except SystemExit as end:
            code = int(str(end.code))
        os._exit(code)
    os.close(requests)
    os.close(answers)
    with os.fdopen(sink, "wb") as pipe:
        try:
            pipe.write(given)
            pipe.flush()
        except BrokenPipeError:
            pass
    with os.fdopen(source, "rb") as stream:
        lines = stream.read().decode().splitlines()
    return lines, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def sent() -> bytes:
    return BUNDLE.packed()


def cache(home: Path) -> Path:
    return home / ".cache" / "dflashctl"


def test_the_first_time_it_asks_and_installs_and_the_second_time_it_is_ready(home: Path) -> None:
    assert run(home / "s", sent()) == (
        ["dflashctl-agent 1 send", "dflashctl-agent 1 ready"], 0,
    )  # fmt: skip
    assert [entry.name for entry in cache(home).iterdir()] == [BUNDLE.sha256]
    assert run(home / "s", b"") == (["dflashctl-agent 1 ready"], 0)


@pytest.mark.parametrize("given", [b"", b"100", b"100\nshort", sent()[:-5]])
def test_a_bundle_that_breaks_off_is_not_installed(home: Path, given: bytes) -> None:
    lines, code = run(home / "s", given)
    assert (lines, code) == (["dflashctl-agent 1 send"], 1)
    assert list(cache(home).iterdir()) == []


def test_a_bundle_that_was_altered_is_refused(home: Path) -> None:
    import zlib

    altered = zlib.compress(b'{"dflashctl/__init__.py": "evil"}')
    lines, code = run(home / "s", b"%d\n" % len(altered) + altered)
    assert lines[1].startswith("dflashctl-agent 1 refused")
    assert code == 1
    assert list(cache(home).iterdir()) == []


def test_a_damaged_file_is_put_aside_and_all_is_sent_anew(home: Path) -> None:
    run(home / "s", sent())
    (cache(home) / BUNDLE.sha256 / "dflashctl" / "agent" / "serve.py").write_text("evil")
    lines, _ = run(home / "s", sent())
    assert lines == ["dflashctl-agent 1 send", "dflashctl-agent 1 ready"]
    assert [entry.name for entry in cache(home).iterdir()] == [BUNDLE.sha256]


@pytest.mark.parametrize("trick", ["open to others", "a link"])
def test_a_cache_that_somebody_else_could_write_to_is_refused(home: Path, trick: str) -> None:
    if trick == "a link":
        (home / ".cache").mkdir(mode=0o700)
        (home / "elsewhere").mkdir()
        cache(home).symlink_to(home / "elsewhere")
    else:
        cache(home).mkdir(parents=True)
        cache(home).chmod(0o777)
    lines, code = run(home / "s", b"")
    assert lines[0].startswith("dflashctl-agent 1 refused")
    assert code == 1
