"""The live screen of ``status --watch``."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from dflashctl.view.gpus import gpu_lines
from dflashctl.view.sanitize import clean, one_line
from dflashctl.view.status import details, fits, rows_of
from dflashctl.view.words import words_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console, Group, RenderableType

    from dflashctl.view.console import Screen
    from dflashctl.view.status import Report

# From here on the GPUs have a column of their own.
WIDE = 130


@contextmanager
def live_screen(screen: Screen) -> Iterator[Callable[[tuple[Report, ...]], None]]:
    """A screen of its own; what is given draws it anew."""
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    live = Live(console=screen.out, screen=True, auto_refresh=False, vertical_overflow="crop")

    def draw(reports: tuple[Report, ...]) -> None:
        parts: list[RenderableType] = [screenful(reports, screen.out), Text()]
        for report in reports:
            if report.error is not None:
                words = words_for(report.error)
                parts.append(Text(one_line(words.message), style="red"))
        clock = f"{datetime.now(UTC):%H:%M:%S} UTC"
        parts.append(Text(f"{clock}, every 2 s; Ctrl-C ends the watching", style="dim"))
        live.update(Group(*parts), refresh=True)

    with screen.moving(live):
        yield draw


def screenful(reports: tuple[Report, ...], console: Console) -> Group:
    """A status as something to draw again and again; errors are in it."""
    from rich.console import Group
    from rich.text import Text

    rows = rows_of(reports)
    if len(reports) > 1 and fits(console, rows):
        return Group(rows)
    parts: list[RenderableType] = []
    for report in reports:
        drawn = _beside(report) if console.width >= WIDE else details(report)
        parts += [Text(), drawn] if parts else [drawn]
    return Group(*parts)


def _beside(report: Report) -> RenderableType:
    """One target on a wide terminal: its GPUs beside the rest."""
    from rich.table import Table
    from rich.text import Text

    seen = report.seen or report.last
    if seen is None or seen.gpus is None or not seen.gpus.gpus:
        return details(report)
    gpus = Text("\n".join(clean(line) for line in gpu_lines(seen)))
    pair = Table.grid(padding=(0, 4, 0, 0))
    pair.add_row(details(report, without="GPUs"), gpus)
    return pair
