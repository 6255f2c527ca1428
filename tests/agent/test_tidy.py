"""Nothing of our own records grows without end, and nothing that is needed goes."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from dflashctl.agent import tidy
from dflashctl.agent.journal import facts
from dflashctl.agent.protocol import ForgetRuns
from dflashctl.agent.records import StateFolder
from tests.agent.conftest import Bench

COUNT = tidy.RUNS_KEPT + tidy.FORGOTTEN_AT_ONCE


@pytest.fixture
def state(tmp_path: Path) -> StateFolder:
    state = StateFolder(path=tmp_path / "state")
    state.create()
    return state


def run(state: StateFolder, number: int, *blobs: str, job: str = "a") -> str:
    """A run on record that started at that second, and the contents of its files."""
    run_id = f"2026-11-29T{number:04}Z-{job}-{number:04}"
    folder = state.run(job, run_id)
    folder.path.mkdir(parents=True)
    files = [{"dest": f"/{blob}", "sha256": blob, "size": 4, "mode": 420} for blob in blobs]
    folder.release.write_text(json.dumps({"files": files}))
    record = {
        "id": run_id, "started_at": float(number), "session": "s", "command": [], "env": {},
        "release": "r", "started_by": "a@b",
    }  # fmt: skip
    folder.run.write_text(json.dumps(record))
    for blob in blobs:
        state.blob(blob).write_text("text")
    state.set_current(job, run_id)
    return run_id


def age(path: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then))


def blobs(state: StateFolder) -> set[str]:
    return {path.name for path in state.blobs.iterdir()}


def test_few_runs_are_all_kept_and_of_many_the_oldest_may_go(state: StateFolder) -> None:
    ids = [run(state, number) for number in range(COUNT - 1)]
    assert tidy.forgettable(state, "a") == ()
    run(state, COUNT)
    assert tidy.forgettable(state, "a") == tuple(ids[: tidy.FORGOTTEN_AT_ONCE])
    assert tidy.forgettable(state, "b") == ()


def test_the_current_run_and_those_whose_checkpoints_are_kept_stay(state: StateFolder) -> None:
    ids = [run(state, number) for number in range(COUNT)]
    state.set_current("a", ids[0])
    kept = {ids[0], ids[3]}
    assert set(tidy.forgettable(state, "a", lambda: (3.5,))) == set(ids[:10]) - kept


def test_what_only_the_forgotten_had_goes_with_them(state: StateFolder) -> None:
    first = run(state, 1, "only", "shared", "other")
    run(state, 2, "shared")
    run(state, 1, "other", job="b")
    assert tidy.forget(state, "a", (first,)) == (1, 4)
    assert blobs(state) == {"shared", "other"}
    assert not state.run("a", first).path.exists()


def test_the_current_run_is_never_forgotten_whatever_is_asked(state: StateFolder) -> None:
    current = run(state, 1, "x")
    assert tidy.forget(state, "a", (current, "unknown")) == (0, 0)
    assert blobs(state) == {"x"}


def test_with_a_record_that_cannot_be_read_no_content_goes(state: StateFolder) -> None:
    first, second = run(state, 1, "x"), run(state, 2, "y")
    state.run("a", second).release.write_text("{")
    age(state.blob("y"), 99 * tidy.DAY_S)
    assert tidy.forget(state, "a", (first,)) == (1, 0)
    assert tidy.sweep(state) == {}
    assert blobs(state) == {"x", "y"}


def test_contents_that_no_run_has_go_after_a_week(state: StateFolder) -> None:
    run(state, 1, "used")
    for name, days in (("used", 99), ("unused", 8), ("fresh", 6)):
        state.blob(name).write_text("text")
        age(state.blob(name), days * tidy.DAY_S)
    assert tidy.sweep(state) == {"blobs": 1}
    assert blobs(state) == {"used", "fresh"}


def test_what_no_run_imports_any_more_goes_after_a_week(state: StateFolder) -> None:
    record = state.run("a", run(state, 1)).release
    record.write_text('{"files": [{"dest": "used/buckets.json"}, {"dest": "/root/train.py"}]}')
    for name, days in (("used", 99), ("unused", 8), ("fresh", 6)):
        (state.path / "lib" / name / "dflashctl").mkdir(parents=True)
        age(state.path / "lib" / name, days * tidy.DAY_S)
    assert tidy.sweep(state) == {"libraries": 1}
    assert {path.name for path in (state.path / "lib").iterdir()} == {"used", "fresh"}


def test_what_was_left_behind_goes_after_a_day(state: StateFolder) -> None:
    half = state.run("a", "half-gone").path
    for folder in (state.staging("t-old"), state.staging("t-new"), half):
        folder.mkdir(parents=True)
        (folder / "file").write_text("x")
    age(state.staging("t-old"), 2 * tidy.DAY_S)
    age(half, 2 * tidy.DAY_S)
    assert tidy.sweep(state) == {"staging": 1, "runs": 1}
    assert state.staging("t-new").exists()


def test_old_journals_go_if_they_are_finished(state: StateFolder) -> None:
    for number in range(tidy.JOURNALS_KEPT + 2):
        path = state.journal / f"t-{number}.jsonl"
        path.write_text('{"fact": "begin"}\n' + '{"fact": "end"}\n' * (number != 1))
        age(path, 1000 - number)
    assert tidy.sweep(state) == {"journals": 1}
    assert not (state.journal / "t-0.jsonl").exists()
    assert (state.journal / "t-1.jsonl").exists()


def test_agents_that_nobody_used_for_a_month_go(
    state: StateFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "dflashctl"
    ours, old, new = (cache / (letter * 64) for letter in "abc")
    for folder in (ours, old, new, cache / "not-ours"):
        (folder / "dflashctl" / "agent").mkdir(parents=True)
        age(folder, 31 * tidy.DAY_S)
    age(new, tidy.DAY_S)
    monkeypatch.setattr(tidy, "__file__", str(ours / "dflashctl" / "agent" / "tidy.py"))
    assert tidy.sweep(state) == {"agents": 1}
    assert not old.exists()
    assert ours.exists()


def test_forgetting_is_a_step_and_sweeping_is_journalled(bench: Bench) -> None:
    bench.state.create()
    ids = [run(bench.state, number, job="dflash") for number in range(COUNT)]
    bench.state.staging("t-old").mkdir()
    age(bench.state.staging("t-old"), 2 * tidy.DAY_S)
    old = bench.observe().forgettable
    assert old == tuple(ids[:10])
    assert bench.commit(ForgetRuns(run_ids=old)).failure is None
    known = facts(bench.state, "t-1")
    assert [fact["fact"] for fact in known] == ["begin", "step", "done", "swept", "end"]
    assert len(bench.state.runs("dflash")) == tidy.RUNS_KEPT
