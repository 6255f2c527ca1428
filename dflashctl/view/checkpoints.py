"""The checkpoints, archives and clearings of a target: tables, or JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dflashctl.errors import Internal
from dflashctl.plan.words import counted
from dflashctl.view import figures
from dflashctl.view.console import ACCENT
from dflashctl.view.json import plain
from dflashctl.view.sanitize import one_line
from dflashctl.view.status import fits

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rich.table import Table
    from rich.text import Text

    from dflashctl.agent.seen import Observed
    from dflashctl.view.again import Again
    from dflashctl.view.console import Screen

    Row = tuple[str | Text, ...]

# Of very many the newest are shown; --json has them all.
SHOWN = 30


def show_store(screen: Screen, again: Again, seen: Observed) -> None:
    """Up to three tables: what is in the folder, in archives, and aside."""
    from rich.text import Text

    store, folder = seen.store, seen.checkpoints
    if store is None or folder is None:
        return
    shown = store.checkpoints[-SHOWN:]
    older = len(store.checkpoints) - len(shown) + store.left_out
    title = Text.assemble((one_line(folder.path), f"bold {ACCENT}"))
    if folder.real_path != folder.path:
        title.append(f" (really {one_line(folder.real_path)})", style="dim")
    if not folder.exists:
        title.append(": no such folder yet")
    elif not store.checkpoints:
        title.append(": no checkpoint")
    screen.show(title)
    if shown:
        rows: list[Row] = []
        for one in shown:
            newest = one.name == folder.latest
            state = Text("newest", style="green") if newest else Text("complete")
            if one.why is not None:
                state = Text(f"not complete: {one_line(one.why)}", style="yellow")
            rows.append((
                one_line(one.name), _step(one.step), figures.size(one.size),
                figures.moment(one.at), state,
            ))  # fmt: skip
        screen.show(_table(screen, ("CHECKPOINT", ">STEP", ">SIZE", "SAVED", "STATE"), rows))
        if older:
            screen.show(Text(f"and {older} older ones", style="dim"))
    if store.archives:
        archived: list[Row] = []
        for kept in store.archives:
            state = Text(kept.form) if kept.whole else Text("cut short", style="yellow")
            archived.append((
                one_line(kept.name), str(len(kept.names)), _step(kept.latest_step),
                figures.size(kept.stored), figures.moment(kept.at), state,
            ))  # fmt: skip
        titles = ("ARCHIVE", ">CHECKPOINTS", ">STEP", ">SIZE", "MADE", "STATE")
        screen.show(Text(""))
        screen.show(_table(screen, titles, archived))
    if store.cleared:
        gone_by: list[Row] = [
            (
                figures.moment(gone.at), str(gone.count), _step(gone.latest_step),
                Text(figures.size(gone.size)),
            )
            for gone in store.cleared
        ]  # fmt: skip
        screen.show(Text(""))
        screen.show(_table(screen, ("CLEARED", ">ENTRIES", ">STEP", ">SIZE"), gone_by))
        back = again.typed("checkpoints", "restore", "--last-cleared")
        # Not wrapped by us: what is a command stays one that can be copied.
        screen.out.print(
            Text(f"the last of them comes back with: {back}", style="dim"), soft_wrap=True
        )


def _step(step: int | None) -> str:
    return "" if step is None else str(step)


# What is left out first where a window is too narrow for all of it, and what then.
_LESS = ((), ("SAVED", "MADE"), ("SAVED", "MADE", ">SIZE", ">CHECKPOINTS"))
# Of the last column, which folds, so many characters have room at least.
LAST_COLUMN = 12


def _table(screen: Screen, titles: tuple[str, ...], rows: Sequence[Row]) -> Table:
    ways = [[n for n, title in enumerate(titles) if title not in less] for less in _LESS]
    beside = min(LAST_COLUMN, max(len(row[-1]) for row in rows))
    roomy = (way for way in ways if fits(screen.out, _columns(titles, rows, way[:-1]), beside))
    kept = next(roomy, ways[-1])
    return _columns(titles, rows, kept, folding=kept is ways[-1])


def _columns(
    titles: tuple[str, ...], rows: Sequence[Row], kept: list[int], *, folding: bool = False
) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for number in kept:
        title = titles[number]
        table.add_column(
            title.removeprefix(">"),
            no_wrap=number not in (0 if folding else len(titles) - 1, len(titles) - 1),
            overflow="fold",
            justify="right" if title.startswith(">") else "left",
        )
    for row in rows:
        table.add_row(*(row[number] for number in kept))
    return table


def show_pulled(screen: Screen, name: str, place: Path, files: int) -> None:
    """What was brought, and where it is."""
    from rich.text import Text

    text = f"{one_line(name)}: {counted(files, 'file')} in {one_line(str(place))}, verified"
    screen.out.print(Text.assemble(("pulled   ", "dim"), text), soft_wrap=True)


def store_object(seen: Observed) -> dict[str, Any]:
    """One target of ``checkpoints list``."""
    store, folder = seen.store, seen.checkpoints
    if store is None or folder is None:
        raise Internal(what="the look left out the list of checkpoints")
    return {
        "path": folder.path,
        "real_path": folder.real_path,
        "exists": folder.exists,
        "latest": folder.latest,
        "checkpoints": [
            {
                "name": one.name,
                "step": one.step,
                "saved_at": figures.iso(one.at),
                "bytes": one.size,
                "complete": one.complete,
                "why_not": one.why,
            }
            for one in store.checkpoints
        ],
        "left_out": store.left_out,
        "archives": [
            {
                "name": one.name,
                "form": one.form,
                "whole": one.whole,
                "made_at": figures.iso(one.at),
                "checkpoints": list(one.names),
                "latest_step": one.latest_step,
                "bytes": one.size,
                "stored_bytes": one.stored,
                "files": one.files,
                "source": one.source,
            }
            for one in store.archives
        ],
        "cleared": [
            {
                "id": one.id,
                "cleared_at": figures.iso(one.at),
                "entries": one.count,
                "latest_step": one.latest_step,
                "bytes": plain(one.size),
            }
            for one in store.cleared
        ],
        "archive_free_bytes": store.archive_free,
        "resumed_from": store.resumed_from,
        "error": None,
    }
