"""The transaction: all of it or a clear word, one at a time, on what was seen."""

import fcntl
import hashlib
import io
import json
import tarfile
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from dflashctl.agent import apply, files, gpu, journal, process
from dflashctl.agent.apply import perform
from dflashctl.agent.failures import AgentError
from dflashctl.agent.keeping import ClearCheckpoints
from dflashctl.agent.protocol import (
    Ask,
    Commit,
    FileWanted,
    Outcome,
    PlaceFiles,
    Receive,
    StepDone,
    StopRun,
    VerifyRun,
)
from dflashctl.agent.seen import Holder

from .conftest import R1, R2, R3, WHO, Bench, trainer, until

STOP = StopRun(session="dflash", run_id=R1, signal="INT", grace_s=5)


def clear(bench: Bench) -> ClearCheckpoints:
    return ClearCheckpoints(path=str(bench.checkpoints), real_path=str(bench.checkpoints))


def upload(bench: Bench, transaction: str, dest: Path, content: bytes) -> FileWanted:
    """Stage one file for a transaction."""
    sha256 = hashlib.sha256(content).hexdigest()
    folder = files.make_staging(bench.state, transaction, len(content))
    with tarfile.open(folder / files.ARCHIVE, "w") as tar:
        about = tarfile.TarInfo(sha256)
        about.size = len(content)
        tar.addfile(about, io.BytesIO(content))
    return FileWanted(dest=str(dest), sha256=sha256, size=len(content), mode=0o755)


def test_a_whole_deploy_happens_in_its_order_and_is_journalled(bench: Bench) -> None:
    bench.start(R1, "sleep 60")
    (bench.checkpoints / "step-1").mkdir()
    script = bench.folder / "train.sh"
    file = upload(bench, "t-2", script, b"#!/bin/sh\necho new; sleep 60\n")
    outcome = bench.commit(
        Receive(files=(file,)),
        STOP,
        clear(bench),
        PlaceFiles(files=(file,)),
        trainer(R2, (str(script),), release=(file,)),
        VerifyRun(run_id=R2, alive_for_s=0.3),
        files=(file,),
    )
    assert outcome.failure is None, outcome.failure
    assert outcome.run_id == R2
    assert outcome.observed.state == "RUNNING"
    assert list(bench.checkpoints.iterdir()) == []
    until(lambda: "new" in bench.log(R2))
    facts = [
        json.loads(line) for line in (bench.state.journal / "t-2.jsonl").read_text().splitlines()
    ]
    assert [f["fact"] for f in facts] == ["begin", *["step", "done"] * 6, "end"]
    done = [event for event in bench.events if isinstance(event, StepDone)][-6:]
    assert "moved to" in done[2].result
    assert Path(done[2].facts["moved_to"], "step-1").is_dir()
    assert not bench.state.staging("t-2").exists()
    assert json.loads(bench.run(R2).release.read_text())["files"][0]["dest"] == str(script)


def test_a_failed_step_ends_it_and_says_what_state_things_are_in(bench: Bench) -> None:
    bench.start(R1, "sleep 60")
    (bench.checkpoints / "step-1").mkdir()
    absent = FileWanted(dest=str(bench.folder / "x"), sha256="0" * 64, size=1, mode=0o644)
    outcome = bench.commit(STOP, PlaceFiles(files=(absent,)), clear(bench))
    assert outcome.failed_at == 1
    assert outcome.failure is not None
    assert outcome.observed.state == "STOPPED"
    assert (bench.checkpoints / "step-1").is_dir(), "what comes after is not done"


def test_nothing_is_touched_when_the_target_changed_since_it_was_looked_at(bench: Bench) -> None:
    bench.start(R1, "sleep 60")
    seen = bench.observe()
    bench.stop(R1)
    bench.start(R2, "sleep 60")
    late = Commit(
        transaction="late",
        look=bench.look(),
        fingerprint=seen.fingerprint,
        actions=(STOP,),
        who=WHO,
    )
    with pytest.raises(AgentError, match="stale") as caught:
        perform(late, bench.state, lambda _: None)
    assert "run" in caught.value.failure.detail["changed"]
    assert bench.observe().state == "RUNNING"


