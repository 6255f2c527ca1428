"""From a bare python3 to a greeting: the loader's cache, and what can be wrong with it."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dflashctl.agent.protocol import Look
from dflashctl.agent.seen import Observed
from dflashctl.errors import DflashError, MissingTool, Refused, Unreachable
from dflashctl.inventory.model import Local, Target
from dflashctl.link import bundle, connect
from dflashctl.link.bundle import agent_words, loader_text, read_bundle
from dflashctl.link.connect import Connections, open_agent
from dflashctl.link.deadlines import Deadlines
from tests.link.fakes import address_of, scripted, target_at, write_python
from tests.sshd import start_sshd

if TYPE_CHECKING:
    from tests.sshd import Sshd

LOOK = Look(job="dflash", session="dflash")
USUAL = Deadlines()
FAKE = scripted(
    """
    while True:
        hear()
        say(observed(hostname=sys.path[0], user=os.environ["HOME"], python=__file__))
    """
)


@pytest.fixture(autouse=True)
def fake_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "read_bundle", lambda: FAKE)


def look(target: Target, deadlines: Deadlines = USUAL) -> Observed:
    with Connections(deadlines=deadlines) as connections, open_agent(target, connections) as agent:
        return agent.observe(LOOK)


def cache(home: Path) -> Path:
    return home / ".cache" / "dflashctl"


def sent(caplog: pytest.LogCaptureFixture) -> int:
    return sum("sending the agent" in record.message for record in caplog.records)


def fails(target: Target, deadlines: Deadlines = USUAL) -> DflashError:
    with pytest.raises(DflashError) as caught:
        look(target, deadlines)
    return caught.value


def test_the_first_start_leaves_the_agent_there_and_the_second_finds_it(
    here: Target, home: Path, caplog: pytest.LogCaptureFixture
):
    caplog.set_level("DEBUG", "dflashctl.link")
    first = look(here)
    assert first.hostname == str(cache(home) / FAKE.sha256)
    assert first.user == str(home)
    assert look(here) == first
    assert sent(caplog) == 1
    assert [entry.name for entry in cache(home).iterdir()] == [FAKE.sha256]
    for folder in (cache(home), cache(home) / FAKE.sha256):
        assert folder.stat().st_mode & 0o777 == 0o700
    assert list((cache(home) / FAKE.sha256).rglob("*.pyc")), "it is compiled once only"


def test_it_works_over_ssh_as_well(sshd: Sshd, tmp_path: Path, home: Path):
    path = write_python(tmp_path / "py", home)
    assert look(target_at(address_of(sshd), path)).user == str(home)


@pytest.mark.parametrize("damage", ["changed", "added", "removed", "linked", "writable", "binary"])
def test_damaged_files_are_sent_anew_and_never_imported(
    here: Target, home: Path, damage: str, caplog: pytest.LogCaptureFixture, tmp_path: Path
):
    look(here)
    folder = cache(home) / FAKE.sha256
    serve = folder / "dflashctl" / "agent" / "serve.py"
    evil = "raise SystemExit('imported')"
    match damage:
        case "changed":
            serve.write_text(evil)
        case "added":
            (folder / "json.py").write_text(evil)
        case "removed":
            serve.unlink()
        case "linked":
            (tmp_path / "evil.py").write_bytes(serve.read_bytes())
            serve.unlink()
            serve.symlink_to(tmp_path / "evil.py")
        case "writable":
            folder.chmod(0o777)
        case _:
            serve.write_bytes(b"\xff\xfe")
    caplog.clear()
    caplog.set_level("DEBUG", "dflashctl.link")
    assert look(here).state == "NONE"
    assert sent(caplog) == 1
    assert [entry.name for entry in cache(home).iterdir()] == [FAKE.sha256]
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_link_in_the_place_of_the_files_is_replaced_and_not_followed(
    here: Target, home: Path, tmp_path: Path
):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").touch()
    cache(home).mkdir(parents=True, mode=0o700)
    (cache(home) / FAKE.sha256).symlink_to(elsewhere)
    assert look(here).hostname == str(cache(home) / FAKE.sha256)
    assert not (cache(home) / FAKE.sha256).is_symlink()
    assert [entry.name for entry in elsewhere.iterdir()] == ["kept"]


@pytest.mark.provokes("refused.agent_cache")
def test_a_cache_that_is_a_link_is_refused(here: Target, home: Path, tmp_path: Path):
    (tmp_path / "elsewhere").mkdir()
    (home / ".cache").mkdir()
    cache(home).symlink_to(tmp_path / "elsewhere")
    error = fails(here)
    assert isinstance(error, Refused)
    assert error.refusals[0].code == "agent_cache"
    assert str(cache(home)) in error.refusals[0].message


def test_a_cache_that_others_may_write_to_is_refused(here: Target, home: Path):
    cache(home).mkdir(parents=True)
    cache(home).chmod(0o777)
    assert isinstance(fails(here), Refused)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_cache_of_somebody_else_is_refused(here: Target, home: Path):
    cache(home).mkdir(parents=True, mode=0o700)
    os.chown(cache(home), 65534, 65534)
    assert isinstance(fails(here), Refused)


def test_a_cache_that_cannot_be_made_is_told_with_the_cause(here: Target, home: Path):
    (home / ".cache").write_text("a file")
    error = fails(here)
    assert isinstance(error, Refused)
    assert "Not a directory" in error.refusals[0].message or "File exists" in str(error)


def test_many_first_starts_at_once_all_work(here: Target, home: Path):
    seen: list[Observed] = []
    threads = [threading.Thread(target=lambda: seen.append(look(here))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(seen) == 6
    assert [entry.name for entry in cache(home).iterdir()] == [FAKE.sha256]


# --- what stands in the way of a greeting -----------------------------------------------


def impostor(folder: Path, script: str) -> Target:
    """A target whose ``python3`` is a shell script. ``$REAL`` starts the real one."""
    folder.mkdir(exist_ok=True)
    program = folder / "python3"
    program.write_text(f"#!/bin/sh\nREAL={sys.executable}\n{script}\n")
    program.chmod(0o755)
    return Target(name="here", route=Local(), path=(str(folder),))


@pytest.mark.parametrize("noise", ["welcome\n", "no newline", "x" * 50_000, "\\377\\n{}\n"])
def test_a_greeting_is_found_behind_noise(tmp_path: Path, home: Path, noise: str):
    real = write_python(tmp_path / "real", home)
    target = impostor(tmp_path / "py", f"printf '{noise}'; exec {real}/python3 \"$@\"")
    assert look(target).state == "NONE"


def test_banners_and_a_talkative_bashrc_do_no_harm(tmp_path: Path, home: Path):
    banner = tmp_path / "banner"
    banner.write_text("*** authorised use only ***\n" * 50)
    (home / ".bashrc").write_text("echo hello; echo oops >&2; printf 'no newline'\n")
    (tmp_path / "sshd").mkdir()
    server = start_sshd(tmp_path / "sshd", home=home, extra=[f"Banner {banner}"])
    try:
        path = write_python(tmp_path / "py", home)
        assert look(target_at(address_of(server), path)).state == "NONE"
    finally:
        server.stop()


def test_no_python_is_a_missing_tool(sshd: Sshd):
    for route in (Local(), address_of(sshd)):
        error = fails(Target(name="t", route=route, python="python3-of-nobody"))
        assert isinstance(error, MissingTool), error
        assert error.tool == "python3"


def test_an_old_python_says_its_version(tmp_path: Path):
    target = impostor(
        tmp_path / "py",
        'n=0; for w; do [ "$p" = -c ] && t=$w; p=$w; done\n'
        'exec $REAL -c "import sys; sys.version_info = (3, 6, 15, 0, 0); sys.argv = [0, 1, 2]\n$t"',
    )
    error = fails(target)
    assert isinstance(error, MissingTool)
    assert "3.6.15" in error.detail


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo This account is not available; exit 1", "This account is not available"),
        ("echo cannot start >&2; exit 3", "exit code 3; cannot start"),
        ("yes | head -c 200000; sleep 60", "much output"),
        ("printf 'dflashctl-agent 2 ready\\n'; sleep 60", "version 2"),
    ],
)
def test_what_came_instead_of_a_greeting_is_told(tmp_path: Path, script: str, reason: str):
    error = fails(impostor(tmp_path / "py", script))
    assert isinstance(error, Unreachable)
    assert reason in error.reason


def test_a_mute_program_is_not_waited_for_past_the_deadline(tmp_path: Path):
    error = fails(impostor(tmp_path / "py", "exec sleep 3"), Deadlines(greeting_s=0.5))
    assert isinstance(error, Unreachable)
    assert "no greeting" in error.reason


# --- the texts --------------------------------------------------------------------------


def test_the_loader_is_small_old_pythons_read_it_and_shells_do_not_mind():
    text = loader_text()
    assert len(text) < 3500
    ast.parse(text, feature_version=(3, 6))
    assert not set("'\\") & set(text)
    assert '"""' not in text
    assert "dflashctl-agent 1" not in text, "an echo of the command must not look like a greeting"


