"""Requests and replies, with agents that behave well, badly, or not at all."""

from __future__ import annotations

import hashlib
import io
import os
import signal
import tarfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dflashctl.agent.protocol import (
    Ask,
    Commit,
    Event,
    Failure,
    FileWanted,
    LogEnd,
    Logs,
    LogText,
    Look,
    Outcome,
    Probe,
    StepBegun,
    StepDone,
    Who,
)
from dflashctl.errors import (
    DflashError,
    Internal,
    LinkLost,
    LockHeld,
    MissingTool,
    NothingRuns,
    Refused,
    Stale,
)
from dflashctl.inventory.model import Target
from dflashctl.link import client, connect
from dflashctl.link.archive import Archives
from dflashctl.link.client import Agent
from dflashctl.link.complaints import as_error
from dflashctl.link.connect import Connections, open_agent
from dflashctl.link.deadlines import Deadlines
from dflashctl.link.local import LocalTransport
from dflashctl.link.transport import NoFileChannel
from dflashctl.playbook.model import PushedFile
from tests.link.fakes import address_of, scripted, target_at, write_python
from tests.sshd import start_sshd

if TYPE_CHECKING:
    from tests.sshd import Sshd

LOOK = Look(job="dflash", session="dflash")
COMMIT = Commit(
    transaction="t-1",
    look=LOOK,
    fingerprint={},
    actions=(),
    who=Who(user="me", host="here", version="0"),
)
LOGS = Logs(job="dflash", run_id=None, lines=10, follow=False)

Start = Callable[[str], Agent]


