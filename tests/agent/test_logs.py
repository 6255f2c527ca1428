"""The last lines of a log, and what comes after them."""

import io
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflashctl.agent import logs
from dflashctl.agent.failures import AgentError
from dflashctl.agent.protocol import LogEnd, Logs

from .conftest import R1, R2, Bench, until


@given(
    st.lists(st.sampled_from([b"", b"a", b"bc" * 50]), max_size=30),
    st.integers(0, 35),
    st.booleans(),
)
def test_the_last_lines_are_those_that_a_reader_would_count(
    lines: list[bytes], wanted: int, ended: bool
) -> None:
    text = b"\n".join(lines) + (b"\n" if ended and lines else b"")
    piece, logs.PIECE = logs.PIECE, 7
    try:
        start = logs._start_of_last(io.BytesIO(text), wanted)
    finally:
        logs.PIECE = piece
    kept = text.splitlines(keepends=True)
    assert text[start:] == b"".join(kept[max(0, len(kept) - wanted) :])


def ask(bench: Bench, **more: object) -> tuple[str, LogEnd]:
    settings: dict[str, object] = {"job": "dflash", "run_id": None, "lines": 10, "follow": False}
    text: list[str] = []
    end = logs.stream(
        Logs(**{**settings, **more}),  # type: ignore[arg-type] # any field, by its name
        bench.state,
        text.append,
        lambda: False,
    )
    return "".join(text).replace("\r\n", "\n"), end


def test_the_output_of_a_run_can_be_read_after_its_end(bench: Bench) -> None:
    bench.start(R1, "seq 1 5")
    until(bench.run(R1).exit.exists)
    text, end = ask(bench, lines=4)
    assert text.splitlines()[:2] == ["4", "5"]
    assert (end.run_id, end.state) == (R1, "FINISHED")


def test_following_shows_what_comes_and_ends_with_the_run(bench: Bench) -> None:
    bench.start(R1, "echo one; sleep 1; echo two; exit 3")
    text, end = ask(bench, follow=True)
    assert text.splitlines()[:2] == ["one", "two"]
    assert end.state == "FAILED"


def test_following_ends_when_nobody_reads_any_more(bench: Bench) -> None:
    bench.start(R1, "sleep 60")
    gone = threading.Event()
    threading.Timer(0.5, gone.set).start()
    begun = time.monotonic()
    request = Logs(job="dflash", run_id=None, lines=1, follow=True)
    logs.stream(request, bench.state, lambda _: None, gone.is_set)
    assert time.monotonic() - begun < 3
    assert bench.observe().state == "RUNNING"


def test_an_earlier_run_is_asked_for_by_its_id(bench: Bench) -> None:
    bench.start(R1, "echo first")
    until(bench.run(R1).exit.exists)
    until(lambda: bench.observe().session is None)
    bench.start(R2, "echo second; sleep 60")
    assert "first" in ask(bench, run_id=R1)[0]


@pytest.mark.parametrize("run_id", [None, "no-such-run", "../../r1", ""])
def test_a_run_that_is_not_there_is_an_error_naming_those_that_are(bench: Bench, run_id) -> None:
    if run_id is not None:
        bench.start(R1, "sleep 60")
    with pytest.raises(AgentError, match="no_run") as caught:
        ask(bench, run_id=run_id) if run_id != "" else ask(Bench(folder=bench.folder / "none"))
    if run_id:
        assert caught.value.failure.detail["known"] == [R1]
