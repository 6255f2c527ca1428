"""Files as one tar whose members are named by their hash, the same bytes each time."""

from __future__ import annotations

import hashlib
import tarfile
import tempfile
import threading
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from dflashctl.errors import SourceUnreadable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    from dflashctl.agent.protocol import FileWanted
    from dflashctl.playbook.model import PushedFile


class Archives:
    """Archives to be sent, each made once for all targets that lack the same files.

    A context manager, at whose end they are gone. Thread-safe.
    """

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="dflashctl-")
        self._making = threading.Lock()
        self._made: dict[tuple[str, ...], Path] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def of(self, files: Sequence[PushedFile], wanted: Sequence[FileWanted]) -> Path:
        """The archive of the wanted files, which ``files`` says where to find.

        Raises:
            SourceUnreadable: one is gone, unreadable, or no longer what was hashed.
        """
        hashes = tuple(sorted({file.sha256 for file in wanted}))
        with self._making:
            if hashes not in self._made:
                path = Path(self._folder.name, f"{len(self._made)}.tar")
                write_archive(path, files, wanted)
                self._made[hashes] = path
            return self._made[hashes]


def write_archive(path: Path, files: Sequence[PushedFile], wanted: Sequence[FileWanted]) -> None:
    """Write the wanted files' contents, each hash once.

    Raises:
        SourceUnreadable: one is gone, unreadable, or no longer what was hashed.
    """
    sources = {file.dest: file.source for file in files}
    by_hash = {file.sha256: file for file in wanted}
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        for sha256, file in sorted(by_hash.items()):
            _add(tar, sources[file.dest], sha256, file.size)


def _add(tar: tarfile.TarFile, source: Path, sha256: str, size: int) -> None:
    member = tarfile.TarInfo(sha256)
    member.size = size
    member.mode = 0o600
    try:
        content = source.open("rb")
    except OSError as error:
        raise _unreadable(source, error) from error
    with content:
        hashed = _Hashed(source, content, size)
        tar.addfile(member, cast("IO[bytes]", hashed))
        hashed.check(sha256)


class _Hashed:
    """Hashes what is read through it: what was sent is what was hashed, or it shows."""

    def __init__(self, source: Path, content: IO[bytes], size: int) -> None:
        self._source, self._content, self._left = source, content, size
        self._hash = hashlib.sha256()

    def read(self, size: int) -> bytes:
        try:
            data = self._content.read(size)
        except OSError as error:
            raise _unreadable(self._source, error) from error
        if len(data) < min(size, self._left):
            raise self._changed()
        self._left -= len(data)
        self._hash.update(data)
        return data

    def check(self, sha256: str) -> None:
        if self._content.read(1) or self._hash.hexdigest() != sha256:
            raise self._changed()

    def _changed(self) -> SourceUnreadable:
        return SourceUnreadable(path=self._source, reason="it changes while it is being sent")


def _unreadable(source: Path, error: OSError) -> SourceUnreadable:
    return SourceUnreadable(path=source, reason=error.strerror or str(error))
