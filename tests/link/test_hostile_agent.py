"""A target whose agent lies, babbles or never ends: one error of ours, in time, in bounds."""

from __future__ import annotations

import base64
import json
import resource
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dflashctl.agent import wire
from dflashctl.agent.keeping import Pull, PullBegun, PullData, PullDone, PullPath, StoreSpec
from dflashctl.agent.protocol import Ask, Commit, Failure, Logs, Look, Output, RunCommand, Who
from dflashctl.errors import DflashError, Internal, LinkLost
from dflashctl.link.client import Agent
from dflashctl.link.complaints import as_error
from dflashctl.link.deadlines import Deadlines
from dflashctl.link.greeting import greet
from dflashctl.link.landing import Landing
from dflashctl.link.local import LocalTransport
from tests.link.fakes import observed_json, scripted, target_at

pytestmark = pytest.mark.hostile

LOOK = Look(job="j", session="j")
COMMIT = Commit(
    transaction="t", look=LOOK, fingerprint={}, actions=(), who=Who(user="u", host="h", version="0")
)
PULL = Pull(store=StoreSpec(path="/c"), name="one", identity=None, skip=0, offset=0)
SHORT = Deadlines(silence_s=0.5, reply_s=1.0, greeting_s=1.0)
ASKS: dict[str, Callable[[Agent], Any]] = {
    "observe": lambda agent: agent.observe(LOOK),
    "commit": lambda agent: agent.commit(COMMIT, lambda _: None),
    "ask": lambda agent: agent.ask(Ask(transaction="t", look=LOOK), lambda _: None),
    "logs": lambda agent: list(
        agent.logs(Logs(job="j", run_id=None, lines=None, follow=False))
    ),
    "list_runs": lambda agent: agent.list_runs("j"),
    "recall": lambda agent: agent.recall("j", "r"),
    "read_blobs": lambda agent: agent.read_blobs(["a"], 1),
    "pull": lambda agent: agent.pull(PULL, lambda _: None, "NONE"),
}  # fmt: skip


class Said:
    """A channel on which everything was said already."""

    def __init__(self, text: bytes, again: bytes = b"") -> None:
        self._text, self._again = text, again

    def read(self, timeout_s: float) -> bytes:
        piece, self._text = self._text[: 1 << 16], self._text[1 << 16 :]
        return piece or self._again

    def write(self, data: bytes) -> None:
        pass

    def close_input(self) -> None:
        pass

    def stderr_tail(self) -> str:
        return ""

    def exit_code(self, timeout_s: float) -> int | None:
        return None

    def close(self) -> None:
        pass


def agent_that_says(text: bytes, again: bytes = b"") -> Agent:
    return Agent("there", LocalTransport("there"), Said(text, again), SHORT)


