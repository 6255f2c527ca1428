"""A long piece of work, on a terminal and in a pipe."""

from __future__ import annotations

import io
import sys
import time

import pytest

from dflashctl.view.console import Screen
from dflashctl.view.working import Working


class Terminal(io.StringIO):
    """A screen that a test can read."""

    def isatty(self) -> bool:
        return True


XTERM = {"TERM": "xterm-256color", "COLUMNS": "80"}


def test_long_work_has_a_bar_with_its_stage_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def work(screen: Screen) -> None:
        now = [0.0]
        monkeypatch.setattr(time, "monotonic", lambda: now[0])
        with Working(screen) as progress:
            progress("reading", 0.1)
            now[0] = 5.0
            progress("proving [bold]", 0.25)
        monkeypatch.undo()

    work(Screen("auto", {}))
    assert capsys.readouterr().err == ""
    terminal = Terminal()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stderr", terminal)
        work(Screen("never", XTERM))
    assert "proving [bold]" in terminal.getvalue()
    assert "25%" in terminal.getvalue()
    assert "reading" not in terminal.getvalue()
