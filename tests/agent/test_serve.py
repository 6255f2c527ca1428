"""The agent as a process of its own, on pipes: what it answers, and what it survives."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import pytest

from dflashctl.agent import serve, wire
from dflashctl.agent.protocol import (
    Alive,
    Ask,
    Chunk,
    Commit,
    Event,
    Failure,
    FileWanted,
    LogEnd,
    Logs,
    LogText,
    PlaceFiles,
    Receive,
    Reply,
    Stage,
    Staging,
    StepBegun,
    StopRun,
    VerifyRun,
)
from dflashctl.agent.seen import Observed

from .conftest import R1, R2, WHO, Bench, trainer, until


class Agent:
    """A forked agent; the test is its client, as it is of those ``beside`` it."""

    def __init__(self, bench: Bench, beside: Sequence[Agent] = ()) -> None:
        requests, self._sink = os.pipe()
        source, answers = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.dup2(requests, 0)
            os.dup2(answers, 1)
            for end in (self._sink, source, *(other._sink for other in beside)):
                os.close(end)
            serve.serve(str(bench.state.path))
            os._exit(0)
        os.close(requests)
        os.close(answers)
        self.answers: IO[bytes] = os.fdopen(source, "rb")
        self._code: int | None = None

    def send(self, *messages: object) -> None:
        for message in messages:
            os.write(self._sink, wire.dump(message))

    def write(self, data: bytes) -> None:
        os.write(self._sink, data)

    def hear(self) -> Any:
        """The next thing it says; None at the end."""
        line = self.answers.readline()
        return wire.load(Event | Reply, line) if line else None

    def reply(self) -> Any:
        """The next thing that is no event."""
        while isinstance(said := self.hear(), Event):
            pass
        return said

    def hang_up(self) -> None:
        if self._sink >= 0:
            os.close(self._sink)
            self._sink = -1

    def end(self) -> int:
        """Hang up and wait for its exit code."""
        self.hang_up()
        if self._code is None:
            self._code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        self.answers.close()
        return self._code


@pytest.fixture
def agent(bench: Bench) -> Iterator[Agent]:
    agent = Agent(bench)
    yield agent
    agent.end()


def archive(content: bytes) -> tuple[str, bytes]:
    sha256 = hashlib.sha256(content).hexdigest()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        about = tarfile.TarInfo(sha256)
        about.size = len(content)
        tar.addfile(about, io.BytesIO(content))
    return sha256, buffer.getvalue()


def commit(bench: Bench, seen: Observed, *actions: Any, transaction: str = "t-1") -> Commit:
    return Commit(
        transaction=transaction,
        look=bench.look(),
        fingerprint=seen.fingerprint,
        actions=actions,
        who=WHO,
    )


def test_several_requests_are_answered_in_their_order(agent: Agent, bench: Bench) -> None:
    agent.send(bench.look(), bench.look())
    assert isinstance(agent.reply(), Observed)
    assert isinstance(agent.reply(), Observed)
    assert agent.end() == 0


def test_files_may_come_over_the_agents_own_channel(agent: Agent, bench: Bench) -> None:
    sha256, data = archive(b"x" * 100_000)
    dest = bench.folder / "there"
    file = FileWanted(dest=str(dest), sha256=sha256, size=100_000, mode=0o644)
    agent.send(Stage(transaction="t-1", bytes_needed=len(data), over="channel"))
    for at in range(0, len(data), 50_000):
        agent.send(Chunk(data=base64.b64encode(data[at : at + 50_000]).decode()))
    agent.send(Chunk(data=""))
    assert isinstance(agent.reply(), Staging)
    agent.send(bench.look())
    seen = agent.reply()
    agent.send(commit(bench, seen, Receive(files=(file,)), PlaceFiles(files=(file,))))
    assert agent.reply().failure is None
    assert dest.read_bytes() == b"x" * 100_000


def test_the_same_transaction_may_be_staged_again_another_way(agent: Agent, bench: Bench) -> None:
    agent.send(Stage(transaction="t-1", bytes_needed=1, over="file"))
    first = agent.reply()
    Path(first.folder, "files.tar").write_bytes(b"half")
    agent.send(Stage(transaction="t-1", bytes_needed=1, over="channel"), Chunk(data=""))
    assert agent.reply() == first
    assert Path(first.folder, "files.tar").read_bytes() == b""


def test_an_upload_that_fails_is_answered_once_and_the_next_request_is_heard(
    agent: Agent, bench: Bench
) -> None:
    agent.send(Stage(transaction="t-1", bytes_needed=1, over="channel"))
    agent.send(Chunk(data="no base64!"), Chunk(data="AAAA"), Chunk(data=""))
    assert agent.reply().code == "internal"
    agent.send(bench.look())
    assert isinstance(agent.reply(), Observed)


@pytest.mark.parametrize("over", ["file", "channel"])
def test_what_was_staged_goes_when_the_input_ends_before_the_commit(
    agent: Agent, bench: Bench, over: Any
) -> None:
    agent.send(Stage(transaction="t-1", bytes_needed=10, over=over))
    if over == "file":
        assert Path(agent.reply().folder).is_dir()
    else:
        agent.send(Chunk(data="AAAA"))
        until(lambda: bench.state.staging("t-1").exists())
    assert agent.end() == 0
    assert not bench.state.staging("t-1").exists()


def test_a_lost_client_does_not_stop_a_begun_transaction(agent: Agent, bench: Bench) -> None:
    bench.start(R1, "trap '' INT; while :; do sleep 0.1; done")
    stop = StopRun(session="dflash", run_id=R1, signal="INT", grace_s=1.0)
    actions = (stop, trainer(R2, ("sleep", "60")), VerifyRun(run_id=R2, alive_for_s=0))
    agent.send(commit(bench, bench.observe(), *actions, transaction="t-9"))
    assert agent.hear() == StepBegun(index=0)
    agent.hang_up()
    agent.answers.close()
    os.kill(agent.pid, signal.SIGHUP)
    assert agent.end() == 0
    after = bench.observe()
    assert after.run is not None
    assert (after.state, after.run.id, after.cut) == ("RUNNING", R2, None)


def test_the_outcome_of_a_lost_transaction_can_be_asked_for(agent: Agent, bench: Bench) -> None:
    bench.start(R1, "sleep 60")
    agent.send(Ask(transaction="t-1", look=bench.look()))
    assert agent.reply().run_id == R1
    agent.send(Ask(transaction="t-none", look=bench.look()))
    assert agent.reply() == Failure(code="not_begun", detail={})


def test_a_busy_target_is_told_over_the_wire(agent: Agent, bench: Bench) -> None:
    from dflashctl.agent import journal

    bench.state.create()
    with journal.locked(bench.state, "t-0", replace(WHO, user="bob")):
        agent.send(commit(bench, bench.observe()))
        answer = agent.reply()
    assert (answer.code, answer.detail["who"]) == ("lock_held", "bob@desk")


def test_logs_are_streamed_and_following_ends_with_the_client(agent: Agent, bench: Bench) -> None:
    bench.start(R1, "echo hello; sleep 60")
    until(lambda: "hello" in bench.log(R1))
    agent.send(Logs(job="dflash", run_id=None, lines=5, follow=True))
    assert isinstance(said := agent.hear(), LogText)
    assert "hello" in said.text
    agent.hang_up()
    assert isinstance(agent.reply(), LogEnd | None)
    assert agent.end() == 0


def test_a_heartbeat_comes_while_a_request_takes_its_time(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "HEARTBEAT_S", 0.1)
    bench.start(R1, "trap '' INT; echo deaf; while :; do sleep 0.1; done")
    until(lambda: "deaf" in bench.log(R1))
    agent = Agent(bench)
    stop = StopRun(session="dflash", run_id=R1, signal="INT", grace_s=1.0)
    agent.send(commit(bench, bench.observe(), stop, transaction="t-9"))
    heard = []
    while isinstance(said := agent.hear(), Event):
        heard.append(said)
    assert sum(isinstance(event, Alive) for event in heard) >= 5
    assert agent.end() == 0


@pytest.mark.parametrize("line", [b"rm -rf /\n", b'{"is": "Commit"}\n', b"[]\n", b"\xff\xfe\n"])
def test_a_line_that_is_no_request_ends_the_agent_without_harm(
    agent: Agent, bench: Bench, line: bytes
) -> None:
    agent.write(line)
    assert agent.hear() is None
    assert agent.end() == 0
    assert not bench.state.path.exists()


def test_a_piece_without_a_stage_is_refused(agent: Agent) -> None:
    agent.send(Chunk(data="AAAA"))
    assert agent.reply().code == "internal"


def test_a_fault_of_ours_is_answered_with_its_traceback(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def burst(*_: object) -> None:
        raise RuntimeError("burst")

    monkeypatch.setattr(serve, "observe", burst)
    agent = Agent(bench)
    agent.send(bench.look())
    assert "burst" in agent.reply().detail["traceback"]
    assert agent.end() == 0


def test_a_state_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    agent = Agent(Bench(folder=tmp_path / "file"))
    agent.send(Stage(transaction="t-1", bytes_needed=1, over="file"))
    assert agent.reply().code == "system"
    assert agent.end() == 0


def test_a_reader_that_does_not_read_cannot_hold_up_a_begun_transaction(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "WRITE_S", 0.3)
    source, sink = os.pipe()
    out = serve.Wire(0, sink)
    out.committed = True
    begun = time.monotonic()
    for _ in range(50):
        out.send(LogText(text="x" * 10_000))
    assert time.monotonic() - begun < 5
    out.committed = False
    with pytest.raises(serve.ClientGone):
        out.send(Alive())
    os.close(source)
    os.close(sink)


@pytest.mark.parametrize("asks_for_files", [True, False])
def test_what_a_start_needs_is_loaded_ahead_only_where_one_is_likely_to_follow(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, asks_for_files: bool
) -> None:
    monkeypatch.setattr(serve, "load_ahead", (bench.folder / "loading").touch)
    place = str(bench.folder / "train.py")
    file = FileWanted(dest=place, sha256="0" * 64, size=1, mode=0o644)
    agent = Agent(bench)
    for files in ((file,) if asks_for_files else (), ()):  # the second comes after the loading
        agent.send(bench.look(files=files))
        agent.reply()
    assert (bench.folder / "loading").exists() == asks_for_files
    agent.end()


def test_loading_ahead_holds_nobody_up_and_loads() -> None:
    script = (
        "import sys, threading\n"
        "from dflashctl.agent.session import load_ahead\n"
        "assert 'libtmux' not in sys.modules\n"
        "load_ahead()\n"
        "[one.join() for one in threading.enumerate() if one.name == 'libtmux']\n"
        "assert 'libtmux' in sys.modules\n"
    )
    subprocess.run((sys.executable, "-c", script), check=True, timeout=60)
