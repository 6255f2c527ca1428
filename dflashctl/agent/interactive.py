"""Becomes, on a terminal, the user's login shell or a program in the login environment."""

from __future__ import annotations

import os
import pwd
import sys

from dflashctl.agent import command, login


def become(term: str, path: str, words: list[str]) -> None:
    """Never returns. ``path``: folders to search first; no words: the login shell.

    Exits with 127 when it cannot be run, as a shell does.
    """
    account = pwd.getpwuid(os.getuid())
    os.chdir(login.home(account))
    first = tuple(filter(None, path.split(":")))
    known = {"TERM": login.known_terminal(term)}
    try:
        if words:
            os.execvpe(words[0], words, command.environment(first) | known)  # noqa: S606 - no shell is wanted  # nosec B606
        environment = login.minimal_environment(account) | known
        environment["PATH"] = ":".join((*first, environment["PATH"]))
        shell = environment["SHELL"]
        os.execve(shell, [f"-{os.path.basename(shell)}"], environment)  # noqa: S606 - no shell between  # nosec B606
    except OSError as error:
        what = words[0] if words else account.pw_shell
        sys.stderr.write(f"dflashctl: {what} cannot be run: {error.strerror}\n")
        sys.exit(127)