@pytest.mark.parametrize("change", ["file", "checkpoints", "session"])
def test_what_makes_an_observation_stale(bench: Bench, change: str) -> None:
    file = FileWanted(dest=str(bench.folder / "f"), sha256="0" * 64, size=1, mode=0o644)
    before = bench.observe(files=(file,)).fingerprint
    if change == "file":
        (bench.folder / "f").write_text("somebody edited it")
    elif change == "checkpoints":
        bench.checkpoints.rmdir()
    else:
        bench.tmux("new-session", "-d", "-s", "dflash", "sleep 60")
    after = bench.observe(files=(file,)).fingerprint
    assert before != after


def test_what_a_running_trainer_does_makes_nothing_stale(bench: Bench) -> None:
    bench.start(R1, "while :; do sleep 0.05; echo line; done")
    before = bench.observe().fingerprint
    (bench.checkpoints / "step-1").mkdir()
    time.sleep(0.3)
    assert bench.observe().fingerprint == before


def test_a_second_transaction_is_told_who_holds_the_lock(bench: Bench) -> None:
    with (
        journal.locked(bench.state, "t-0", replace(WHO, user="bob")),
        pytest.raises(AgentError, match="lock_held") as caught,
    ):
        bench.commit(STOP)
    assert caught.value.failure.detail["who"] == "bob@desk"
    assert bench.commit().failure is None, "and afterwards it is free"


def test_the_lock_is_seen_without_being_taken(bench: Bench) -> None:
    assert bench.observe().lock is None
    with journal.locked(bench.state, "t-0", WHO):
        lock = bench.observe().lock
        assert lock is not None
        assert (lock.who, lock.transaction) == ("ada@desk", "t-0")
    assert bench.observe().lock is None


def test_lookers_do_not_keep_a_transaction_from_its_lock(bench: Bench) -> None:
    bench.state.create()
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            journal.holder(bench.state)

    lookers = [threading.Thread(target=look) for _ in range(2)]
    for looker in lookers:
        looker.start()
    try:
        for number in range(30):
            with journal.locked(bench.state, f"t-{number}", WHO):
                pass
    finally:
        over.set()
        for looker in lookers:
            looker.join()


def test_the_lock_goes_with_its_holder_and_no_run_keeps_it(bench: Bench) -> None:
    bench.start(R1, "sleep 60")
    with bench.state.lock.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_transaction_that_was_cut_shows_with_its_step_until_the_next_one(bench: Bench) -> None:
    bench.start(R1, "sleep 60")
    bench.stop(R1)
    log = journal.Journal(bench.state, "dflash", "t-cut")
    log.begin(WHO, ["StopRun", "StartRun"])
    log.write("step", index=0, action="StopRun")
    seen = bench.observe()
    assert seen.state == "INTERRUPTED"
    assert seen.cut is not None
    assert (seen.cut.id, seen.cut.step) == ("t-cut", "StopRun")
    assert bench.start(R2, "sleep 60").failure is None
    assert bench.observe().cut is None


def test_a_half_written_last_line_of_a_journal_does_not_matter(bench: Bench) -> None:
    bench.state.create()
    journal.Journal(bench.state, "dflash", "t-cut").begin(WHO, [])
    with (bench.state.journal / "t-cut.jsonl").open("a") as file:
        file.write('{"at": 1, "fa')
    cut = bench.observe().cut
    assert cut is not None
    assert cut.step == "begin"


def test_another_jobs_cut_transaction_is_not_ours(bench: Bench) -> None:
    bench.state.create()
    journal.Journal(bench.state, "eval", "t-cut").begin(WHO, [])
    assert bench.observe().state == "NONE"


