from __future__ import annotations

import io
import logging
import os
import sys

import pytest
from rich.text import Text

from dflashctl.errors import Unreachable
from dflashctl.view.console import ReaderGone, Screen, wrapped
from dflashctl.view.outcome import show_error


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def streams(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO) -> io.StringIO:
    """The stream as both of ours. (Not a fixture: the capture begins after those.)"""
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(sys, "stderr", stream)
    return stream


def styled(color: str, environ: dict[str, str], stream: io.StringIO) -> bool:
    """Whether a styled word comes out with colours."""
    with pytest.MonkeyPatch.context() as patch:
        streams(patch, stream)
        Screen(color, environ).out.print(Text("word", style="red"))
    text = stream.getvalue()
    assert "word" in text
    return "\x1b[" in text


XTERM = {"TERM": "xterm-256color"}


def test_a_terminal_is_coloured() -> None:
    assert styled("auto", XTERM, Terminal())


@pytest.mark.parametrize(
    "environ", [{**XTERM, "NO_COLOR": "1"}, {"TERM": "dumb"}, {}], ids=["NO_COLOR", "dumb", "none"]
)
def test_a_terminal_that_wants_no_colours_gets_none(environ: dict[str, str]) -> None:
    assert not styled("auto", environ, Terminal())


def test_never_means_never() -> None:
    assert not styled("never", XTERM, Terminal())


def test_a_pipe_is_not_coloured_unless_it_is_asked_for() -> None:
    assert not styled("auto", XTERM, io.StringIO())
    assert styled("always", {**XTERM, "NO_COLOR": "1"}, io.StringIO())


def test_colours_that_are_forced_pass_through_a_pipe_unless_they_are_unwanted() -> None:
    assert styled("auto", {"FORCE_COLOR": "1"}, io.StringIO())
    assert not styled("auto", {"FORCE_COLOR": "1", "NO_COLOR": "1"}, io.StringIO())
    assert not styled("never", {"FORCE_COLOR": "1"}, io.StringIO())
    assert not styled("auto", {"FORCE_COLOR": ""}, io.StringIO())


def test_nothing_moves_on_a_pipe_or_a_dumb_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Screen("auto", XTERM)
    with screen.waiting("looking at x"):
        pass
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert not Screen("auto", {"TERM": "dumb"}).animates
    assert Screen("auto", XTERM).animates


def test_what_waits_leaves_no_trace_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = streams(monkeypatch, Terminal())
    screen = Screen("auto", {**XTERM, "COLUMNS": "60"})
    with screen.waiting("looking at \x1b]0;x\x07here"), screen.still():
        screen.err.print("a question")
    assert "\x1b]0;" not in terminal.getvalue()
    assert "looking at here" in terminal.getvalue()
    # The last thing said is that the line is gone and the cursor is back.
    assert "looking" not in terminal.getvalue().rpartition("\x1b[2K")[2]
    assert terminal.getvalue().rstrip("\n").endswith("\x1b[2K")


@pytest.mark.parametrize("width", [80, 40, 20, 5])
def test_words_wrap_at_the_width_of_the_terminal(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = streams(monkeypatch, Terminal())
    screen = Screen("never", {**XTERM, "COLUMNS": str(width)})
    error = Unreachable(target="kpro6/dflash", address="192.0.2.6", reason="no route to host")
    show_error(screen, error)
    lines = terminal.getvalue().splitlines()
    assert max(map(len, lines)) <= max(width, 28)
    assert "".join("".join(lines).split()).startswith("error:kpro6/dflashcannotbereachedat")


def test_a_path_wider_than_the_terminal_stays_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = streams(monkeypatch, Terminal())
    path = "/home/ada/" + "a-long-folder/" * 6 + "hosts.yml"
    Screen("never", {**XTERM, "COLUMNS": "60"}).say(f"looked in {path} for it", lead="  ")
    assert [line.strip() for line in shown.getvalue().splitlines()] == ["looked in", path, "for it"]


def test_what_follows_a_question_that_was_left_begins_on_a_line_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = streams(monkeypatch, Terminal())
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert not Screen("never", XTERM).ask("Really? ")
    assert shown.getvalue() == "Really? Please type yes or no: \n"


def test_on_a_pipe_a_paragraph_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    Screen("auto", XTERM).say("word " * 100)
    assert capsys.readouterr().err.count("\n") == 1


def test_markup_in_a_name_is_only_text(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen("auto", XTERM)
    screen.say("[bold]x[/bold] :smile: [link=http://a]b[/link]")
    screen.out.print("[red]y[/red] :smile:")
    out, err = capsys.readouterr()
    assert err == "[bold]x[/bold] :smile: [link=http://a]b[/link]\n"
    assert out == "[red]y[/red] :smile:\n"


def test_a_reader_that_is_gone_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        screen = Screen("auto", XTERM)
        with pytest.raises(ReaderGone):
            screen.write("text\n")
        with pytest.raises(ReaderGone):
            screen.out.print("text")
        os.dup2(os.open(os.devnull, os.O_WRONLY), writing)


def test_a_lost_standard_error_does_not_end_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        Screen("auto", XTERM).say("nobody hears it")
        os.dup2(os.open(os.devnull, os.O_WRONLY), writing)


def test_a_terminal_without_utf_8_shows_question_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    Screen("auto", XTERM).write("30 °C\n")
    assert raw.getvalue() == b"30 ?C\n"


def test_the_debug_log_is_clean(capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        Screen("auto", XTERM).debug_log()
        logging.getLogger("dflashctl.test").debug("it said %s", "\x1b]0;x\x07hello")
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    assert "dflashctl.test: it said hello\n" in capsys.readouterr().err


def test_a_command_that_a_line_can_hold_is_not_broken() -> None:
    said = "Nothing runs there, as was seen. Try: dflashctl status -t kpro6/dflash. Or go home."
    lines = [line.plain.rstrip() for line in wrapped(Text(said), 50)]
    assert lines == [
        "Nothing runs there, as was seen. Try:",
        "dflashctl status -t kpro6/dflash. Or go home.",
    ]
    lines = [line.plain.rstrip() for line in wrapped(Text(said), 20)]
    assert "".join(lines).replace(" ", "") == said.replace(" ", "")
    assert max(map(len, lines)) <= 20
