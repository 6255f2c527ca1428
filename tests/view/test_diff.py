"""Changed files, few and many."""

from __future__ import annotations

import io

from rich.console import Console

from dflashctl.plan.diff import FileDiff
from dflashctl.view.diff import SHOWN_WHOLE, show_diffs


def shown(count: int, *, whole: bool) -> list[str]:
    """The lines for so many files, of each of which one line has changed."""
    diffs = [
        FileDiff(path=f"/w/{n}", change="changed", added=1, removed=1, lines=("-a", "+b"))
        for n in range(count)
    ]
    console = Console(file=io.StringIO(), width=80)
    show_diffs(console, diffs, whole=whole)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_few_are_shown_with_their_lines():
    assert [line.strip() for line in shown(1, whole=False)] == ["/w/0  +1 -1", "-a", "+b"]


def test_of_very_many_the_first_are_named_and_the_rest_is_counted():
    lines = shown(500, whole=False)
    assert len(lines) == SHOWN_WHOLE + 1
    assert lines[-1].strip() == f"and {500 - SHOWN_WHOLE} files more (--diff shows all)"


def test_all_are_shown_to_who_asks_for_them():
    assert len(shown(500, whole=True)) == 1500
