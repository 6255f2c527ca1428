"""Pushed files: what is there, what came, and putting it in place by atomic renames."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import stat
import tarfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import IO

from dflashctl.agent.failures import AgentError, existing_parent, free_space, from_os_error
from dflashctl.agent.protocol import FileWanted
from dflashctl.agent.records import StateFolder, sync_folder
from dflashctl.agent.seen import FileSeen
from dflashctl.agent.settle import settle

PIECE = 1 << 20
ARCHIVE = "files.tar"
# Of all texts in one answer, so that it stays one line of bearable length.
TEXTS_AT_MOST = 4 << 20
# Beyond the files themselves, so that records and logs can still be written.
RESERVE = 16 << 20


def sha256_of(path: Path) -> str:
    """The hash of a file's content."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            digest.update(piece)
    return digest.hexdigest()


def see_all(wanted: Iterable[FileWanted], state: StateFolder, texts: int) -> Iterator[FileSeen]:
    """What is in the place of each; with its text where it differs and is not too long."""
    room = TEXTS_AT_MOST
    for file in wanted:
        seen = see(file, state)
        if texts and seen.sha256 not in (None, file.sha256):
            text = read_text(Path(seen.real_dest), min(texts, room))
            room -= len(text.encode()) if text else 0
            seen = replace(seen, text=text)
        yield seen


def read_text(path: Path, limit: int) -> str | None:
    """A file's content if it is text and not longer than that; else None."""
    with suppress(OSError, UnicodeDecodeError), path.open("rb") as file:
        data = file.read(limit + 1)
        if len(data) <= limit and b"\0" not in data:
            return data.decode("utf-8")
    return None


def see(wanted: FileWanted, state: StateFolder) -> FileSeen:
    """What is in the place of a wanted file, and whether it could be put there."""
    place = Path(os.path.realpath(wanted.dest))
    sha256, mode, problem = None, None, None
    try:
        about = place.stat()
    except (FileNotFoundError, NotADirectoryError):
        parent = existing_parent(place)
        if not parent.is_dir():
            problem = "no_parent"
        elif not os.access(parent, os.W_OK | os.X_OK):
            problem = "unwritable"
    except OSError:
        problem = "unwritable"
    else:
        if not stat.S_ISREG(about.st_mode):
            problem = "directory" if stat.S_ISDIR(about.st_mode) else "not_a_file"
        elif not os.access(place.parent, os.W_OK | os.X_OK):
            problem = "unwritable"
        else:
            mode = stat.S_IMODE(about.st_mode)
            with suppress(OSError):
                sha256 = sha256_of(place)
    return FileSeen(
        dest=wanted.dest,
        real_dest=str(place),
        sha256=sha256,
        mode=mode,
        stored=state.blob(wanted.sha256).exists(),
        problem=problem,
    )


def make_staging(state: StateFolder, transaction: str, bytes_needed: int) -> Path:
    """An empty folder for a transaction's files.

    Raises:
        AgentError: ``disk_full`` when they would not fit (twice: archive and blobs).
    """
    state.create()
    free, needed = free_space(state.path), 2 * bytes_needed + RESERVE
    if free < needed:
        raise AgentError("disk_full", path=str(state.path), free=free, needed=needed)
    # The same transaction comes again when one way for the archive turned out closed.
    drop_staging(state, transaction)
    folder = state.staging(transaction)
    folder.mkdir(mode=0o700)
    return folder


def write_pieces(folder: Path, pieces: Iterator[str]) -> None:
    """The archive as it comes in base64 over the agent's own channel."""
    with (folder / ARCHIVE).open("xb") as file:
        for piece in pieces:
            file.write(base64.b64decode(piece, validate=True))


