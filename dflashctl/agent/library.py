"""What training imports of dflashctl, with the boundaries that it reads: the run's own copy.

A wanted file without an absolute place belongs there. Each set of contents has a folder of its
own, named by their hash, and is never edited: a run imports to its end exactly what it was
started with, whatever is deployed beside it.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable, Mapping
from dataclasses import replace

from dflashctl.agent.protocol import FileWanted, StartRun
from dflashctl.agent.records import StateFolder

PYTHON_PATH = "PYTHONPATH"
# The state folder is closed to other users than its own; who becomes another one is root.
FOR_OTHERS = "/var/lib/dflashctl/lib"


def placed(files: Iterable[FileWanted], state: StateFolder, user: str | None) -> list[FileWanted]:
    """The same files, each with an absolute place. ``user``: whom the run is to run as."""
    root = _root(state, user)
    return [replace(file, dest=os.path.join(root, file.dest)) for file in files]


def importing(env: Mapping[str, str], wanted: StartRun, state: StateFolder) -> dict[str, str]:
    """The environment with the run's own copy first on the path of its imports, if it has one."""
    for file in wanted.release:
        if not file.dest.startswith("/"):
            ours = os.path.join(_root(state, wanted.user), file.dest.split("/")[0])
            theirs = env.get(PYTHON_PATH)
            return {**env, PYTHON_PATH: f"{ours}:{theirs}" if theirs else ours}
    return dict(env)


def _root(state: StateFolder, user: str | None) -> str:
    if user is None or user == pwd.getpwuid(os.getuid()).pw_name:
        return str(state.path / "lib")
    return FOR_OTHERS
