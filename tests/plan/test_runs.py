from __future__ import annotations

from dataclasses import replace

import pytest

from dflashctl.agent.recorded import FileKept, RunRecord, RunsListed
from dflashctl.errors import UnknownRun
from dflashctl.plan.runs import choose, compare, differing_blobs
from tests.plan.scenes import EARLIER, NEW, NOW, OLD, RECORD, RUNNING

LISTED = RunsListed(now=NOW, current=RUNNING.id, runs=(EARLIER, RUNNING))
SECOND = replace(
    RECORD,
    run=replace(RUNNING, env={"A": "1"}),
    files=(replace(RECORD.files[0], sha256=NEW), RECORD.files[1]),
    secrets=(),
    boundaries=(0, 512, 1025),
)


@pytest.mark.parametrize(
    ("word", "run"),
    [
        ("last", RUNNING),
        ("current", RUNNING),
        ("previous", EARLIER),
        (EARLIER.id, EARLIER),
        ("2026-11-27", EARLIER),
        ("a2b3", RUNNING),
    ],
)
def test_a_run_is_meant_by_its_id_a_part_of_it_or_a_word(word: str, run: object) -> None:
    assert choose(word, LISTED, "here") == run


@pytest.mark.parametrize(("word", "fitting"), [("2026", 2), ("nope", 0), ("", 2), ("b3", 0)])
def test_what_means_none_or_several_is_refused_with_those_it_fits(word: str, fitting: int) -> None:
    with pytest.raises(UnknownRun) as caught:
        choose(word, LISTED, "here")
    assert len(caught.value.fitting) == fitting
    assert caught.value.known == (EARLIER.id, RUNNING.id)


def test_a_first_run_has_none_before_it_and_no_runs_have_no_last() -> None:
    for runs, word in (((RUNNING,), "previous"), ((), "last"), ((), "previous")):
        listed = RunsListed(now=NOW, current=runs[0].id if runs else None, runs=runs)
        with pytest.raises(UnknownRun):
            choose(word, listed, "here")


def test_the_last_run_is_the_current_one_even_if_its_clock_was_wrong() -> None:
    listed = replace(LISTED, current=EARLIER.id)
    assert choose("last", listed, "here") == EARLIER


def test_two_runs_are_set_apart_by_files_environment_and_boundaries() -> None:
    assert differing_blobs(RECORD, SECOND) == (OLD, NEW)
    found = compare(RECORD, SECOND, {OLD: "a\nb\n", NEW: "a\nc\n"})
    (file,) = found.files
    assert (file.path, file.lines[1:]) == ("/root/train.py", (" a", "-b", "+c"))
    assert [(one.name, one.first, one.second) for one in found.env] == [
        ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True", None),
        ("WANDB_API_KEY", "(secret)", None),
        ("A", None, "1"),
    ]
    assert found.boundaries == (None, (0, 512, 1025))
    assert found.settings == ()


def test_a_run_is_not_different_from_itself() -> None:
    found = compare(RECORD, RECORD, {})
    assert (found.settings, found.env, found.boundaries, found.files) == ((), (), None, ())


def test_files_that_came_or_went_and_contents_that_are_gone_are_told() -> None:
    less = replace(RECORD, files=RECORD.files[:1])
    assert [file.change for file in compare(RECORD, less, {}).files] == ["gone"]
    assert [file.change for file in compare(less, RECORD, {}).files] == ["new"]
    assert [file.change for file in compare(RECORD, SECOND, {}).files] == ["not shown"]


def test_what_comes_along_with_boundaries_is_compared_by_its_name_within() -> None:
    def with_library(folder: str, sha256: str) -> RunRecord:
        files = [
            FileKept(dest=f"{folder}/{name}", sha256=sha, size=1, mode=0o644, kept=True)
            for name, sha in (("buckets.json", sha256), ("dflashctl/buckets/plain.py", "e" * 64))
        ]
        env = {"DFLASH_BUCKETS": f"/state/lib/{folder}/buckets.json"}
        return replace(RECORD, files=(*RECORD.files, *files), run=replace(EARLIER, env=env))

    first, second = with_library("68ab", OLD), with_library("c519", NEW)
    assert differing_blobs(first, second) == (OLD, NEW)
    found = compare(first, second, {OLD: "1\n", NEW: "2\n"})
    assert [(file.path, file.change) for file in found.files] == [("buckets.json", "changed")]
    assert found.env == ()
