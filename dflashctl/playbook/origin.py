"""Where the pushed files come from: the git checkout around the playbook, if there is one."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from dflashctl.agent.recorded import Source

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dflashctl.playbook.model import Playbook

LIMIT = 64 << 10
GIT_S = 10.0
_AT_ONCE = 500
# Set where a hook of git's calls us: they name that checkout, not the playbook's.
_OTHERS = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX")
# No program that a checkout's settings name is run but the filters of its attributes, without
# which files of git-lfs would differ; and the index is left as it is.
_QUIETLY = ("-c", "core.fsmonitor=false", "--no-optional-locks", "--literal-pathspecs")
_PLAIN = ("--no-ext-diff", "--no-textconv", "--no-color", "--no-renames")


def read_source(playbook: Playbook) -> Source | None:
    """The commit that the pushed files are of, and how they differ from it.

    None where the playbook is in no checkout, or git does not say. Files that hold secret
    variables are left out, should one of them be pushed.
    """
    folder = playbook.path.parent
    try:
        top = Path(_git(folder, "rev-parse", "--show-toplevel").removesuffix("\n"))
        commit = _git(folder, "rev-parse", "--verify", "HEAD").strip()
        branch = _git(folder, "rev-parse", "--abbrev-ref", "HEAD").strip()
        secret = playbook.run.env_file if playbook.run else None
        paths = _within(top, [f.source for f in playbook.files if f.source != secret])
        dirty, diff = _changes(top, paths)
    except (OSError, subprocess.SubprocessError):
        return None
    return Source(
        commit=commit,
        branch=None if branch == "HEAD" else branch,
        dirty=dirty,
        diff=diff[:LIMIT],
        whole=len(diff) <= LIMIT,
    )


def _within(top: Path, sources: Sequence[Path]) -> list[str]:
    """The sources that lie in the checkout, relative to its top."""
    absolute = [Path(os.path.normpath(source.absolute())) for source in sources]
    real = [path.parent.resolve() / path.name for path in absolute]
    return sorted({str(path.relative_to(top)) for path in real if path.is_relative_to(top)})


def _changes(top: Path, paths: Sequence[str]) -> tuple[bool, str]:
    dirty, diff = False, ""
    for first in range(0, len(paths), _AT_ONCE):
        some = paths[first : first + _AT_ONCE]
        # What git does not list is a submodule's, or not known to it at all.
        dirty |= _git(top, "ls-files", "-z", "--", *some).count("\0") != len(some)
        dirty |= bool(_git(top, "status", "--porcelain", "--ignored", "--", *some))
        if len(diff) <= LIMIT:
            diff += _git(top, "diff", *_PLAIN, "HEAD", "--", *some)
    return dirty, diff


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ("git", *_QUIETLY, *words),
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name not in _OTHERS},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=GIT_S,
        check=True,
    )
    return done.stdout.decode("utf-8", "replace")
