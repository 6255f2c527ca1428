"""Changed files as unified diffs. Pure: the texts come from elsewhere."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dflashctl.agent.protocol import FileWanted
    from dflashctl.agent.seen import FileSeen

# Bytes up to which a text is worth comparing line by line.
LONGEST_TEXT = 128 << 10
Change = Literal["new", "gone", "changed", "mode", "not shown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDiff:
    """What becomes of one file.

    Attributes:
        path: its place on the target.
        change: new there, gone from it, with other content, with another mode only; or
            "not shown": changed, and no text, too long, or not kept any more.
        added, removed: lines; None where they were not counted.
        lines: the unified diff from its first ``@@`` on, without line ends.
    """

    path: str
    change: Change
    added: int | None = None
    removed: int | None = None
    lines: tuple[str, ...] = ()


def diff_text(path: str, old: str | None, new: str | None) -> FileDiff:
    """How two texts differ; None is one that cannot be shown."""
    if old is None or new is None:
        return FileDiff(path=path, change="not shown")
    pieces = difflib.unified_diff(old.splitlines(), new.splitlines(), n=2, lineterm="")
    lines = tuple(pieces)[2:]  # without the two names
    return FileDiff(
        path=path,
        change="changed",
        added=sum(line.startswith("+") for line in lines),
        removed=sum(line.startswith("-") for line in lines),
        lines=lines,
    )


def placed_diffs(
    files: tuple[FileWanted, ...], there: Mapping[str, FileSeen], texts: Mapping[str, str]
) -> tuple[FileDiff, ...]:
    """What putting these files in place changes. ``texts``: new contents by their hashes."""
    return tuple(_placed(file, there[file.dest], texts.get(file.sha256)) for file in files)


def _placed(wanted: FileWanted, seen: FileSeen, text: str | None) -> FileDiff:
    if seen.sha256 is None:
        count = None if text is None else len(text.splitlines())
        return FileDiff(path=wanted.dest, change="new", added=count)
    if seen.sha256 == wanted.sha256:
        return FileDiff(path=wanted.dest, change="mode", lines=())
    return diff_text(wanted.dest, seen.text, text)
