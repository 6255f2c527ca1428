"""What goes with a release that has buckets: the boundaries, and the package that reads them."""

from __future__ import annotations

import hashlib
from pathlib import Path

import dflashctl
from dflashctl.errors import SourceUnreadable
from dflashctl.playbook.model import PushedFile

BOUNDARIES = "buckets.json"


def library_files(boundaries: Path) -> tuple[PushedFile, ...]:
    """The files, with places that begin with a hash over all of them.

    Such a place is no absolute one: the agent keeps these files in a folder of its own, which
    comes first where the trainer imports from (dflashctl.agent.library).

    Raises:
        SourceUnreadable: the boundaries cannot be read.
    """
    package = Path(str(dflashctl.__file__)).parent
    found = {BOUNDARIES: boundaries}
    # Empty, as a package's __init__ may be: the trainer gets nothing of dflashctl but buckets.
    found["dflashctl/__init__.py"] = package / "py.typed"
    for path in sorted((package / "buckets").glob("*.py")):
        found[f"dflashctl/buckets/{path.name}"] = path
    digest = hashlib.sha256()
    for place, source in found.items():
        try:
            content = source.read_bytes()
        except OSError as error:
            reason = error.strerror or str(error)
            raise SourceUnreadable(path=source, reason=reason) from error
        digest.update(f"{place}\0{len(content)}\0".encode() + content)
    folder = digest.hexdigest()[:16]
    return tuple(
        PushedFile(source=source, dest=f"{folder}/{place}", mode=0o644)
        for place, source in found.items()
    )
