"""A dataset's files at a glance: enough to notice that they changed, without reading them."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path


def fingerprint(path: str) -> str | None:
    """A hash over names, sizes and times of the files that the path stands for; None: no file.

    ``path``: a file, a folder with all below it, or a pattern.
    """
    digest, count = hashlib.sha256(), 0
    for file in _files(path):
        try:
            about = os.stat(file)
        except OSError:  # it went while we looked, and what is left will tell
            continue
        count += 1
        digest.update(f"{file}\0{about.st_size}\0{about.st_mtime_ns}\n".encode(errors="replace"))
    return digest.hexdigest()[:16] if count else None


def _files(path: str) -> list[str]:
    found = []
    for place in [path] if os.path.lexists(path) else _matching(path):
        if os.path.isdir(place):
            found += [os.path.join(base, n) for base, _, names in os.walk(place) for n in names]
        else:
            found.append(place)
    return sorted(found)


def _matching(pattern: str) -> list[str]:
    # Not glob.glob: its ** follows links to folders, round and round where they make a loop.
    anchor = Path(pattern).anchor
    try:
        found = Path(anchor).glob(pattern.removeprefix(anchor).lstrip("/"))
        return [str(each) for each in found if each.name[0] != "."]
    except ValueError:  # it is no pattern
        return []
