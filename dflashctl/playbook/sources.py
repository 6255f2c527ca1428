"""Which files an entry of ``files`` stands for: one, a directory's, or those of a pattern."""

from __future__ import annotations

import glob
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from dflashctl.document.judge import did_you_mean
from dflashctl.document.paths import local_path
from dflashctl.playbook.model import PushedFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# What a directory or a pattern leaves out.
_LEFT_OUT = ("__pycache__", ".git")


def expand(
    source: str, dest: str, folder: Path, problem: Callable[[str], None]
) -> tuple[PushedFile, ...]:
    """Each ordinary file of an entry, with its place on the target and its own mode.

    ``dest`` is a folder if it ends in a slash, or if ``source`` is a directory or a
    pattern: what is in the directory, or below the part of the pattern that has no
    wildcard, keeps its place within. Links to files are followed, links to directories
    within are not. ``problem`` is called with each thing that is wrong.
    """
    try:
        start = local_path(source, folder)
    except ValueError as error:
        problem(str(error))
        return ()
    into = dest.removesuffix("/")
    if glob.has_magic(source) and not os.path.lexists(start):
        start, found = _matches(start)
    elif start.is_dir():
        found = list(_below(start, problem))
    else:
        place = f"{into}/{start.name}" if dest.endswith("/") else dest
        return tuple(_pushed([(start, place)], folder, problem))
    if not found:
        problem(f"{source} stands for no file")
    return tuple(_pushed([(p, f"{into}/{p.relative_to(start)}") for p in found], folder, problem))


def _matches(pattern: Path) -> tuple[Path, list[Path]]:
    """The part of a pattern before the first wildcard, and the files that match it."""
    wild = next(at for at, part in enumerate(pattern.parts) if glob.has_magic(part))
    start, rest = Path(*pattern.parts[:wild]), Path(*pattern.parts[wild:])
    # Path.glob would hold hidden files too, and no file below a last `**`.
    names = glob.glob(str(rest), root_dir=start, recursive=True)  # noqa: PTH207 as said above
    paths = sorted({start / name for name in names if not _left_out(Path(name))})
    return start, [path for path in paths if not path.is_dir()]


def _below(start: Path, problem: Callable[[str], None]) -> Iterator[Path]:
    def unreadable(error: OSError) -> None:
        problem(f"{error.filename} cannot be read: {error.strerror}")

    for where, folders, files in os.walk(start, onerror=unreadable):
        folders[:] = sorted(name for name in folders if not _left_out(Path(name)))
        here = Path(where)
        # os.walk counts a link to a directory as a folder, and does not go there.
        yield from (here / name for name in folders if (here / name).is_symlink())
        yield from (here / name for name in sorted(files) if not _left_out(Path(name)))


def _left_out(within: Path) -> bool:
    return within.suffix == ".pyc" or any(part in _LEFT_OUT for part in within.parts)


def _pushed(
    pairs: list[tuple[Path, str]], folder: Path, problem: Callable[[str], None]
) -> Iterator[PushedFile]:
    for path, dest in pairs:
        name = path.relative_to(folder) if path.is_relative_to(folder) else path
        try:
            status = path.stat()
        except FileNotFoundError:
            problem(f"{name} {_absent(path)}")
        except OSError as error:
            problem(f"{name} cannot be read: {error.strerror}")
        else:
            if stat.S_ISDIR(status.st_mode):
                problem(f"{name} is a link to a directory, and those are not followed")
            elif not stat.S_ISREG(status.st_mode):
                problem(f"{name} is not an ordinary file")
            elif not os.access(path, os.R_OK):
                problem(f"{name} cannot be read: permission denied")
            else:
                yield PushedFile(source=path, dest=dest, mode=stat.S_IMODE(status.st_mode) & 0o777)


def _absent(path: Path) -> str:
    if path.is_symlink():
        return "is a link that leads nowhere"
    try:
        beside = [entry.name for entry in path.parent.iterdir()]
    except OSError:
        return "is not there"
    return f"is not there{did_you_mean(path.name, beside)}"
