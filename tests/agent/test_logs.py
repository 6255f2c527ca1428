"""The last lines of a log, and what comes after them."""

import io
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflashctl.agent import logs
from dflashctl.agent.failures import AgentError
from dflashctl.agent.protocol import LogEnd, Logs
from dflashctl.agent.records import StateFolder
from dflashctl.agent.rotate import Rotating

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
        start, missing = logs._start_of_last(io.BytesIO(text), wanted)
    finally:
        logs.PIECE = piece
    kept = text.splitlines(keepends=True)
    assert text[start:] == b"".join(kept[max(0, len(kept) - wanted) :])
    assert missing == max(0, wanted - len(kept))


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


def asked(tmp_path: Path, **more: object) -> str:
    """What a run that is over gives, whose log lies in ``tmp_path``."""
    state = StateFolder(path=tmp_path)
    state.run("dflash", "r").run.write_text(
        '{"started_at": 0, "session": "s", "command": [], "env": {}, "release": "",'
        ' "started_by": "x"}'
    )
    request: dict[str, object] = {"job": "dflash", "run_id": "r", "lines": None, "follow": False}
    text: list[str] = []
    logs.stream(Logs(**{**request, **more}), state, text.append, lambda: False)  # type: ignore[arg-type] # any field
    return "".join(text)


@pytest.fixture
def log(tmp_path: Path) -> Rotating:
    """A log of the run ``r`` that turns after 100 bytes."""
    folder = StateFolder(path=tmp_path).run("dflash", "r")
    folder.path.mkdir(parents=True)
    return Rotating(str(folder.log), 100, 3)


@pytest.mark.parametrize("wanted", [1, 7, 12, 13, 25, 29, 30, 99])
def test_the_last_lines_are_found_across_the_pieces_of_a_log(
    tmp_path: Path, log: Rotating, wanted: int
) -> None:
    for number in range(30):
        log.write(b"line %02d..\n" % number)
    lines = asked(tmp_path, lines=wanted).splitlines()
    assert lines == [f"line {n:02d}.." for n in range(30)][-wanted:]


def test_following_goes_on_through_a_log_that_turns(tmp_path: Path, log: Rotating) -> None:
    path = str(StateFolder(path=tmp_path).run("dflash", "r").log)
    log.write(b"line 00..\n")
    reader = logs._Reader(path)
    assert b"".join(reader.all()) == b"line 00..\n"
    for number in range(1, 30):
        log.write(b"line %02d..\n" % number)
        if number % 7 == 0:
            assert b"line %02d.." % number in b"".join(reader.all())


def test_what_came_since_a_moment_is_found_by_the_index(tmp_path: Path, log: Rotating) -> None:
    index = StateFolder(path=tmp_path).run("dflash", "r").path / "log.index"
    now, marks = time.time(), []
    for number in range(30):
        marks.append(f"{now - 600 + 20 * number:.0f} {log.size}\n")
        log.write(b"line %02d..\n" % number)
    index.write_text("".join(marks))
    for since_s, first in ((61, 26), (301, 14), (9000, 0), (1, 29)):
        lines = asked(tmp_path, since_s=float(since_s)).splitlines()
        assert lines[0] == f"line {first:02d}..", since_s
        assert lines[-1] == "line 29.."


def test_only_lines_in_which_a_pattern_is_found(tmp_path: Path, log: Rotating) -> None:
    for number in range(12):
        log.write(b"\x1b[31mline\x1b[0m %d\r\n" % number)
    assert asked(tmp_path, grep="^line 1").count("\n") == 3
    assert asked(tmp_path, grep="^line 1", lines=1) == "\x1b[31mline\x1b[0m 11\r\n"
    with pytest.raises(AgentError, match="bad_pattern"):
        asked(tmp_path, grep="(")


def test_errors_are_told_once_and_whole(tmp_path: Path, log: Rotating) -> None:
    for rank in (0, 1):
        log.write(b"[rank%d]: Traceback (most recent call last):\n" % rank)
    log.write(b"step 3 loss 1.0\n")
    for line in (b'  File "t.py", line 3, in f\n', b"ValueError: bad 0x7f%d\n"):
        for rank in (0, 1):
            log.write(b"[rank%d]: " % rank + (line % rank if b"%" in line else line))
    assert asked(tmp_path, errors=True) == (
        "-- 2 times, ranks 0, 1:\nTraceback (most recent call last):\n"
        '  File "t.py", line 3, in f\nValueError: bad 0x7f0\n\n'
    )


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
