"""Paths that are written in a file: on a target, and on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dflashctl.document.judge import named
from dflashctl.errors import NoFile

if TYPE_CHECKING:
    from collections.abc import Mapping


def places(
    kind: str, folder: str, option: str | None, environ: Mapping[str, str], cwd: Path
) -> tuple[Path, ...]:
    """Where an inventory or a playbook is looked for, in order.

    That is the option's path, or that of ``DFLASHCTL_<KIND>``; where neither says one,
    ``folder`` here and in the user's configuration.

    Raises:
        NoFile: what was said is no path.
    """
    said = option or environ.get(f"DFLASHCTL_{kind.upper()}")
    if said:
        try:
            return (local_path(said, cwd),)
        except ValueError as error:
            raise NoFile(kind=kind, looked_in=(said,)) from error
    config = environ.get("XDG_CONFIG_HOME") or Path(environ.get("HOME", "/"), ".config")
    return (cwd / folder, Path(config, "dflashctl", folder))


def absolute(path: str) -> str:
    """Check a path on a target.

    Raises:
        ValueError: it is not absolute, or not in its shortest form.
    """
    if not path.startswith("/"):
        raise ValueError(f"must be an absolute path, not {named(path)}")
    parts = path[1:].removesuffix("/").split("/")
    if path != "/" and any(part in ("", ".", "..") for part in parts):
        raise ValueError(f"must be a path without `..`, `.` or `//`, not {named(path)}")
    return path


def local_path(text: str, folder: Path) -> Path:
    """A path on this machine: ``~`` is a home, and a relative one starts at ``folder``.

    Raises:
        ValueError: it is empty, or there is no such home.
    """
    if not text:
        raise ValueError("must be a path, not ''")
    try:
        return folder / Path(text).expanduser()
    except RuntimeError as error:
        raise ValueError(f"begins with a home folder that is not there: {text}") from error