def receive(state: StateFolder, transaction: str, wanted: Iterable[FileWanted]) -> int:
    """Turn a staged archive into blobs, each checked against the hash it was promised.

    Returns how many bytes came. Raises:
        AgentError: ``bad_upload`` when something is missing, cut or altered.
    """
    expected = {file.sha256: file for file in wanted}
    archive = state.staging(transaction) / ARCHIVE
    received = 0
    with _kept(state) as keep:
        try:
            with tarfile.open(archive, "r:") as tar:
                for member in tar:
                    promised = expected.get(member.name)
                    if promised is None or not member.isreg() or member.size != promised.size:
                        raise AgentError(
                            "bad_upload", sha256=member.name, reason="not as announced"
                        )
                    content = tar.extractfile(member)
                    if content is not None:
                        keep(member.name, content)
                        received += member.size
        except FileNotFoundError:
            pass  # told below, with the names
        except (tarfile.TarError, EOFError) as error:
            raise AgentError("bad_upload", sha256="", reason=f"cut short: {error}") from error
    for sha256 in expected:
        if not state.blob(sha256).exists():
            raise AgentError("bad_upload", sha256=sha256, reason="did not arrive")
    return received


@contextmanager
def _kept(state: StateFolder) -> Iterator[Callable[[str, IO[bytes]], None]]:
    """To store contents under their hashes: all of them at the end, or none.

    What has another hash is refused, and leaves no trace.
    """
    written: dict[str, Path] = {}

    def keep(sha256: str, content: IO[bytes]) -> None:
        temporary = written[sha256] = state.blobs / f".{sha256}.{os.getpid()}"
        digest = hashlib.sha256()
        with temporary.open("wb") as file:
            os.fchmod(file.fileno(), 0o600)
            while piece := content.read(PIECE):
                digest.update(piece)
                file.write(piece)
        if digest.hexdigest() != sha256:
            raise AgentError("bad_upload", sha256=sha256, reason="content was altered")

    try:
        yield keep
        settle(tuple(written.values()))
        for sha256, temporary in written.items():
            temporary.replace(state.blob(sha256))
    finally:
        for temporary in written.values():
            temporary.unlink(missing_ok=True)


def keep_as_blob(state: StateFolder, file: FileWanted) -> None:
    """Make sure that a release's file is kept, from its place on this machine if need be."""
    if not state.blob(file.sha256).exists():
        with Path(file.dest).open("rb") as content, _kept(state) as keep:
            keep(file.sha256, content)


def place(state: StateFolder, files: Iterable[FileWanted]) -> None:
    """Put blobs in place: all are written beside their places first, then renamed.

    Raises:
        AgentError: ``disk_full`` or ``unwritable``; no place has changed then.
    """
    ready: list[tuple[Path, Path, int]] = []
    try:
        for wanted in files:
            target = Path(os.path.realpath(wanted.dest))
            try:
                written = _write_beside(state.blob(wanted.sha256), target, wanted)
                ready.append((written, target, wanted.mode))
            except OSError as error:
                raise from_os_error(error, target.parent) from error
        try:
            settle([temporary for temporary, _, _ in ready])
        except OSError as error:
            raise from_os_error(error, Path(error.filename).parent) from error
        for temporary, target, mode in ready:
            temporary.chmod(mode)
            temporary.replace(target)
        for folder in {target.parent for _, target, _ in ready}:
            sync_folder(folder)
    finally:
        for temporary, _, _ in ready:
            temporary.unlink(missing_ok=True)


def _write_beside(blob: Path, target: Path, wanted: FileWanted) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".dflashctl-{os.urandom(8).hex()}")
    digest = hashlib.sha256()
    try:
        with blob.open("rb") as source, open(temporary, "xb", opener=_private) as file:
            while piece := source.read(PIECE):
                digest.update(piece)
                file.write(piece)
            if digest.hexdigest() != wanted.sha256:
                blob.unlink()  # so that the next deploy sends it anew
                raise AgentError("bad_upload", sha256=wanted.sha256, reason="it rotted here")
            with suppress(OSError):
                owner = target.stat()
                os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def drop_staging(state: StateFolder, transaction: str) -> None:
    """Remove a transaction's staging folder, if there is one."""
    shutil.rmtree(state.staging(transaction), ignore_errors=True)