NAMES = [
    "Observed", "Outcome", "Failure", "LogText", "LogEnd", "RunsListed", "RunRecord", "Texts",
    "Pulled", "Alive", "StepBegun", "StepDone", "PullBegun", "PullData", "Staging", "Nothing",
]  # fmt: skip
KEYS = st.sampled_from(["is", "code", "detail", "observed", "run_id", "text", "folder", "index"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=9,
)
LIES = st.builds(lambda name, rest: {**rest, "is": name}, st.sampled_from(NAMES),
                 st.dictionaries(KEYS, VALUES, max_size=5))  # fmt: skip
# An observation of which one part is something else.
ALMOST = st.builds(
    lambda name, value: {**observed_json(), name: value},
    st.sampled_from(sorted(observed_json())), VALUES,
)  # fmt: skip
LINES = (LIES | ALMOST | VALUES).map(lambda value: json.dumps(value).encode()) | st.binary(
    max_size=40
)


@pytest.mark.parametrize("ask", ASKS)
@settings(max_examples=25, deadline=None)
@given(st.lists(LINES, max_size=4))
def test_whatever_is_answered_is_a_value_or_an_error_of_ours(ask: str, lines: list[bytes]):
    agent = agent_that_says(b"".join(line + b"\n" for line in lines))
    with suppress(DflashError):
        ASKS[ask](agent)


@given(st.text(max_size=9), st.dictionaries(
    st.sampled_from(["who", "since", "changed", "path", "free", "reason", "run_id", "exit_code"]),
    VALUES, max_size=4,
))  # fmt: skip
def test_whatever_is_complained_of_becomes_an_error(code: str, detail: dict[str, Any]):
    for known in (code, "lock_held", "stale", "no_run", "disk_full", "job_died", "internal"):
        assert isinstance(as_error("t", Failure(code=known, detail=detail)), DflashError)


@pytest.mark.parametrize(
    "line",
    [
        b'{"is": "Failure", "code": "x", "detail": {"n": 1' + b"0" * 400 + b"}}",
        b'{"is": "Failure", "code": "x", "detail": {"n": ' + b"9" * 5000 + b"}}",
        b'{"is": "Failure", "code": "x", "detail": {"n": ' + b"[" * 900 + b"]" * 900 + b"}}",
        b"[" * 100_000,
        b'{"is": ' * 50_000,
        b'{"is": ["Observed"]}',
        b'{"is": "Observed", "is": "Failure"}',
        b"\xff\xfe\x00",
    ],
    ids=["beyond 64 bits", "5000 digits", "deep", "brackets", "braces", "odd", "twice", "bytes"],
)
def test_what_json_can_be_made_to_hold_is_nonsense(line: bytes):
    with pytest.raises(Internal, match="nonsense"):
        agent_that_says(line + b"\n").observe(LOOK)


@pytest.mark.parametrize("what", ["Alive", "StepBegun"])
def test_an_endless_talk_without_an_answer_ends(what: str):
    body = {"is": what} if what == "Alive" else {"is": what, "index": 1}
    began = time.monotonic()
    with pytest.raises(LinkLost, match="no answer within 1 s"):
        agent_that_says(b"", again=json.dumps(body).encode() + b"\n").observe(LOOK)
    assert time.monotonic() - began < 30


def test_an_endless_line_is_given_up_in_bounded_memory():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(Internal, match="a line of more than"):
        agent_that_says(b"", again=b"x" * 65536).commit(COMMIT, lambda _: None)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024


@pytest.mark.parametrize(
    ("said", "again"),
    [
        (b"dflashctl-agent " + b"9" * 5000 + b" ready\n", b""),
        (b"dflashctl-agent 1 refused [1]\n", b""),
        (b"dflashctl-agent 1 refused 7\n", b""),
        (b"dflashctl-agent 1 refused " + b"[" * 60_000 + b"\n", b""),
        (b"dflashctl-agent 1 \x1b[31m\n", b""),
        (b"", b"dflashctl-agent "),
        (b"", b"\n"),
    ],
)
def test_a_greeting_that_is_none_is_told(said: bytes, again: bytes):
    target = target_at(None)  # type: ignore[arg-type] # nothing is connected here
    with pytest.raises(DflashError):
        greet(target, LocalTransport("t"), Said(said, again), scripted(""), SHORT)


# --- what is pulled -----------------------------------------------------------------------

PATHS = st.sampled_from(
    ["a", "a/b", "../x", "/etc/passwd", "a/../../x", "a//b", "", ".", "..", "a\0b", "\udc80",
     "\ud800", "x" * 300, "/".join(["d"] * 3000)]
)  # fmt: skip
SIZES = st.integers(-(2**63), 2**63) | st.integers(0, 9)
EVENTS = st.one_of(
    st.builds(PullBegun, identity=st.sampled_from(["i", "j", "\ud800"]), paths=SIZES, size=SIZES),
    st.builds(
        PullPath, path=PATHS, kind=st.sampled_from(["file", "dir", "link", "hard", "char", "fifo"]),
        mode=SIZES, size=SIZES, mtime_ns=SIZES, target=PATHS,
    ),
    st.builds(PullData, data=st.sampled_from([base64.b64encode(b"abc").decode(), "a", "é", ""])),
    st.builds(PullDone, sha256=st.text(max_size=3)),
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(EVENTS, max_size=12))
def test_whatever_is_sent_lands_in_the_folder_or_nowhere(
    tmp_path_factory: pytest.TempPathFactory, events: list[Any]
):
    outside = tmp_path_factory.mktemp("outside")
    folder = outside / "in" / "here"
    landing = Landing(folder, "one", lambda *_: None)
    with suppress(DflashError), closing(landing):
        for event in events:
            landing.hear(event)
        landing.finish()
    assert [one.name for one in outside.iterdir()] == ["in"]
    assert [one.name for one in (outside / "in").iterdir()] == ["here"]
    for path in folder.rglob("*"):
        assert path.is_symlink() or path.is_file() or path.is_dir(), "no device, no fifo"
        assert not path.is_symlink() or Path(folder) in path.resolve().parents


# --- what a program prints ----------------------------------------------------------------


class Nothing:
    """Ends of streams: no input; what is printed is counted, slowly."""

    def __init__(self) -> None:
        self.seen = 0

    def read(self, size: int) -> bytes:
        time.sleep(30)
        return b""

    def write(self, stream: str, data: bytes) -> None:
        self.seen += len(data)
        time.sleep(0.05)


@pytest.mark.parametrize("data", ["é", "abc", base64.b64encode(b"x" * 30_000).decode()])
def test_output_that_is_none_or_a_flood_ends_the_program(data: str):
    flood = wire.dump(Output(stream="out", data=data))
    agent = agent_that_says(b"", again=flood)
    with pytest.raises(DflashError):
        agent.foreground(Nothing()).run(RunCommand(words=("yes",)))
