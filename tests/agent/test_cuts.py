"""What a cut leaves behind is told as it is: not as more, not as less."""

from __future__ import annotations

import errno
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dflashctl.agent import apply, evidence, journal, launch, observe, process, runs
from dflashctl.agent.failures import AgentError
from dflashctl.agent.protocol import Ask, StopRun
from dflashctl.agent.records import RunFolder, StateFolder, read_json, write_json
from dflashctl.agent.seen import LIVE_STATES
from dflashctl.agent.session import Tmux

from .conftest import R1, R2, WHO, Bench, until

STOP = StopRun(session="dflash", run_id=None, signal="INT", grace_s=1.0)


def test_a_transaction_that_begins_or_ends_at_this_moment_was_not_cut(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever happens between the look's questions: the answers fit together."""
    bench.state.create()
    real = journal.holder

    def meanwhile(state: StateFolder) -> Any:
        monkeypatch.setattr(journal, "holder", real)
        found = real(state)
        bench.commit(STOP)  # a whole transaction, just after the lock was looked at
        return found

    bench.commit(STOP)
    monkeypatch.setattr(journal, "holder", meanwhile)
    assert journal.cut(bench.state, "dflash") is None
    # And one that holds the lock, whatever its journal says by now.
    with journal.locked(bench.state, "t-x", WHO):
        journal.Journal(bench.state, "dflash", "t-x").begin(WHO, ["StopRun"])
        assert journal.cut(bench.state, "dflash") is None
    assert journal.cut(bench.state, "dflash") is not None


@pytest.mark.parametrize("hours", [-1, 1])
def test_the_newest_transaction_is_the_newest_whatever_the_clock_says(
    bench: Bench, hours: int
) -> None:
    """A journal's time is that of a clock which is set back and forth."""
    journal.Journal(bench.state, "dflash", "t-cut")
    bench.commit(STOP)
    journal.Journal(bench.state, "dflash", "t-cut").begin(WHO, ["StopRun"])
    shift = time.time() + hours * 3600
    os.utime(bench.state.journal / "t-cut.jsonl", (shift, shift))
    seen = bench.observe()
    assert seen.state == "INTERRUPTED"
    assert seen.cut is not None
    assert seen.cut.step == "begin"
    bench.commit(STOP)
    assert bench.observe().cut is None


def test_a_transaction_that_was_named_and_got_no_further_was_cut_at_its_beginning(
    bench: Bench,
) -> None:
    bench.start(R1, "sleep 60")
    bench.stop(R1)
    log = bench.state.journal / "t-cut.jsonl"
    journal.Journal(bench.state, "dflash", "t-cut").begin(WHO, ["StopRun"])
    for left in (b"", b'{"at": 1, "fact": "beg', b"\0\0\0\0", b"7\n"):
        log.write_bytes(left)
        seen = bench.observe()
        assert seen.state == "INTERRUPTED"
        assert seen.cut is not None
        assert (seen.cut.id, seen.cut.step, seen.cut.who) == ("t-cut", "begin", "ada@desk")


def test_what_was_told_never_to_have_begun_never_begins(bench: Bench) -> None:
    """The commit may have been on its way all the time."""
    question = Ask(transaction="t-1", look=bench.look())
    with pytest.raises(AgentError, match="not_begun"):
        apply.what_came_of(question, bench.state, lambda _: None)
    with pytest.raises(AgentError, match="stale"):
        bench.commit(STOP)  # its id is t-1
    with pytest.raises(AgentError, match="not_begun"):
        apply.what_came_of(question, bench.state, lambda _: None)
    assert bench.commit(STOP).failure is None
    assert bench.observe().cut is None


def test_half_a_fact_on_a_full_disk_does_not_spoil_the_next_one(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.state.create()
    log = journal.Journal(bench.state, "dflash", "t-cut")
    log.begin(WHO, ["StopRun"])
    write = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda handle, data: write(handle, data[: len(data) // 2]))
        assert not log.write("step", index=0, action="StopRun")
    log.write("done", index=0)
    assert [fact["fact"] for fact in journal.facts(bench.state, "t-cut")] == ["begin", "done"]


def test_a_transaction_whose_end_could_not_be_written_does_not_look_like_a_cut_one(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = journal.Journal.write

    def full(self: journal.Journal, fact: str, **data: Any) -> bool:
        return fact != "end" and real(self, fact, **data)

    monkeypatch.setattr(journal.Journal, "write", full)
    assert bench.commit(STOP).failure is None
    assert bench.observe().cut is None


def test_a_lock_that_cannot_be_removed_does_not_hide_the_outcome(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Path.unlink

    def refuse(self: Path, missing_ok: bool = False) -> None:
        if self == bench.state.lock_holder:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(self))
        real(self, missing_ok)

    monkeypatch.setattr(Path, "unlink", refuse)
    assert bench.commit(STOP).failure is None
    assert bench.observe().lock is None


@pytest.mark.parametrize(
    "fault", [AgentError("no_tmux", reason="it does not answer"), OSError(errno.EIO, "I/O error")]
)
def test_a_look_that_fails_after_the_transaction_is_not_the_transactions_failure(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    real, looks = observe.observe, 0

    def second_fails(*words: Any) -> Any:
        nonlocal looks
        looks += 1
        if looks == 2:
            raise fault
        return real(*words)

    monkeypatch.setattr(apply, "observe", second_fails)
    with pytest.raises(AgentError, match="unseen"):
        bench.commit(STOP)
    outcome = apply.what_came_of(Ask(transaction="t-1", look=bench.look()), bench.state, print)
    assert outcome.failure is None


def test_a_run_that_ends_while_it_is_looked_at_is_not_called_unrecorded(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look has found it alive; its collector is asked for when both are over."""
    bench.start(R1, "echo step 1 loss=1.0; sleep 60")
    until(bench.run(R1).state.exists)
    real: Callable[..., Any] = evidence.evidence

    def over_by_now(*words: Any) -> Any:
        monkeypatch.setattr(observe, "evidence", real)
        bench.stop(R1)
        return real(*words)

    monkeypatch.setattr(observe, "evidence", over_by_now)
    seen = bench.observe()
    assert (seen.state, seen.verdicts) == ("RUNNING", ())
    assert bench.observe().state == "STOPPED"


def test_a_server_that_needs_a_second_for_its_socket_gets_it(bench: Bench) -> None:
    bench.start(R1, "sleep 60")
    os.unlink(bench.socket)
    record = json.loads(bench.run(R1).process.read_text())
    server = process.Process(*record["tmux"])
    process.send(server, signal.SIGSTOP)
    pid = os.fork()
    if pid == 0:
        time.sleep(0.8)
        os.kill(server.pid, signal.SIGCONT)
        os._exit(0)
    try:
        seen = bench.observe()
    finally:
        os.waitpid(pid, 0)
        process.send(server, signal.SIGCONT)
    assert seen.session is not None
    assert (seen.state, seen.session.adopted) == ("RUNNING", False)


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_start_that_never_came_is_not_still_coming_because_the_clock_was_set(
    tmp_path: Path, hours: int
) -> None:
    folder = RunFolder(path=tmp_path / R2)
    folder.path.mkdir()
    folder.run.write_text(json.dumps({"started_at": time.time() + hours * 3600}))
    seen = runs.see(folder, runs.alive(folder, {}), time.time())
    assert seen is not None
    assert seen.state == "FAILED"


def test_a_start_that_was_cut_before_its_session_is_not_still_coming(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its record is there, and somebody may be about to start it; but nobody is."""

    def killed(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    bench.state.create()
    child = os.fork()
    if child == 0:
        monkeypatch.setattr(Tmux, "start", killed)
        bench.start(R1, "sleep 60")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    seen = bench.observe()
    assert (seen.state, seen.lock) == ("INTERRUPTED", None)
    assert seen.cut is not None
    assert seen.cut.step == "StartRun"
    # Its own transaction at work: it is coming. Another one: it is not, and that one goes on.
    with journal.locked(bench.state, "t-1", WHO):
        assert bench.observe().state == "STARTING"
    with journal.locked(bench.state, "t-x", WHO):
        assert bench.observe().state != "STARTING"
    bench.transactions = 1
    assert bench.start(R2, "sleep 60").failure is None
    assert bench.observe().state == "RUNNING"


def test_what_a_process_of_the_same_pid_left_behind_is_in_nobodys_way(tmp_path: Path) -> None:
    """Pids come again: after a reboot of a container very soon."""
    record = tmp_path / "run.json"
    for left in ("half a rec", "whatever", ""):
        record.with_name(f".run.json.{os.getpid()}.new").write_text(left)
        write_json(record, {"left": left})
        assert read_json(record) == {"left": left}
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


DAMAGE = {"empty": b"", "half": None, "nothing but zeros": b"\0" * 300, "another kind": b"[7]\n",
          "other fields": b'{"at": "x", "process": [1]}'}  # fmt: skip
RECORDS = ("current", "transaction.json", "run.json", "process.json", "release.json",
           "state.json", "facts.json", "log.index")  # fmt: skip


@pytest.mark.parametrize("record", RECORDS)
def test_a_damaged_record_costs_what_was_in_it_and_no_more(bench: Bench, record: str) -> None:
    """As a power cut leaves it on a disk that keeps no promises: the job still works."""
    bench.start(R1, "echo step 1 loss=0.5; sleep 60")
    until(bench.run(R1).state.exists)
    until((bench.run(R1).path / "log.index").exists)
    job, run = bench.state.job("dflash"), bench.run(R1).path
    path = job / record if (job / record).exists() else run / record
    whole = path.read_bytes()
    for name, left in DAMAGE.items():
        path.write_bytes(whole[: len(whole) // 2] if left is None else left)
        seen = bench.observe()
        assert seen.run is not None, name
        assert (seen.run.id, seen.run.state in LIVE_STATES) == (R1, True), name
        assert seen.run.processes >= 1, name
    stopped = bench.stop(R1)
    assert stopped.failure is None
    assert not process.marked(process.table(), R1)
    assert bench.start(R2, "sleep 60").failure is None
    assert bench.observe().state == "RUNNING"


def test_a_supervisor_that_cannot_record_anything_is_not_waited_for(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "own_words", lambda *_: ("sh", "-c", "echo no room left on device"))
    began = time.monotonic()
    outcome = bench.start(R1, "sleep 60")
    assert outcome.failure is not None
    assert outcome.failure.detail["reason"] == "the supervisor ended without a record"
    assert time.monotonic() - began < launch.APPEAR_S
    assert bench.observe().state == "FAILED"
