"""What stops an agent's work: a code with its data, as ``protocol.Failure`` carries it."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

from dflashctl.agent.protocol import Failure


class AgentError(Exception):
    """Something that the operator must be told; ``failure`` is what goes over the wire."""

    def __init__(self, code: str, **detail: Any) -> None:
        super().__init__(code, detail)
        self.failure = Failure(code=code, detail=detail)


def from_os_error(error: OSError, path: Path | str) -> AgentError:
    """An operating system's refusal in our codes; a full disk is called a full disk."""
    place = str(error.filename or path)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return AgentError("disk_full", path=place, free=free_space(Path(path)))
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return AgentError("unwritable", path=place, reason=os.strerror(error.errno))
    return AgentError(
        "system", path=place, errno=error.errno or 0, reason=error.strerror or str(error)
    )


def existing_parent(path: Path) -> Path:
    """The path itself, or the nearest folder above it that exists."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def free_space(path: Path) -> int:
    """Bytes that we may still write where the path is or would be."""
    return shutil.disk_usage(existing_parent(path)).free
