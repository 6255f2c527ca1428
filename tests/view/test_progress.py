from __future__ import annotations

import io
import re
import sys
import time
from dataclasses import replace

import pytest

from dflashctl.agent.protocol import Alive, StepBegun, StepDone, StepNote, StopRun
from dflashctl.plan.model import Step
from dflashctl.view.console import Screen
from dflashctl.view.progress import Board, Row, Upload

STOP = Step(
    action=StopRun(session="s", run_id=None, signal="INT", grace_s=1.0), what="stop it", why="asked"
)
STEPS = (STOP, Step(action=STOP.action, what="start it [bold]\x1b[2J", why="asked"))
XTERM = {"TERM": "xterm-256color", "COLUMNS": "60"}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def one_step(steps: Row, note: str = "2 still alive, sending TERM") -> None:
    steps.tell(StepBegun(index=0))
    steps.tell(Alive())
    steps.tell(StepNote(index=0, text=note))
    steps.tell(StepDone(index=0, seconds=12.0, result="gone, by TERM", facts={}))


def test_on_a_pipe_a_step_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with Board(Screen("auto", {}), {"here": STEPS}) as board:
        steps = board.of("here")
        one_step(steps)
        steps.tell(StepBegun(index=1))
        steps.failed(1)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "        2 still alive, sending TERM",
        "  done  stop it: gone, by TERM (12 s)",
        "failed  start it [bold]",
    ]


def test_a_step_that_nobody_planned_has_a_number(capsys: pytest.CaptureFixture[str]) -> None:
    with Board(Screen("auto", {}), {"here": ()}) as board:
        steps = board.of("here")
        steps.tell(StepDone(index=4, seconds=0.0, result="", facts={}))
    assert capsys.readouterr().err == "  done  step 5\n"


def test_on_a_terminal_the_step_at_work_moves_and_the_done_ones_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with Board(Screen("never", XTERM), {"here": STEPS}) as board:
        steps = board.of("here")
        steps.tell(StepBegun(index=1))
        time.sleep(0.4)
        one_step(steps)
        steps.remark("it goes on")
    shown = terminal.getvalue()
    assert "start it [bold]" in shown
    assert "\x1b[2J" not in shown
    assert "  done  stop it: gone, by TERM (12 s)" in shown
    assert shown.rstrip().endswith("\x1b[2K") or "it goes on" in shown.splitlines()[-1]


THREE = ("kpro6/dflash", "kpro6/eval", "kpro7/dflash")


def test_of_several_on_a_pipe_each_line_names_its_target(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Board(Screen("auto", {}), dict.fromkeys(THREE, STEPS)) as board:
        one_step(board.of("kpro6/eval"))
        board.of("kpro7/dflash").failed(1)
        board.of("kpro6/dflash").remark("connecting again")
    assert capsys.readouterr().err.splitlines() == [
        "        kpro6/eval: 2 still alive, sending TERM",
        "  done  kpro6/eval: stop it: gone, by TERM (12 s)",
        "failed  kpro7/dflash: start it [bold]",
        "kpro6/dflash: connecting again",
    ]


def test_of_several_on_a_terminal_each_has_a_row_with_its_whole_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    long = replace(STOP, what="stop " + "a run of very many words " * 9)
    with Board(Screen("never", XTERM), dict.fromkeys(THREE, (long, STEPS[1]))) as board:
        for name in THREE:
            board.of(name).tell(StepBegun(index=0))
        board.of(THREE[0]).tell(StepDone(index=0, seconds=0.0, result="gone", facts={}))
        board.of(THREE[0]).ended()
        board.redraw()
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue())
    rows = [line for line in re.split(r"[\r\n]", shown) if "stop a run" in line]
    assert {row.split()[0] for row in rows} == {*THREE}
    assert "  done  stop a run" in shown


def test_more_rows_than_a_terminal_has_lines_leave_out_those_that_are_through(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    names = [f"box{number:02}" for number in range(64)]
    screen = Screen("never", {**XTERM, "LINES": "10"})
    with Board(screen, dict.fromkeys(names, STEPS)) as board:
        for name in names:
            board.of(name).tell(StepBegun(index=0))
        for name in names[:60]:
            board.of(name).ended()
        start = len(terminal.getvalue())
        board.redraw()
    last = terminal.getvalue()[start:]
    for name in names[60:]:
        assert name in last
    assert "60 of 64 are through" in last


def sent(screen: Screen, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """An upload that takes so long."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with Upload(screen) as upload:
        upload(100, 3000)
        now[0] = seconds
        upload(2000, 3000)
        upload(3000, 3000)
    monkeypatch.undo()


def test_a_quick_upload_is_not_worth_a_word(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent(Screen("auto", {}), 0.5, monkeypatch)
    assert capsys.readouterr().err == ""


def test_a_slow_upload_is_summed_up(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent(Screen("auto", {}), 12.0, monkeypatch)
    assert capsys.readouterr().err == "sent 3.0 kB in 12 s\n"


def test_a_slow_upload_on_a_terminal_has_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stderr", terminal)
        sent(Screen("never", XTERM), 12.0, monkeypatch)
    assert "sending" in terminal.getvalue()
    assert "sent 3.0 kB in 12 s" in terminal.getvalue()
