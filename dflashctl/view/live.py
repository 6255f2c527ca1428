"""The live screen of ``status --watch``."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from dflashctl.view.fleet import alike, overview
from dflashctl.view.gpus import gpu_lines
from dflashctl.view.sanitize import clean, one_line
from dflashctl.view.status import details
from dflashctl.view.words import words_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from rich.console import Console, Group, RenderableType

    from dflashctl.view.console import Screen
    from dflashctl.view.status import Report

# From here on the GPUs have a column of their own.
WIDE = 130


@contextmanager
def live_screen(
    screen: Screen, groups: Mapping[str, tuple[str, ...]]
) -> Iterator[Callable[[tuple[Report, ...]], None]]:
    """A screen of its own; what is given draws it anew."""
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    live = Live(console=screen.out, screen=True, auto_refresh=False, vertical_overflow="crop")

    def draw(reports: tuple[Report, ...]) -> None:
        parts: list[RenderableType] = [screenful(reports, screen.out, groups), Text()]
        for first, *others in alike(reports):
            assert first.error is not None, "only those with one are told"
            more = f" (and so on {len(others)} more)" if others else ""
            parts.append(Text(f"{one_line(words_for(first.error).message)}{more}", style="red"))
        clock = f"{datetime.now(UTC):%H:%M:%S} UTC"
        parts.append(Text(f"{clock}, every 2 s; Ctrl-C ends the watching", style="dim"))
        live.update(Group(*parts), refresh=True)

    with screen.moving(live):
        yield draw


def screenful(
    reports: tuple[Report, ...], console: Console, groups: Mapping[str, tuple[str, ...]]
) -> Group:
    """A status as something to draw again and again; errors are in it."""
    from rich.console import Group

    if len(reports) > 1:
        return Group(*overview(console, reports, groups))
    return Group(_beside(reports[0]) if console.width >= WIDE else details(reports[0]))


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
