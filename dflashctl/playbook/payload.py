"""The files to push, with their hashes."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from typing import TYPE_CHECKING

from dflashctl.agent.protocol import FileWanted
from dflashctl.errors import SourceUnreadable

if TYPE_CHECKING:
    from dflashctl.playbook.model import PushedFile


def read_payload(files: tuple[PushedFile, ...]) -> tuple[FileWanted, ...]:
    """Hash each file, in the same order; nothing is kept in memory.

    Raises:
        SourceUnreadable: one has gone, or cannot be read any more.
    """
    return tuple(_hashed(file) for file in files)


def _hashed(file: PushedFile) -> FileWanted:
    try:
        if not file.source.is_file():  # a pipe in its place would never end
            file.source.stat()
            raise SourceUnreadable(path=file.source, reason="is not an ordinary file any more")
        with file.source.open("rb") as source:
            digest = hashlib.file_digest(source, "sha256").hexdigest()
            size = source.tell()
    except OSError as error:
        reason = error.strerror or str(error)
        raise SourceUnreadable(path=file.source, reason=reason) from error
    return FileWanted(dest=file.dest, sha256=digest, size=size, mode=file.mode)


def read_texts(files: tuple[PushedFile, ...], dests: set[str], limit: int) -> dict[str, str]:
    """The texts of the files for these places by their hashes; those that are up to ``limit``.

    What cannot be read, is too long or no text is left out: it is for showing only.
    """
    texts: dict[str, str] = {}
    for file in files:
        with suppress(OSError, UnicodeDecodeError):
            if file.dest in dests and file.source.stat().st_size <= limit:
                data = file.source.read_bytes()
                if b"\0" not in data:
                    texts[hashlib.sha256(data).hexdigest()] = data.decode("utf-8")
    return texts
