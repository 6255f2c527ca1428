"""A run's own copy of what it imports."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from pathlib import Path

import pytest

from dflashctl.agent import library
from dflashctl.agent.protocol import FileWanted, PlaceFiles
from dflashctl.agent.records import StateFolder

from .conftest import R1, Bench, read, trainer, until

OURS = FileWanted(dest="ab/dflashctl/x.py", sha256="0" * 64, size=1, mode=0o644)
THEIRS = FileWanted(dest="/root/train.py", sha256="1" * 64, size=1, mode=0o644)


def test_what_has_a_place_keeps_it_and_the_rest_goes_into_the_library(tmp_path: Path) -> None:
    state = StateFolder(path=tmp_path)
    places = [file.dest for file in library.placed((OURS, THEIRS), state, None)]
    assert places == [f"{tmp_path}/lib/ab/dflashctl/x.py", "/root/train.py"]


def test_a_run_as_another_user_imports_from_where_that_user_may_read(tmp_path: Path) -> None:
    (file,) = library.placed((OURS,), StateFolder(path=tmp_path), "somebody-else")
    assert file.dest == "/var/lib/dflashctl/lib/ab/dflashctl/x.py"


@pytest.mark.skipif(os.getuid() != 0, reason="only root places files for other users")
def test_what_is_placed_for_another_user_can_be_read_by_that_user(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, work: Path
) -> None:
    work.chmod(0o755)
    monkeypatch.setattr(library, "FOR_OTHERS", str(work / "lib"))
    text = "for training"
    wanted = FileWanted(dest="ab/dflashctl/x.py", sha256=_hash(text), size=len(text), mode=0o644)
    bench.state.create()
    bench.state.blob(wanted.sha256).write_text(text)
    (before,) = bench.observe(user="nobody", files=(wanted,)).files
    assert (before.dest, before.sha256) == (wanted.dest, None)
    outcome = bench.commit(PlaceFiles(files=(wanted,)), user="nobody", files=(wanted,))
    assert outcome.failure is None
    (after,) = outcome.observed.files
    assert after.real_dest == str(work / "lib" / wanted.dest)
    read_by = ("setpriv", "--reuid", "nobody", "--clear-groups", "cat", after.real_dest)
    assert subprocess.run(read_by, capture_output=True, text=True, check=True).stdout == text


def test_what_the_path_of_imports_has_already_comes_behind(tmp_path: Path) -> None:
    state, ours = StateFolder(path=tmp_path), f"{tmp_path}/lib/ab"
    with_it = trainer(R1, ("true",), release=(THEIRS, OURS))
    without = trainer(R1, ("true",), release=(THEIRS,))
    for before, wanted, after in (
        ({}, with_it, {"PYTHONPATH": ours}),
        ({"PYTHONPATH": "/x"}, with_it, {"PYTHONPATH": f"{ours}:/x"}),
        ({"PYTHONPATH": "/x"}, without, {"PYTHONPATH": "/x"}),
    ):
        assert library.importing(before, wanted, state) == after


def test_a_started_run_has_it_and_the_boundaries_are_seen(bench: Bench) -> None:
    boundaries = bench.folder / "state" / "lib" / "ab" / "buckets.json"
    boundaries.parent.mkdir(parents=True)
    text = json.dumps({"boundaries": [0, 10, 20], "expected_efficiency": 0.5})
    boundaries.write_text(text)
    wanted = FileWanted(dest="ab/buckets.json", sha256=_hash(text), size=len(text), mode=0o644)
    out = bench.folder / "out"
    outcome = bench.start(
        R1,
        f'echo "$PYTHONPATH" > {out}; sleep 60',
        env={"DFLASH_BUCKETS": str(boundaries), "PYTHONPATH": "/their/own"},
        release=(wanted,),
    )
    assert outcome.failure is None
    until(lambda: read(out))
    assert out.read_text() == f"{boundaries.parent}:/their/own\n"
    run = outcome.observed.run
    assert run is not None
    assert run.buckets is not None
    assert (run.buckets.boundaries, run.buckets.expected_efficiency) == ((0, 10, 20), 0.5)
    assert bench.state.blob(wanted.sha256).exists(), "what the run was started with is kept"


def test_a_variable_that_names_no_boundaries_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("[]")
    for path in (tmp_path / "x", tmp_path / "none"):
        assert library.boundaries({library.VARIABLE: str(path)}) is None
    os.mkfifo(tmp_path / "pipe")
    assert library.boundaries({library.VARIABLE: str(tmp_path / "pipe")}) is None
    assert library.boundaries({}) is None


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
