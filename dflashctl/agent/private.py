"""Whether a folder is ours alone: no other user of this machine can change or replace it."""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path

from dflashctl.agent.failures import AgentError
from dflashctl.agent.records import StateFolder


def check(state: StateFolder) -> None:
    """Make sure that nothing in the state folder comes from another user of this machine.

    Raises:
        AgentError: ``unsafe_state``, whether the folder exists yet or not.
    """
    for folder in (state.path, *state.parts):
        if (found := danger(folder)) is not None:
            place, reason = found
            raise AgentError("unsafe_state", path=str(state.path), place=place, reason=reason)


def danger(path: Path) -> tuple[str, str] | None:
    """Why what is kept in ``path`` could be somebody else's: which folder, and what it is.

    None: nobody but us and root can write there, or put another folder in its place. What
    does not exist yet is judged by the folders above it.
    """
    real = os.path.realpath(path)
    place = real
    while True:
        try:
            seen = os.lstat(place)
        except (FileNotFoundError, NotADirectoryError):
            seen = None
        if seen is not None and (why := _open_to_others(seen, itself=place == real)):
            return place, why
        if place == "/":
            return None
        place = os.path.dirname(place)


def _open_to_others(seen: os.stat_result, *, itself: bool) -> str | None:
    if not stat.S_ISDIR(seen.st_mode):
        return None  # whoever uses it is told by the system
    if seen.st_uid not in ({os.getuid()} if itself else {0, os.getuid()}):
        return f"it belongs to {_name(seen.st_uid)}"
    # In a sticky folder, as /tmp is, only its owner moves an entry.
    if not itself and seen.st_mode & stat.S_ISVTX:
        return None
    if seen.st_mode & stat.S_IWOTH:
        return "everybody may write to it"
    # Many systems give each user a group of their own, and let it write.
    if seen.st_mode & stat.S_IWGRP and (itself or seen.st_gid not in (0, os.getgid())):
        return "a group may write to it"
    return None


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
