from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from dflashctl.playbook.model import Playbook, PushedFile
from dflashctl.playbook.origin import LIMIT, read_source
from tests.lab.need import need
from tests.plan.scenes import PLAYBOOK


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    need("git")
    (tmp_path / "train.py").write_text("print(1)\n")
    (tmp_path / "notes.txt").write_text("private\n")
    for words in (
        ("init", "-q", "-b", "main"),
        ("add", "-A"),
        ("-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-q", "-m", "first"),
    ):
        subprocess.run(("git", *words), cwd=tmp_path, check=True, capture_output=True)
    return tmp_path


def playbook(folder: Path, *names: str) -> Playbook:
    files = tuple(PushedFile(source=folder / n, dest=f"/root/{n}", mode=0o644) for n in names)
    return replace(PLAYBOOK, path=folder / "deploy.yml", files=files)


def test_files_as_committed_have_a_commit_and_no_diff(checkout: Path) -> None:
    source = read_source(playbook(checkout, "train.py"))
    assert source
    assert (len(source.commit), source.branch, source.dirty, source.diff) == (40, "main", False, "")


def test_only_the_pushed_files_make_a_checkout_dirty_and_are_in_its_diff(checkout: Path) -> None:
    (checkout / "notes.txt").write_text("more private\n")
    clean = read_source(playbook(checkout, "train.py"))
    assert clean
    assert not clean.dirty
    (checkout / "train.py").write_text("print(2)\n")
    source = read_source(playbook(checkout, "train.py"))
    assert source
    assert source.dirty
    assert "+print(2)" in source.diff
    assert "private" not in source.diff


def test_a_pushed_file_that_git_does_not_know_makes_it_dirty(checkout: Path) -> None:
    (checkout / "new.py").write_text("print(3)\n")
    source = read_source(playbook(checkout, "train.py", "new.py"))
    assert source
    assert (source.dirty, source.diff) == (True, "")


def test_a_file_of_secrets_is_in_no_diff(checkout: Path) -> None:
    (checkout / "notes.txt").write_text("TOKEN=abc\n")
    job = playbook(checkout, "train.py", "notes.txt")
    assert job.run
    secret = replace(job, run=replace(job.run, env_file=checkout / "notes.txt"))
    source = read_source(secret)
    assert source
    assert "TOKEN" not in source.diff


def test_a_long_diff_is_cut_and_says_so(checkout: Path) -> None:
    (checkout / "train.py").write_text("print(2)\n" * LIMIT)
    source = read_source(playbook(checkout, "train.py"))
    assert source
    assert (len(source.diff), source.whole) == (LIMIT, False)


def test_outside_a_checkout_there_is_no_source(tmp_path: Path) -> None:
    assert read_source(playbook(tmp_path, "train.py")) is None


def test_no_program_that_the_checkout_names_is_run(checkout: Path) -> None:
    ran = checkout / "ran"
    for name in ("diff.external", "core.fsmonitor", "core.pager"):
        subprocess.run(("git", "config", name, f"touch {ran}; true"), cwd=checkout, check=True)
    (checkout / "train.py").write_text("print(2)\n")
    assert read_source(playbook(checkout, "train.py"))
    assert not ran.exists()


def test_a_file_of_a_repository_within_is_not_said_to_be_as_committed(checkout: Path) -> None:
    inner = checkout / "sub"
    inner.mkdir()
    (inner / "model.py").write_text("print(1)\n")
    for folder, words in (
        (inner, ("init", "-q")),
        (inner, ("add", "-A")),
        (inner, ("-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-q", "-m", "in")),
        (checkout, ("add", "sub")),
        (checkout, ("-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-q", "-m", "sub")),
    ):
        subprocess.run(("git", *words), cwd=folder, check=True, capture_output=True)
    (inner / "model.py").write_text("print(2)\n")
    source = read_source(playbook(checkout, "sub/model.py"))
    assert source
    assert source.dirty


def test_a_hook_that_calls_us_does_not_choose_the_checkout(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(checkout / "no such"))
    assert read_source(playbook(checkout, "train.py"))
