"""Changed files: unified diffs where they are short, else how much changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dflashctl.plan.words import counted
from dflashctl.view.console import ACCENT
from dflashctl.view.sanitize import clean, one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from dflashctl.plan.diff import FileDiff

# All diffs together, in lines; beyond that each is told in one.
SHOWN_WHOLE = 40
LONGEST_LINE = 300
_STYLES = {"+": "green", "-": "red", "@": ACCENT}


def show_diffs(console: Console, diffs: Sequence[FileDiff], *, whole: bool) -> None:
    """Each changed file, with its lines if there are few or ``whole`` asks for all."""
    from rich.text import Text

    shown = whole or sum(len(diff.lines) for diff in diffs) <= SHOWN_WHOLE
    named = diffs if shown else diffs[:SHOWN_WHOLE]
    for diff in named:
        head = Text.assemble("     ", (one_line(diff.path), "bold"), (f"  {_amount(diff)}", "dim"))
        if diff.lines and not shown:
            head.append(" (--diff shows them)", style="dim")
        console.print(head, soft_wrap=True)
        if shown:
            show_lines(console, diff.lines, indent=7)
    if left := len(diffs) - len(named):
        console.print(Text(f"     and {counted(left, 'file')} more (--diff shows all)", "dim"))


def show_lines(console: Console, lines: Sequence[str], *, indent: int = 4) -> None:
    """The lines of a unified diff, coloured by their first character."""
    from rich.text import Text

    for line in lines:
        text = clean(line).replace("\n", " ")
        if len(text) > LONGEST_LINE:
            text = f"{text[:LONGEST_LINE]}..."
        console.print(
            Text(f"{' ' * indent}{text}", style=_STYLES.get(line[:1], "dim")), soft_wrap=True
        )


def _amount(diff: FileDiff) -> str:
    match diff.change:
        case "new":
            return "new" if diff.added is None else f"new, {counted(diff.added, 'line')}"
        case "gone":
            return "not in it any more"
        case "mode":
            return "another mode, the same content"
        case "not shown":
            return "changed; no text, too long to compare, or not kept any more"
        case "changed":
            return f"+{diff.added} -{diff.removed}"