@pytest.mark.provokes("unverified.gpu_held")
def test_nothing_starts_while_somebody_holds_a_gpu(bench: Bench, monkeypatch) -> None:
    stranger = Holder(pid=42, name="vllm", user="bob", devices=("/dev/nvidia0",), ours=False)
    bench.start(R1, "sleep 60")
    monkeypatch.setattr(gpu, "holders", lambda _: (stranger,))
    monkeypatch.setattr(apply, "GPU_RELEASE_S", 0.3)
    outcome = bench.commit(STOP, trainer(R2, ("sleep", "60")))
    assert outcome.failure is not None
    assert outcome.failure.code == "gpu_held"
    assert outcome.failure.detail["holders"][0]["name"] == "vllm"
    assert outcome.failed_at == 1
    assert outcome.observed.state == "STOPPED"
    free = replace(trainer(R3, ("sleep", "60")), free_gpus=False)
    assert bench.commit(free).failure is None, "a job that uses none does not mind"


@pytest.mark.provokes("unverified.env_mismatch")
def test_an_environment_that_is_not_as_declared_fails_the_start(bench: Bench, monkeypatch) -> None:
    bench.start(R1, "sleep 60")
    wanted = trainer(R2, ("sleep", "60"), env={"A": "1"}, secrets={"B": "2"})
    with monkeypatch.context() as bent:
        # Nobody carries a marker then, so that the end of the test finds nobody either.
        bent.setattr(process, "environment", lambda _: {})
        outcome = bench.commit(STOP, wanted, VerifyRun(run_id=R2, alive_for_s=0))
    assert outcome.failure is not None
    assert outcome.failure.code == "env_mismatch"
    assert outcome.failure.detail == {"names": ["A", "B", process.RUN_MARKER]}


@pytest.mark.provokes("unverified.internal")
def test_a_fault_of_ours_ends_the_journal_and_carries_its_traceback(
    bench: Bench, monkeypatch
) -> None:
    def burst(*_: object) -> None:
        raise RuntimeError("burst")

    monkeypatch.setattr("dflashctl.agent.aside.clear", burst)
    outcome = bench.commit(clear(bench))
    assert outcome.failure is not None
    assert outcome.failure.code == "internal"
    assert "burst" in outcome.failure.detail["traceback"]
    assert bench.observe().cut is None


def ask(bench: Bench, transaction: str) -> tuple[Outcome, list[StepDone]]:
    events: list[StepDone] = []
    question = Ask(transaction=transaction, look=bench.look())
    return apply.what_came_of(question, bench.state, events.append), events  # type: ignore[arg-type] # only such events come


def test_what_came_of_a_transaction_can_be_asked_afterwards(bench: Bench) -> None:
    told = bench.start(R1, "sleep 60")
    again, events = ask(bench, "t-1")
    assert (again.run_id, again.failed_at, again.failure) == (told.run_id, None, None)
    assert events == [event for event in bench.events if isinstance(event, StepDone)]
    told = bench.start(R2, "sleep 60")
    again, _ = ask(bench, "t-2")
    assert (again.failed_at, again.failure) == (told.failed_at, told.failure)
    with pytest.raises(AgentError, match="not_begun"):
        ask(bench, "t-never")


def test_asking_waits_while_the_transaction_is_at_work(bench: Bench) -> None:
    begun, over = threading.Event(), threading.Event()

    def work() -> None:
        with journal.locked(bench.state, "t-x", WHO):
            log = journal.Journal(bench.state, "dflash", "t-x")
            log.begin(WHO, ["StopRun"])
            log.write("step", index=0, action="StopRun")
            begun.set()
            time.sleep(0.5)
            over.set()

    worker = threading.Thread(target=work)
    worker.start()
    assert begun.wait(10)
    outcome, _ = ask(bench, "t-x")
    assert over.is_set()
    worker.join()
    assert outcome.failure is not None
    assert outcome.failure.code == "cut_off"
    assert outcome.failure.detail == {"step": "StopRun"}