@pytest.fixture
def start(here: Target, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Start an agent on this machine that does what the given lines say."""
    with ExitStack() as stack:

        def begin(script: str) -> Agent:
            monkeypatch.setattr(connect, "read_bundle", lambda: scripted(script))
            connections = stack.enter_context(Connections())
            return stack.enter_context(open_agent(here, connections))

        yield begin


def test_a_look_is_answered_between_heartbeats(start: Start):
    agent = start("while True: hear(); say(Alive()); say(Alive()); say(observed())")
    assert agent.observe(LOOK).hostname == "there"
    assert agent.observe(LOOK).state == "NONE"


def test_events_are_handed_on_in_order_and_heartbeats_are_not(start: Start):
    agent = start(
        """
        hear()
        say(StepBegun(index=0)); say(Alive())
        say(StepDone(index=0, seconds=0.1, result="fine", facts={"n": [1]}))
        say(Outcome(run_id="r", failed_at=None, failure=None, observed=observed()))
        """
    )
    events: list[Event] = []
    assert agent.commit(COMMIT, events.append).run_id == "r"
    assert events == [
        StepBegun(index=0),
        StepDone(index=0, seconds=0.1, result="fine", facts={"n": [1]}),
    ]


def test_what_came_of_a_transaction_can_be_asked(start: Start):
    agent = start(
        """
        hear(); say(StepDone(index=0, seconds=0.1, result="fine", facts={}))
        say(Outcome(run_id="r", failed_at=None, failure=None, observed=observed()))
        hear(); say(Failure(code="not_begun", detail={}))
        hear(); say(Failure(code="no_tmux", detail={}))
        """
    )
    events: list[Event] = []
    ask = Ask(transaction="t-1", look=LOOK)
    outcome = agent.ask(ask, events.append)
    assert isinstance(outcome, Outcome)
    assert (outcome.run_id, len(events)) == ("r", 1)
    assert agent.ask(ask, events.append) == Failure(code="not_begun", detail={})
    with pytest.raises(MissingTool):
        agent.ask(ask, events.append)


def test_a_large_reply_in_many_pieces_is_one_message(start: Start):
    agent = start('hear(); say(observed(problems=["x" * 1000] * 5000))')
    assert len(agent.observe(LOOK).problems) == 5000


def test_logs_come_piece_by_piece_and_end(start: Start):
    agent = start(
        """
        hear(); say(LogText(text="a")); say(Alive()); say(LogText(text="b"))
        say(LogEnd(run_id="r", state="FINISHED"))
        """
    )
    assert list(agent.logs(LOGS)) == [
        *(LogText(text="a"), LogText(text="b")),
        LogEnd(run_id="r", state="FINISHED"),
    ]


def test_logs_of_no_run_say_so(start: Start):
    agent = start('hear(); say(Failure(code="no_run", detail={"run_id": "r"}))')
    with pytest.raises(NothingRuns):
        list(agent.logs(LOGS))


# --- what goes wrong -------------------------------------------------------------------


@pytest.mark.provokes("link_lost")
def test_silence_is_a_lost_link(start: Start):
    agent = start("hear(); time.sleep(30)")
    agent._deadlines = Deadlines(silence_s=0.3)
    with pytest.raises(LinkLost, match="silent") as caught:
        agent.observe(LOOK)
    assert caught.value.transaction is None


def test_heartbeats_keep_a_long_answer_alive(start: Start):
    agent = start("hear()\nfor _ in range(8): time.sleep(0.2); say(Alive())\nsay(observed())")
    agent._deadlines = Deadlines(silence_s=1.0)
    assert agent.observe(LOOK).state == "NONE"


def test_an_agent_that_dies_is_a_lost_link_with_its_last_words(start: Start):
    agent = start('hear(); sys.stderr.write("line one\\nout of memory\\n"); sys.exit(1)')
    with pytest.raises(LinkLost, match="out of memory"):
        agent.observe(LOOK)


def test_a_link_lost_after_the_commit_names_the_transaction(start: Start):
    agent = start("hear(); say(StepBegun(index=0)); sys.exit(1)")
    with pytest.raises(LinkLost) as caught:
        agent.commit(COMMIT, lambda _: None)
    assert caught.value.transaction == "t-1"


def test_a_look_that_fails_after_the_transaction_is_asked_for_anew(start: Start):
    unseen = 'say(Failure(code="unseen", detail={"reason": "tmux does not answer"}))'
    agent = start(f"hear(); {unseen}; hear(); {unseen}")
    with pytest.raises(LinkLost, match="tmux does not answer") as caught:
        agent.commit(COMMIT, lambda _: None)
    assert caught.value.transaction == "t-1"
    with pytest.raises(LinkLost, match="tmux does not answer"):
        agent.ask(Ask(transaction="t-1", look=LOOK), lambda _: None)


@pytest.mark.parametrize(
    "answer",
    [
        'os.write(1, b"what?\\n")',
        'os.write(1, b\'{"is": "Observed"}\\n\')',
        "say(StepBegun(index=0)); say(Staging(folder='/x'))",
        "say(LogEnd(run_id='r', state='NONE'))",
    ],
)
def test_nonsense_is_an_internal_fault(start: Start, answer: str):
    agent = start(f"hear(); {answer}; time.sleep(5)")
    with pytest.raises(Internal, match="nonsense"):
        agent.observe(LOOK)


def test_a_line_without_end_is_not_collected_for_ever(
    start: Start, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(client, "_LINE_LIMIT", 1 << 20)
    agent = start('hear()\nwhile True: os.write(1, b"x" * 65536)')
    with pytest.raises(Internal, match="nonsense"):
        agent.observe(LOOK)


@pytest.mark.provokes("refused.unwritable")
@pytest.mark.parametrize(
    ("failure", "expected", "said"),
    [
        (Failure(code="lock_held", detail={"who": "ann@box", "since": 0.0}), LockHeld, "1970-01"),
        (Failure(code="stale", detail={"changed": ["run"]}), Stale, "run"),
        (Failure(code="no_tmux", detail={}), MissingTool, "tmux"),
        (Failure(code="no_run", detail={"run_id": "r"}), NothingRuns, "dflash"),
        (Failure(code="disk_full", detail={"path": "/x", "free": 1, "needed": 2}), Refused, "/x"),
        (Failure(code="unwritable", detail={"path": "/x", "reason": "no"}), Refused, "/x"),
        (Failure(code="internal", detail={"traceback": "Traceback"}), Internal, "Traceback"),
        (Failure(code="system", detail={"call": "open", "errno": 5}), Internal, "errno=5"),
    ],
)
def test_failures_become_errors(failure: Failure, expected: type[DflashError], said: str):
    error = as_error("t", failure, "dflash")
    assert type(error) is expected
    assert said in str(error)


def test_a_held_lock_reaches_the_caller(start: Start):
    agent = start('hear(); say(Failure(code="lock_held", detail={"who": "a", "since": 1.0}))')
    with pytest.raises(LockHeld) as caught:
        agent.commit(COMMIT, lambda _: None)
    assert (caught.value.holder, caught.value.since) == ("a", "1970-01-01T00:00:01Z")


def test_secrets_are_not_logged(start: Start, caplog: pytest.LogCaptureFixture):
    caplog.set_level("DEBUG")
    agent = start(
        "hear(); say(Outcome(run_id=None,failed_at=None,failure=None,observed=observed()))"
    )
    secret = Commit(
        transaction="t-hush",
        look=Look(job="j", session="hush-hush"),
        fingerprint={},
        actions=(),
        who=COMMIT.who,
    )
    agent.commit(secret, lambda _: None)
    assert "Commit" in caplog.text
    assert "hush" not in caplog.text


# --- files ------------------------------------------------------------------------------

RECEIVER = """
import base64
folder = os.environ["HOME"] + "/staging"
os.makedirs(folder, exist_ok=True)
while True:
    request = hear()
    if request.over == "channel":
        with open(folder + "/over-channel", "wb") as out:
            while chunk := hear().data:
                out.write(base64.b64decode(chunk))
    say(Staging(folder=folder))
"""
CONTENT = os.urandom(300_000)


def payload(folder: Path) -> tuple[list[PushedFile], list[FileWanted]]:
    source = folder / "train.py"
    source.write_bytes(CONTENT)
    digest = hashlib.sha256(CONTENT).hexdigest()
    wanted = FileWanted(dest="/root/train.py", sha256=digest, size=len(CONTENT), mode=0o644)
    return [PushedFile(source=source, dest="/root/train.py", mode=0o644)], [wanted]


def unpacked(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as tar:
        return {one.name: (tar.extractfile(one) or io.BytesIO()).read() for one in tar}


def test_files_are_pushed_as_one_archive(start: Start, home: Path, tmp_path: Path):
    files, wanted = payload(tmp_path)
    seen: list[tuple[int, int]] = []
    with Archives() as archives:
        archive = archives.of(files, wanted)
        start(RECEIVER).push("t-1", archive, lambda *at: seen.append(at))
    assert unpacked(home / "staging" / "files.tar") == {wanted[0].sha256: CONTENT}
    assert seen[-1][0] == seen[-1][1] > len(CONTENT)


def test_without_a_file_channel_they_go_over_the_agents_own(
    start: Start, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def refuse(*_: object) -> None:
        raise NoFileChannel("not today")

    monkeypatch.setattr(LocalTransport, "send_file", refuse)
    files, wanted = payload(tmp_path)
    seen: list[tuple[int, int]] = []
    with Archives() as archives:
        archive = archives.of(files, wanted)
        start(RECEIVER).push("t-1", archive, lambda *at: seen.append(at))
    assert unpacked(home / "staging" / "over-channel") == {wanted[0].sha256: CONTENT}
    assert seen[-1][0] == seen[-1][1] > len(CONTENT)


@pytest.mark.parametrize("extra", [(), ("MaxSessions 1",)])
def test_files_arrive_over_ssh_with_and_without_a_second_session(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extra: tuple[str, ...]
):
    monkeypatch.setattr(connect, "read_bundle", lambda: scripted(RECEIVER))
    (tmp_path / "sshd").mkdir()
    server = start_sshd(tmp_path / "sshd", home=home, extra=extra)
    try:
        target = target_at(address_of(server), write_python(tmp_path / "py", home))
        files, wanted = payload(tmp_path)
        with (
            Archives() as archives,
            Connections() as connections,
            open_agent(target, connections) as agent,
        ):
            agent.push("t-1", archives.of(files, wanted), lambda *_: None)
        arrived = home / "staging" / ("over-channel" if extra else "files.tar")
        assert unpacked(arrived) == {wanted[0].sha256: CONTENT}
    finally:
        server.stop()


def test_a_disk_that_fills_up_midway_ends_the_sending(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def refuse(*_: object) -> None:
        raise NoFileChannel("not today")

    monkeypatch.setattr(LocalTransport, "send_file", refuse)
    files, wanted = payload(tmp_path)
    agent = start(
        """
        hear(); say(Staging(folder="/x")); hear(); hear()
        say(Failure(code="disk_full", detail={"path": "/x", "free": 0, "needed": 9}))
        while hear(): pass
        """
    )
    with Archives() as archives, pytest.raises(Refused) as caught:
        agent.push("t-1", archives.of(files, wanted), lambda *_: None)
    assert caught.value.refusals[0].code == "disk_full"


@pytest.mark.provokes("refused.disk_full")
def test_too_little_room_is_told_before_anything_is_sent(start: Start, tmp_path: Path):
    files, wanted = payload(tmp_path)
    agent = start('hear(); say(Failure(code="disk_full", detail={"path":"/","free":0,"needed":9}))')
    with Archives() as archives, pytest.raises(Refused):
        agent.push("t-1", archives.of(files, wanted), lambda *_: None)


# --- over a connection that dies ---------------------------------------------------------


@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGSTOP])
def test_a_connection_that_dies_midway_is_a_lost_link(
    sshd: Sshd,
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    blow: signal.Signals,
):
    script = "hear(); say(StepBegun(index=0))\nwhile True: time.sleep(0.1); say(Alive())"
    monkeypatch.setattr(connect, "read_bundle", lambda: scripted(script))
    (tmp_path / "sshd").mkdir()
    server = start_sshd(tmp_path / "sshd", home=home)
    target = target_at(address_of(server), write_python(tmp_path / "py", home))
    struck: list[int] = []

    def strike(_: Event) -> None:
        for pid in server.connections():
            struck.append(pid)
            os.kill(pid, blow)

    try:
        with Connections() as connections, open_agent(target, connections) as agent:
            agent._deadlines = Deadlines(silence_s=1.0)
            with pytest.raises(LinkLost) as caught:
                agent.commit(COMMIT, strike)
        assert caught.value.transaction == "t-1"
        assert struck
    finally:
        for pid in struck:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        server.stop()


# How many requests came with the start; then a second one is answered.
COUNTS = """
say(observed(hostname=f"{len(_waiting.splitlines())} with the start"))
hear()
say(observed(hostname=f"then {type(hear()).__name__}"))
"""
MANY = tuple(
    FileWanted(dest=f"/w/{n}", sha256=hashlib.sha256(b"%d" % n).hexdigest(), size=n, mode=0o644)
    for n in range(1000)
)


def test_a_first_question_comes_with_the_start_and_is_not_asked_again(
    here: Target, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(connect, "read_bundle", lambda: scripted(COUNTS))
    with Connections() as connections, open_agent(here, connections, LOOK) as agent:
        assert agent.observe(LOOK).hostname == "1 with the start"
        assert agent.observe(LOOK).hostname == "then Look"


@pytest.mark.parametrize(
    "look",
    [
        pytest.param(
            replace(LOOK, probe=Probe(python="p", imports=(), env={"A": "x"})), id="environment"
        ),
        pytest.param(replace(LOOK, files=MANY), id="long"),
    ],
)
def test_what_others_should_not_see_or_is_too_long_comes_after_the_start(
    look: Look, here: Target, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(connect, "read_bundle", lambda: scripted(COUNTS))
    with Connections() as connections, open_agent(here, connections, look) as agent:
        assert agent.observe(look).hostname == "0 with the start"


def test_another_request_than_that_of_the_start_is_a_fault_of_ours(
    here: Target, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(connect, "read_bundle", lambda: scripted(COUNTS))
    with (
        Connections() as connections,
        open_agent(here, connections, LOOK) as agent,
        pytest.raises(Internal, match="something else at its start"),
    ):
        agent.observe(replace(LOOK, job="another"))
