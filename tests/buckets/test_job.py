"""One task of the optimiser, where numpy is and where it is not."""

from __future__ import annotations

import fcntl
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from dflashctl.buckets import histogram, job, plain
from dflashctl.buckets.failures import BadDataset, BadLengths, MissingLibrary, NoSuchPlan

LENGTHS = np.concatenate([np.arange(5, 300), np.full(200, 700), np.arange(1000, 2000, 3)])


def task(path: Path | str, **changes: Any) -> dict[str, Any]:
    settings = {
        "token_budget": 8192, "max_batch_size": 32, "window": 0, "order": "stratified",
        "ranks": 2, "accumulation": 1, "seed": 0,
    }  # fmt: skip
    said: dict[str, Any] = {
        "path": str(path), "column": None, "format": "auto", "count": 3, "align": 1,
        "max_length": 2048, "settings": settings, "current": None, "prove": False,
        "compare": False, "needs_numpy": False,
    }  # fmt: skip
    return said | changes


def quiet(_: str, __: float) -> None:
    pass


@pytest.fixture
def npy(tmp_path: Path) -> Path:
    np.save(tmp_path / "lengths.npy", LENGTHS.astype(np.int32))
    return tmp_path / "lengths.npy"


def test_the_report_says_what_the_boundaries_give(npy: Path) -> None:
    stages: list[str] = []
    given = task(npy, current=[0, 100, 2048])
    report = job.run(given, lambda stage, _: stages.append(stage))["report"]
    assert report["boundaries"][0] == 0
    assert report["boundaries"][-1] == 2048
    assert len(report["per_bucket"]) == 3
    assert (report["samples"], report["tokens"]) == (LENGTHS.size, LENGTHS.sum())
    assert report["current"]["expected_efficiency"] < report["expected_efficiency"] <= 1
    assert sum(report["histogram"]["samples"]) == LENGTHS.size
    assert report["histogram_sha256"] == histogram.of(LENGTHS).sha256
    assert report["strategies"] is None
    assert {"reading", "optimising"} <= set(stages)
    assert json.loads(json.dumps(report)) == report


def test_boundaries_in_use_that_are_too_short_for_the_data_are_only_named(npy: Path) -> None:
    current = job.run(task(npy, current=[0, 100]), quiet)["report"]["current"]
    assert (current["boundaries"], current["expected_efficiency"]) == ([0, 100], None)


def test_all_strategies_are_compared_and_the_settings_own_is_marked(npy: Path) -> None:
    report = job.run(task(npy, compare=True, current=[0, 100, 2048]), quiet)["report"]
    names = [one["name"] for one in report["strategies"]]
    assert names == [
        "full shuffle", "buckets in use now", "buckets, random order", "buckets, stratified",
        "stratified, window 128", "stratified, window 256", "sorted",
    ]  # fmt: skip
    assert [one["name"] for one in report["strategies"] if one["chosen"]] == ["buckets, stratified"]
    efficiency = {one["name"]: one["efficiency"] for one in report["strategies"]}
    assert efficiency["full shuffle"] < efficiency["buckets, stratified"] < efficiency["sorted"]
    json.dumps(report, allow_nan=False)


def test_with_a_sort_window_the_total_is_that_of_a_simulation(npy: Path) -> None:
    plain_report = job.run(task(npy), quiet)["report"]
    settings = task(npy)["settings"] | {"window": 64}
    report = job.run(task(npy, settings=settings), quiet)["report"]
    assert report["boundaries"] == plain_report["boundaries"]
    assert report["expected_efficiency"] > plain_report["expected_efficiency"] + 0.02


