"""What training imports of dflashctl, with the boundaries that it reads: the run's own copy.

A wanted file without an absolute place belongs there. Each set of contents has a folder of its
own, named by their hash, and is never edited: a run imports to its end exactly what it was
started with, whatever is deployed beside it.
"""

from __future__ import annotations

import hashlib
import json
import os
import pwd
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from dflashctl.agent.protocol import FileWanted, StartRun
from dflashctl.agent.records import StateFolder
from dflashctl.agent.seen import BucketsSeen

VARIABLE = "DFLASH_BUCKETS"
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


def boundaries(env: Mapping[str, str]) -> BucketsSeen | None:
    """What the file says that a run's environment names; None where there is none."""
    path = env.get(VARIABLE)
    if path is None or not os.path.isfile(path):
        return None
    with suppress(OSError, ValueError, TypeError, KeyError):
        data = Path(path).read_bytes()
        value = json.loads(data)
        edges = tuple(int(edge) for edge in value["boundaries"])
        expected, predicted = (
            value.get(name) for name in ("expected_efficiency", "predicted_tokens_per_s")
        )
        return BucketsSeen(
            path=path,
            sha256=hashlib.sha256(data).hexdigest()[:12],
            boundaries=edges,
            expected_efficiency=expected if isinstance(expected, float) else None,
            predicted_tokens_per_s=predicted if isinstance(predicted, float) else None,
        )
    return None
