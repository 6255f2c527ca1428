"""A tree of files as one stream, written and read by the ``tar`` and ``zstd`` programs.

Where there is no GNU tar Python's own does it, which takes far longer on many small files.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, cast

from dflashctl.agent import tarstream
from dflashctl.agent.failures import AgentError, free_space
from dflashctl.agent.manifest import PIECE, Archive, Tick, read_lines
from dflashctl.agent.tarstream import BadStream, Member

# As much as the kernel lets an ordinary user have.
PIPE = 1 << 20
# Less room than this, and a program that failed has failed for want of it.
FULL = 1 << 20


def form_here() -> str:
    """``tar.zst`` where there is a zstd program, else ``tar``."""
    return "tar.zst" if shutil.which("zstd") else "tar"


def has_gnu_tar() -> bool:
    """Whether ``tar`` is the one whose options we use."""
    try:
        told = subprocess.run(("tar", "--version"), capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return b"GNU tar" in told.stdout


def pack(base: str, names: Path, data: Path, form: str) -> None:
    """Write the paths listed in ``names`` (each ended by a NUL, below ``base``) as a stream.

    Raises:
        OSError: where it is written to.
        AgentError: ``disk_full``; ``stream_failed`` when a program failed for another reason,
            as when a file has gone.
    """
    programs: list[subprocess.Popen[bytes]] = []
    with data.open("xb") as out:
        try:
            if form == "tar.zst":
                sink, source = _pipe_pair()
                words = ("zstd", "-q", "-T0", "-1")
                programs.append(_popen(words, stdin=source, stdout=out))
                os.close(source)
            else:
                sink = os.dup(out.fileno())
            if has_gnu_tar():
                programs.append(_tar(base, names, sink))
                os.close(sink)
            else:
                _write_tar(base, names, sink)
            for program in programs[::-1]:
                told(program.wait(), data.parent)
        except BaseException:
            for program in programs:
                program.kill()
                program.wait()
            raise
        os.fsync(out.fileno())


def _pipe_pair() -> tuple[int, int]:
    source, sink = os.pipe()
    with suppress(OSError):
        fcntl.fcntl(source, fcntl.F_SETPIPE_SZ, PIPE)
    return sink, source


def _popen(words: tuple[str, ...], **ends: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(words, stderr=subprocess.DEVNULL, **ends)


def _tar(base: str, names: Path, sink: int) -> subprocess.Popen[bytes]:
    words = (
        *("tar", "--create", "--file=-", "--format=gnu", "--sparse", "--no-recursion"),
        *("--numeric-owner", "--record-size=1M", f"--directory={base}"),
        *("--null", "--verbatim-files-from", f"--files-from={names}"),
    )
    return _popen(words, stdin=subprocess.DEVNULL, stdout=sink)


def _write_tar(base: str, names: Path, sink: int) -> None:
    # A reader that gave up says so by its exit code.
    with (
        suppress(BrokenPipeError),
        os.fdopen(sink, "wb") as out,
        tarfile.open(fileobj=out, mode="w|", format=tarfile.GNU_FORMAT) as tar,
    ):
        for name in names.read_bytes().split(b"\0")[:-1]:
            path = os.fsdecode(name)
            tar.add(os.path.join(base, path), arcname=path, recursive=False)
            cast("Any", tar).members.clear()


@contextmanager
def _unpacked(archive: Archive, form: str) -> Iterator[IO[bytes]]:
    """The stream as tar wrote it. Raises AgentError ``damaged`` when it does not end well."""
    data = archive.data(form)
    if form != "tar.zst":
        with data.open("rb") as file:
            yield file
        return
    if shutil.which("zstd") is None:
        raise AgentError("no_zstd", path=str(data))
    sink, source = _pipe_pair()
    with data.open("rb") as file:
        program = _popen(("zstd", "-q", "-d", "-c"), stdin=file.fileno(), stdout=sink)
    os.close(sink)
    try:
        with os.fdopen(source, "rb", buffering=PIPE) as plain:
            yield plain
            while plain.read(PIECE):  # the padding at the end, so that zstd ends by itself
                pass
    except BaseException:
        program.kill()
        raise
    finally:
        code = program.wait()
    if code != 0:
        raise AgentError("damaged", path=str(data), reason="zstd cannot read it whole")


def check_stream(archive: Archive, form: str, tick: Tick) -> int:
    """Read a stream whole, and compare every path and every file with the manifest.

    Returns how many paths there are. Raises:
        AgentError: ``damaged`` with the first that differs, and how.
    """
    count = 0
    with read_from(archive.data(form)):
        for line, member in members(archive, form):
            count += 1
            if line["kind"] != "file":
                continue
            digest = hashlib.sha256()
            for piece in member.content():
                digest.update(piece)
                tick(len(piece))
            if digest.hexdigest() != line["sha256"]:
                raise AgentError("damaged", path=line["path"], reason="has another SHA-256")
    return count


@contextmanager
def read_from(data: Path) -> Iterator[None]:
    """What cannot be read as a stream of ours is damaged."""
    try:
        yield
    except BadStream as error:
        raise AgentError("damaged", path=str(data), reason=str(error)) from error


def check_copy(archive: Archive, form: str, base: str, tick: Tick) -> None:
    """Read a stream whole, and compare every file with its original, byte for byte.

    That costs less than a second hash: the manifest's are those of the originals.

    Raises:
        AgentError: ``changed`` with the first file that differs; ``damaged``.
    """
    with read_from(archive.data(form)):
        for line, member in members(archive, form):
            if line["kind"] == "file":
                _same(os.path.join(base, line["path"]), member, tick)


def _same(path: str, member: Member, tick: Tick) -> None:
    with open(path, "rb") as original:
        for piece in member.content():
            if original.read(len(piece)) != piece:
                raise AgentError("changed", path=path)
            tick(len(piece))


def members(archive: Archive, form: str) -> Iterator[tuple[dict[str, Any], Member]]:
    """The manifest's lines, each with what the stream has at its place.

    Raises:
        BadStream: stream and manifest differ in paths, kinds or sizes.
    """
    with _unpacked(archive, form) as plain:
        found = tarstream.read(plain)
        for line in read_lines(archive):
            member = next(found, None)
            if member is None or not _agrees(member, line):
                name = None if member is None else member.path
                raise BadStream(f"it has {name!r} where the manifest has {line['path']!r}")
            yield line, member
        if next(found, None) is not None:
            raise BadStream("it has more files than the manifest")


def _agrees(member: Member, line: dict[str, Any]) -> bool:
    same = (member.path, member.kind) == (line["path"], line["kind"])
    if line["kind"] in ("link", "hard"):
        return same and member.target == line["target"]
    return same and member.size == line.get("size", 0)


def unpack(archive: Archive, form: str, into: Path) -> None:
    """Write a stream's files into a folder; they are checked afterwards, where they lie.

    Raises:
        AgentError: ``disk_full``, ``damaged``, ``stream_failed``.
    """
    with _unpacked(archive, form) as plain:
        if has_gnu_tar():
            words = ("tar", "--extract", "--file=-", "--preserve-permissions", "--sparse")
            more = ("--numeric-owner", "--delay-directory-restore", f"--directory={into}")
            code = _popen((*words, *more), stdin=plain.fileno()).wait()
            told(code, into)
            return
        with tarfile.open(fileobj=plain, mode="r|", bufsize=PIECE) as tar:
            tar.extractall(into)  # noqa: S202 - our own archive, as its manifest will prove  # nosec B202


def copy(source: Path, into: Path) -> None:
    """Copy all that is in a folder into another, as it is. Raises as `unpack` does."""
    told(_popen(("cp", "-a", "--", f"{source}/.", str(into))).wait(), into)


def told(code: int, into: Path) -> None:
    """What a program's end means."""
    if code == 0:
        return
    free = free_space(into)
    if free < FULL:
        raise AgentError("disk_full", path=str(into), free=free)
    raise AgentError("stream_failed", path=str(into), codes=[code])