def test_what_cannot_be_had_is_told_with_its_place(npy: Path, tmp_path: Path) -> None:
    told = {}
    for name, wrong, error in (
        ("missing", task(tmp_path / "none.npy"), BadDataset),
        ("budget", task(npy, settings=task(npy)["settings"] | {"token_budget": 1500}), BadLengths),
        ("aligned", task(npy, count=5, align=1024), NoSuchPlan),
    ):
        with pytest.raises(error) as caught:
            job.run(wrong, quiet)
        told[name] = job.complaint(caught.value, wrong)
    assert {one["code"] for one in told.values()} == {"bad_dataset"}
    assert told["missing"]["detail"]["problem"] == "not-found"
    assert told["budget"]["detail"]["path"] == str(npy)
    assert "167 samples are above 1,500 tokens" in told["budget"]["detail"]["text"]
    assert told["aligned"]["detail"]["problem"] == "settings"


# --- without numpy --------------------------------------------------------------------


@pytest.mark.provokes("missing_module")
def test_without_numpy_the_lengths_are_counted_and_the_report_is_the_same_here(
    npy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = task(npy)
    whole = job.run(given, quiet)["report"]
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "numpy", None)
        counted = job.run(given, quiet)["counted"]
        with pytest.raises(MissingLibrary) as caught:
            job.run(task(npy, needs_numpy=True), quiet)
    assert job.here((counted,), given, quiet) == whole
    complaint = job.complaint(caught.value, given)
    assert complaint["code"] == "missing_module"
    assert complaint["detail"]["python"] == sys.executable


def test_without_numpy_lengths_are_told_from_files_as_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save(tmp_path / "a.npy", np.arange(3, 90, dtype=">i2"))
    np.save(tmp_path / "offsets.npy", np.array([0, 5, 8, 20]))
    np.savez_compressed(tmp_path / "a.npz", seqlen=np.arange(3, 90))
    (tmp_path / "a.txt").write_text("3\n5\n\n3\n")
    (tmp_path / "headless.csv").write_text("3\n7\n")
    (tmp_path / "histogram.csv").write_text("length,count\n3,20\n7,1\n")
    (tmp_path / "ids.jsonl").write_text('{"input_ids": [1, 2, 3]}\n{"input_ids": [7]}\n')
    (tmp_path / "mask.jsonl").write_text('{"attention_mask": [1, 1, 0]}\n{"attention_mask": [1]}\n')
    (tmp_path / "train-00000-of-00002.tsv").write_text("id\tlength\n1\t3\n")
    (tmp_path / "train-00001-of-00002.tsv").write_text("id\tlength\n1\t9\n")
    places = [*tmp_path.glob("*[a-z].*"), tmp_path / "train-*.tsv"]
    assert len(places) == 9
    given = [task(place, count=2, max_length=None) for place in places]
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    numeric = [job.run(each, quiet)["report"]["histogram_sha256"] for each in given]
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "numpy", None)
        counted = [job.run(each, quiet)["counted"] for each in given]
        with pytest.raises(MissingLibrary, match="without numpy"):
            job.run(task(tmp_path / "a.parquet"), quiet)
    reports = [job.here((one,), said, quiet) for one, said in zip(counted, given, strict=True)]
    assert [report["histogram_sha256"] for report in reports] == numeric


@pytest.mark.parametrize(
    ("content", "problem"),
    [("", "empty"), ("3 0", "zero"), ("3 -7", "negative"), ("5 5", "constant"),
     ("5 9000", "above-budget")],
)  # fmt: skip
def test_what_was_counted_without_numpy_is_looked_at_here(
    tmp_path: Path, content: str, problem: str
) -> None:
    (tmp_path / "a.txt").write_text(content)
    given = task(tmp_path / "a.txt", count=1, max_length=None)
    counted = plain.packed(plain.count(given, lambda _, __: None))
    with pytest.raises(BadLengths) as caught:
        job.here((counted,), given, quiet)
    assert caught.value.problem == problem


# --- a dataset in parts ---------------------------------------------------------------

parts_of_a_dataset = st.lists(
    st.lists(st.integers(1, 40) | st.sampled_from([300, 1999]), max_size=30),
    min_size=1, max_size=4,
).filter(lambda parts: len({length for part in parts for length in part}) > 2)  # fmt: skip


