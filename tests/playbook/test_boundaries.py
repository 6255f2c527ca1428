"""The file of boundaries, and what goes to the target with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dflashctl.buckets import settings
from dflashctl.errors import BadBuckets, CannotWrite, SourceUnreadable
from dflashctl.playbook.boundaries import read_boundaries, write_boundaries
from dflashctl.playbook.library import library_files

REPORT: dict[str, Any] = {
    "boundaries": [0, 1000, 8192],
    "settings": {"token_budget": 49152, "max_batch_size": 64, "order": "random"},
    "rules": {"count": 2, "align": 1, "max_length": 8192},
    "expected_efficiency": 0.8,
    "budget_fill": 0.7,
    "histogram_sha256": "a" * 64,
    "samples": 10,
    "tokens": 1000,
    "per_bucket": [],
}
DATASET = {"target": None, "path": "/data", "column": None, "fingerprint": "x"}


def test_what_is_written_is_read_back_also_by_training(tmp_path: Path) -> None:
    path = tmp_path / "buckets.json"
    write_boundaries(path, REPORT, DATASET)
    read = read_boundaries(path)
    assert (read.boundaries, read.dataset) == ((0, 1000, 8192), DATASET)
    assert (read.rules, read.expected_efficiency) == (REPORT["rules"], 0.8)
    trained = settings.load(path)
    assert (trained.boundaries, trained.order) == ((0, 1000, 8192), "random")
    assert [entry.name for entry in tmp_path.iterdir()] == ["buckets.json"]


@pytest.mark.provokes("bad_buckets")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "it is no JSON"),
        ("[]", "it is no file that --apply wrote"),
        ('{"version": 2}', "it is of version 2, not 1"),
        ('{"version": 1, "boundaries": [0, 8192]}', "it is no file that --apply wrote"),
    ],
)
def test_another_file_is_told_from_one(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "buckets.json"
    path.write_text(text)
    with pytest.raises(BadBuckets) as caught:
        read_boundaries(path)
    assert caught.value.reason == reason


def test_one_that_is_not_there_cannot_be_read_or_pushed(tmp_path: Path) -> None:
    for work in (read_boundaries, library_files):
        with pytest.raises(SourceUnreadable):
            work(tmp_path / "none.json")


def test_one_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    with pytest.raises(CannotWrite):
        write_boundaries(tmp_path / "none" / "buckets.json", REPORT, DATASET)


def test_a_link_to_one_stays_a_link_and_a_mode_a_mode(tmp_path: Path) -> None:
    shared, path = tmp_path / "shared.json", tmp_path / "buckets.json"
    write_boundaries(shared, REPORT, DATASET)
    shared.chmod(0o640)
    path.symlink_to(shared.name)
    write_boundaries(path, REPORT | {"boundaries": [0, 2000, 8192]}, DATASET)
    assert path.is_symlink()
    assert read_boundaries(shared).boundaries == (0, 2000, 8192)
    assert shared.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("edges", [[0], [0, 8, 8], [0, 9, 8], [0, True, 8]])
def test_boundaries_that_do_not_ascend_are_none(tmp_path: Path, edges: list[int]) -> None:
    write_boundaries(tmp_path / "b.json", REPORT | {"boundaries": edges}, DATASET)
    with pytest.raises(BadBuckets):
        read_boundaries(tmp_path / "b.json")


def test_what_is_pushed_is_all_that_training_imports(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    write_boundaries(path, REPORT, DATASET)
    files = library_files(path)
    (folder,) = {file.dest.split("/")[0] for file in files}
    for file in files:
        place = tmp_path / file.dest
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(file.source.read_bytes())
    script = (
        "import sys\n"
        "from dflashctl.buckets import batching\n"
        "assert batching.load().boundaries == (0, 1000, 8192)\n"
        "print(batching.__file__, 'dflashctl.agent' in sys.modules)\n"
    )
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(tmp_path / folder),
        "DFLASH_BUCKETS": str(tmp_path / folder / "buckets.json"),
    }
    done = subprocess.run(
        (sys.executable, "-P", "-c", script),
        env=environment, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert done.stdout == f"{tmp_path / folder}/dflashctl/buckets/batching.py False\n"


def test_other_boundaries_have_another_folder(tmp_path: Path) -> None:
    path = tmp_path / "buckets.json"
    folders = set()
    for last in (8192, 8193, 8192):
        path.write_text(json.dumps(last))
        folders.add(library_files(path)[0].dest)
    assert len(folders) == 2
