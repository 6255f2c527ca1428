"""The agent's files against another user of the target, who would have us run theirs."""

from __future__ import annotations

import os
import pwd
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import other_user
from tests.link.test_loader import BUNDLE, cache, run, sent

pytestmark = other_user.needs_root


@pytest.fixture
def home(work: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the loader believes that its user lives; others may look into it."""
    work.chmod(0o755)
    account = SimpleNamespace(pw_dir=str(work), pw_name="ada", pw_shell="/bin/sh")
    monkeypatch.setattr(pwd, "getpwuid", lambda _: account)
    return work


@pytest.fixture
def open_home(home: Path) -> Iterator[Path]:
    """A home in which everybody may make files, as in /tmp, and move their own."""
    home.chmod(0o1777)
    yield home
    home.chmod(0o755)


def refused(home: Path, given: bytes = b"") -> str:
    lines, code = run(home / "s", given)
    assert code == 1, lines
    assert lines[-1].startswith("dflashctl-agent 1 refused"), lines
    return lines[-1]


def test_a_cache_that_another_user_made_first_is_refused(open_home: Path) -> None:
    other_user.does(lambda: cache(open_home).mkdir(parents=True))
    assert "not a folder of this user alone" in refused(open_home)


def test_a_link_that_another_user_made_first_is_not_followed(open_home: Path) -> None:
    theirs = open_home / "theirs"

    def attack() -> None:
        theirs.mkdir()
        (open_home / ".cache").mkdir()
        cache(open_home).symlink_to(theirs)

    other_user.does(attack)
    refused(open_home, sent())
    assert list(theirs.iterdir()) == []


def test_a_folder_above_that_is_another_users_is_refused(open_home: Path) -> None:
    other_user.does(lambda: (open_home / ".cache").mkdir(mode=0o777))
    assert "a folder above it is open to others" in refused(open_home, sent())


@pytest.mark.parametrize("mode", [0o777, 0o775])
def test_a_folder_above_in_which_others_may_put_another_is_refused(home: Path, mode: int) -> None:
    (home / ".cache").mkdir()
    (home / ".cache").chmod(mode)
    os.chown(home / ".cache", 0, other_user.UID)
    assert "a folder above it is open to others" in refused(home, sent())


def test_in_a_sticky_folder_ours_is_used_and_nobody_moves_it(open_home: Path) -> None:
    (open_home / ".cache").mkdir(mode=0o755)
    (open_home / ".cache").chmod(0o1777)
    assert run(open_home / "s", sent())[0][-1] == "dflashctl-agent 1 ready"
    with pytest.raises(PermissionError):
        other_user.does(lambda: cache(open_home).rename(open_home / ".cache" / "mine"))


def test_a_swap_between_check_and_use_never_has_us_run_what_is_not_ours(open_home: Path) -> None:
    """The other user's copy would leave a file; both come and go in the same place."""
    (open_home / ".cache").mkdir()
    run(open_home / "s", sent())
    (open_home / ".cache").chmod(0o777)
    evil, proof = open_home / "evil", open_home / "proof"
    shutil.copytree(cache(open_home), evil)
    for path in (evil, *evil.rglob("*")):
        os.chown(path, other_user.UID, other_user.UID)
    serve = evil / BUNDLE.sha256 / "dflashctl" / "agent" / "serve.py"
    serve.write_text(f"def serve(state):\n open({str(proof)!r}, 'w')\n")
    ours = open_home / ".cache" / "ours"

    def swap() -> None:
        cache(open_home).rename(ours)
        evil.rename(cache(open_home))
        cache(open_home).rename(evil)
        ours.rename(cache(open_home))

    with other_user.keeps_doing(swap):
        until = time.monotonic() + 3
        while time.monotonic() < until:
            refused_or_gone, code = run(open_home / "s", b"")
            assert code == 1, refused_or_gone
    assert not proof.exists()


@pytest.mark.parametrize(
    "trick", ["a file of theirs", "a hard link", "a link", "a folder of theirs"]
)
def test_what_is_not_ours_within_is_put_aside_though_its_text_is_right(
    home: Path, trick: str
) -> None:
    run(home / "s", sent())
    version = cache(home) / BUNDLE.sha256
    wire = version / "dflashctl" / "agent" / "wire.py"
    match trick:
        case "a file of theirs":
            os.chown(wire, other_user.UID, other_user.UID)
        case "a hard link":
            os.link(wire, home / "held-elsewhere")
        case "a link":
            wire.rename(home / "elsewhere")
            wire.symlink_to(home / "elsewhere")
        case "a folder of theirs":
            (wire.parent / "__pycache__").mkdir(exist_ok=True)
            os.chown(wire.parent / "__pycache__", other_user.UID, other_user.UID)
    assert run(home / "s", sent())[0] == ["dflashctl-agent 1 send", "dflashctl-agent 1 ready"]
    assert run(home / "s", b"")[0] == ["dflashctl-agent 1 ready"]


def test_nothing_that_is_installed_is_open_to_others_whatever_the_umask(home: Path) -> None:
    before = os.umask(0)
    try:
        run(home / "s", sent())
    finally:
        os.umask(before)
    version = cache(home) / BUNDLE.sha256
    made = [version, *(path for path in version.rglob("*") if "__pycache__" not in path.parts)]
    assert [path for path in made if path.stat().st_mode & 0o077] == []