@hypothesis.given(parts_of_a_dataset, st.sets(st.integers(0, 3)), st.booleans())
def test_counts_of_all_parts_give_what_one_dataset_of_them_gives(
    parts: list[list[int]], bare: set[int], compare: bool
) -> None:
    """Byte for byte, whichever of the machines have numpy."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "whole").mkdir()
        counted = []
        for number, part in enumerate(parts):
            place = folder / f"{number}.txt"
            place.write_text("".join(f"{length}\n" for length in part))
            (folder / "whole" / f"part-{number}.txt").write_text(place.read_text())
            given = task(place, only_counts=True)
            with pytest.MonkeyPatch.context() as patch:
                if number in bare:
                    patch.setitem(sys.modules, "numpy", None)
                counted.append(job.run(given, quiet)["counted"])
        asked = task(folder / "whole" / "*.txt", count=2, compare=compare, current=[0, 20, 2048])
        whole = json.dumps(job.run(asked, quiet)["report"])
        assert json.dumps(job.here(counted, asked, quiet)) == whole
        told = [job.part(one, asked) for one in counted]
    assert [one["samples"] for one in told] == [len(part) for part in parts]
    assert [one["tokens"] for one in told] == [sum(part) for part in parts]
    assert [one["longest"] for one in told] == [max(part, default=None) for part in parts]


@pytest.mark.parametrize(
    ("content", "problem"), [("3 0", "zero"), ("3 -7", "negative"), ("5 9000", "above-longest")]
)
@pytest.mark.parametrize("bare", [False, True])
def test_a_part_with_lengths_that_no_batch_can_have_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str, problem: str, bare: bool
) -> None:
    (tmp_path / "a.txt").write_text(content.replace(" ", "\n"))
    given = task(tmp_path / "a.txt", only_counts=True)
    if bare:
        monkeypatch.setitem(sys.modules, "numpy", None)
    with pytest.raises(BadLengths) as caught:
        job.part(job.run(given, quiet)["counted"], given)
    assert caught.value.problem == problem
    assert str(caught.value).startswith("1 sample ")


# --- the process ----------------------------------------------------------------------


def test_the_process_answers_in_lines_and_ends_with_its_input(npy: Path, tmp_path: Path) -> None:
    words = (sys.executable, "-m", "dflashctl.buckets")
    line = json.dumps({"task": task(npy)}).encode() + b"\n"
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(line)
        process.stdin.flush()
        said = [json.loads(line) for line in process.stdout]
        assert process.wait(10) == 0
    assert said[0] == {"progress": {"stage": "reading", "share": 0.0}}
    assert said[-1]["result"]["report"]["samples"] == LENGTHS.size

    # One that would go on for long: nobody is left to listen.
    np.save(tmp_path / "wide.npy", np.arange(1, 8000))
    endless = task(tmp_path / "wide.npy", max_length=8192, prove=True)
    line = json.dumps({"task": endless}).encode() + b"\n"
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(line)
        process.stdin.flush()
        process.stdout.readline()
        process.stdin.close()
        assert process.wait(10) == 1


def test_with_files_it_holds_what_it_writes_locked(npy: Path, tmp_path: Path) -> None:
    given, lines = tmp_path / "task.json", tmp_path / "lines"
    given.write_text(json.dumps({"task": task(npy, count=9999)}))
    lines.touch()
    with lines.open() as held:
        fcntl.flock(held, fcntl.LOCK_SH)
        words = (sys.executable, "-m", "dflashctl.buckets", str(given), str(lines))
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        time.sleep(0.5)
        assert lines.read_text() == ""
        fcntl.flock(held, fcntl.LOCK_UN)
        assert process.wait(20) == 1
    last = json.loads(lines.read_text().splitlines()[-1])
    assert last["error"]["code"] == "bad_dataset"
