"""What is on record of a run, asked of the agent itself."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from dflashctl.agent import history, wire
from dflashctl.agent.failures import AgentError
from dflashctl.agent.protocol import FileWanted
from dflashctl.agent.recorded import About, ListRuns, ReadBlobs, RecallRun, RunRecord, Source
from dflashctl.agent.seen import Observed
from tests.agent.conftest import R1, Bench

SOURCE = Source(commit="f" * 40, branch=None, dirty=True, diff="+x\n", whole=True)


def file(path: Path, content: bytes) -> FileWanted:
    path.write_bytes(content)
    sha256 = hashlib.sha256(content).hexdigest()
    return FileWanted(dest=str(path), sha256=sha256, size=len(content), mode=0o644)


def recalled(bench: Bench, run_id: str) -> RunRecord:
    return history.recall(RecallRun(job="dflash", run_id=run_id), bench.state)


def test_a_run_is_on_record_with_all_that_it_was_started_with(bench: Bench) -> None:
    (bench.checkpoints / "step-00000340").mkdir()
    train = file(bench.folder / "train.py", b"print(1)\n")
    buckets = file(bench.folder / "buckets.json", json.dumps({"boundaries": [0, 8, 17]}).encode())
    run_id = R1
    outcome = bench.start(
        run_id,
        "exit 7",
        env={"DFLASH_BUCKETS": buckets.dest},
        secrets={"TOKEN": "abc"},
        release=(train, buckets),
        about=About(
            fresh=("bash", "new"), resume=("bash", "on"), source=SOURCE, gpus=("NVIDIA H200",)
        ),
    )
    assert outcome.failure
    record = recalled(bench, run_id)
    assert (record.run.state, record.run.exit_code, record.run.id) == ("FAILED", 7, run_id)
    assert (record.secrets, record.run.started_by, record.version) == (("TOKEN",), "ada@desk", "0")
    assert (record.resumed_from, record.checkpoints) == ("step-00000340", str(bench.checkpoints))
    assert (record.fresh, record.resume, record.source) == (("bash", "new"), ("bash", "on"), SOURCE)
    assert record.boundaries == (0, 8, 17)
    assert [(kept.sha256, kept.kept) for kept in record.files] == [
        (train.sha256, True), (buckets.sha256, True),
    ]  # fmt: skip
    assert record.facts
    assert record.facts.gpus == ("NVIDIA H200",)
    assert record.facts.python
    assert record.transaction
    assert not any("abc" in path.read_text() for path in bench.run(run_id).path.glob("*.json"))
    listed = history.listed(ListRuns(job="dflash"), bench.state)
    assert ([run.id for run in listed.runs], listed.current) == ([run_id], run_id)


def test_a_record_of_an_earlier_version_or_a_broken_one_harms_nobody(bench: Bench) -> None:
    old, broken = bench.run("old"), bench.run("broken")
    for folder in (old, broken):
        folder.path.mkdir(parents=True)
    known: dict[str, object] = {
        "id": "old", "job": "dflash", "session": "dflash", "command": ["x"], "cwd": None,
        "user": None, "env_base": "login", "env": {}, "secrets": [], "signal": "INT",
        "grace_s": 1, "exit_codes": {}, "release": "r", "started_at": 1.0, "started_by": "a@b",
    }  # fmt: skip
    old.run.write_text(json.dumps(known))
    broken.run.write_text('{"id": "broken"}')
    assert [run.id for run in history.listed(ListRuns(job="dflash"), bench.state).runs] == ["old"]
    record = recalled(bench, "old")
    assert (record.fresh, record.source, record.facts, record.files) == (("x",), None, None, ())
    for unknown in ("broken", "nope", "../old"):
        with pytest.raises(AgentError, match="no_run"):
            recalled(bench, unknown)


def test_a_record_of_a_later_version_is_read_as_far_as_it_is_known(bench: Bench) -> None:
    later = bench.run("later")
    later.path.mkdir(parents=True)
    known = {"started_at": 1.0, "command": ["x"], "exit_codes": {"9": "napping"}, "mood": {"a": 1}}
    later.run.write_text(json.dumps(known))
    later.exit.write_text(json.dumps({"exit_code": 9, "ended_at": 2.0, "mood": "fine"}))
    bench.state.set_current("dflash", "later")
    seen = wire.load(Observed, wire.dump(bench.observe()))
    assert (seen.state, seen.run.exit_name, seen.run.session) == ("FAILED", "failed", "dflash")
    record = wire.load(RunRecord, wire.dump(recalled(bench, "later")))
    assert (record.fresh, record.exit_codes, record.env_base) == (("x",), {}, "login")


def test_kept_texts_are_read_by_hash_and_nothing_else_is(bench: Bench) -> None:
    bench.state.create()
    (bench.state.path / "secret").write_text("no")
    for name, content in (("a1", b"text\n"), ("b2", b"\0\1"), ("c3", b"long" * 100)):
        bench.state.blob(name).write_bytes(content)
    asked = ReadBlobs(sha256s=("a1", "b2", "c3", "d4", "../secret"), limit=100)
    assert history.read_blobs(asked, bench.state).texts == {"a1": "text\n"}