def test_the_bundle_holds_the_agent_and_libtmux_and_no_test_of_theirs():
    real = read_bundle()
    assert {"dflashctl/__init__.py", "dflashctl/agent/wire.py", "libtmux/server.py"} <= set(
        real.files
    )
    assert not [path for path in real.files if "pytest" in path or "/test/" in path]
    assert read_bundle() == real


def test_the_bundles_hash_tells_contents_and_paths_apart(monkeypatch: pytest.MonkeyPatch):
    before = read_bundle().sha256
    read = bundle._text
    monkeypatch.setattr(bundle, "_text", lambda path: read(path) + "#")
    assert read_bundle().sha256 != before


def test_what_is_shipped_imports_without_site_packages(tmp_path: Path):
    for path, text in read_bundle().files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import libtmux; "
    code += "import dflashctl.agent.wire; print('fine')"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, timeout=20, check=False
    )
    assert done.stdout == b"fine\n", done.stderr


def test_the_agents_words_fix_its_environment():
    words = agent_words("python3", "/a:/b", "0" * 64, "~/state")
    assert words[:10] == (
        *("env", "-i", "PATH=/a:/b", "LC_ALL=C.UTF-8", "python3"),
        *("-I", "-S", "-X", "utf8", "-c"),
    )
    assert words[-3:] == ("0" * 64, "~/state", "")
    assert agent_words("python3", "/a", "0" * 64, None, "eJw=")[-2:] == ("", "eJw=")


def test_the_bundle_travels_packed_with_its_length():
    length, _, data = FAKE.packed().partition(b"\n")
    assert int(length) == len(data)
    assert len(data) < len(json.dumps(FAKE.files))
