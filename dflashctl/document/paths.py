"""Paths that are written in a file: on a target, and on this machine."""

from __future__ import annotations

from pathlib import Path

from dflashctl.document.judge import named


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
