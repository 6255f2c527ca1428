"""Where what a target sends lands on this machine: only in the folder that was named.

The target is not trusted: a path that leads out, a link that does, or more bytes than were
announced end it. Files grow in ``.NAME.partial`` beside a log of those that are whole, so
that a broken pull is gone on with; the folder gets its name when all is there.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from dflashctl.agent.keeping import PullBegun, PullData, PullDone, PullPath
from dflashctl.errors import CannotWrite, Internal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dflashctl.agent.keeping import PullEvent
    from dflashctl.agent.protocol import Event
    from dflashctl.link.transport import Progress

PIECE = 1 << 20
LINKS_AT_MOST = 100_000


class Landing:
    """One pull. Tell it every event, then `finish`."""

    def __init__(self, folder: Path, name: str, progress: Progress) -> None:
        """``folder``: where the new folder ``name`` is made.

        Raises:
            CannotWrite: there is one by that name, or none can be made.
        """
        self.place = folder / name
        self._partial = folder / f".{name}.partial"
        self._log = folder / f".{name}.partial.jsonl"
        self._progress = progress
        if os.path.lexists(self.place):
            raise CannotWrite(path=self.place, reason="there is something by that name already")
        self.identity: str | None = None
        self.whole: list[dict[str, Any]] = []
        self._links: list[PullPath] = []
        self._now: PullPath | None = None
        self._file: IO[bytes] | None = None
        self._digest = hashlib.sha256()
        self._total = self._paths = self._done = self.files = 0
        with _told(folder):
            folder.mkdir(parents=True, exist_ok=True)
            self._recall()

    @property
    def skip(self) -> int:
        """How many paths are whole already."""
        return len(self.whole)

    @property
    def offset(self) -> int:
        """How many bytes of the next one are here."""
        return self._begun.stat().st_size if self._begun.exists() else 0

    @property
    def _begun(self) -> Path:
        """The file that is under way, under a name of its own."""
        return self._partial.with_name(f"{self._partial.name}.file")

    def _recall(self) -> None:
        """What an earlier pull left, if it can be relied on."""
        lines: list[dict[str, Any]] = []
        with suppress(OSError):
            for text in self._log.read_bytes().splitlines():
                with suppress(ValueError):
                    lines.append(json.loads(text))
        intact = bool(lines) and "identity" in lines[0] and self._partial.is_dir()
        for line in lines[1:]:
            if line["kind"] == "file":
                path = self._partial / line["path"]
                intact = intact and path.is_file() and path.stat().st_size == line["size"]
        if intact:
            self.identity = str(lines[0]["identity"])
            self.whole = lines[1:]
            self._links = [_as_path(one) for one in self.whole if one["kind"] in ("link", "hard")]
        else:
            self._start_over()

    def _start_over(self) -> None:
        shutil.rmtree(self._partial, ignore_errors=True)
        for left in (self._log, self._begun):
            left.unlink(missing_ok=True)
        self.identity, self.whole, self._links = None, [], []

    def hear(self, event: Event) -> None:
        """An event of the agent's; what is none of a pull's is nothing to us."""
        if isinstance(event, PullBegun | PullPath | PullData | PullDone):
            self.take(event)

    def take(self, event: PullEvent) -> None:
        """One thing that the target says.

        Raises:
            CannotWrite: this machine cannot, or has no room.
            Internal: the target says what it must not.
        """
        with _told(self.place), _sense():
            match event:
                case PullBegun():
                    self._begin(event)
                case PullPath():
                    self._next(event)
                case PullData():
                    self._write(base64.b64decode(event.data))
                case PullDone():
                    self._end(event)

    def _begin(self, event: PullBegun) -> None:
        if event.identity != self.identity:
            self._start_over()
            self._partial.mkdir(mode=0o700)
            self._remember({"identity": event.identity})
            self.identity = event.identity
        self._total, self._paths = event.size, event.paths
        self._done = sum(one["size"] for one in self.whole) + self.offset
        free = shutil.disk_usage(self._partial).free
        if event.size - self._done > free:
            reason = f"{event.size - self._done} bytes are to come, and {free} are free"
            raise CannotWrite(path=self.place, reason=reason)

    def _next(self, event: PullPath) -> None:
        parts = _parts(event.path)
        parent = self._partial.joinpath(*parts[:-1])
        if not parent.is_dir():
            raise _nonsense(f"{event.path!r} comes before its folder")
        if len(self.whole) >= self._paths:
            raise _nonsense(f"more than the {self._paths} paths that it announced")
        self._now = event
        match event.kind:
            case "dir":
                parent.joinpath(parts[-1]).mkdir(mode=0o700, exist_ok=True)
            case "file":
                self._open(event)
            case "link" | "hard":
                check_link(event)
                self._links.append(event)
                if len(self._links) > LINKS_AT_MOST:
                    raise _nonsense("more links than any checkpoint has")
            case _:
                raise _nonsense(f"{event.path!r} is a {event.kind}")

    def _open(self, event: PullPath) -> None:
        self._digest = hashlib.sha256()
        with suppress(FileNotFoundError), self._begun.open("rb") as begun:
            while piece := begun.read(PIECE):
                self._digest.update(piece)
        handle = os.open(self._begun, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        self._file = os.fdopen(handle, "ab")

    def _write(self, data: bytes) -> None:
        now = self._now
        if self._file is None or now is None:
            raise _nonsense("data that belongs to no file")
        if self._file.tell() + len(data) > now.size:
            raise _nonsense(f"{now.path!r} has more than the {now.size} bytes it should have")
        self._file.write(data)
        self._digest.update(data)
        self._done += len(data)
        self._progress(self._done, max(self._total, self._done))

    def _end(self, event: PullDone) -> None:
        now = self._now
        if now is None:
            raise _nonsense("the end of nothing")
        if self._file is not None:
            size = self._file.tell()
            self._file.close()
            self._file = None
            if size != now.size or self._digest.hexdigest() != event.sha256:
                self._begun.unlink()
                raise _nonsense(f"{now.path!r} did not arrive as it was sent; pull it again")
            place = self._partial.joinpath(*_parts(now.path))
            if os.path.lexists(place):
                raise _nonsense(f"{now.path!r} comes twice")
            self._begun.chmod(now.mode & 0o777)
            os.utime(self._begun, ns=(now.mtime_ns, now.mtime_ns))
            self._begun.rename(place)
        line = {"path": now.path, "kind": now.kind, "mode": now.mode & 0o777}
        line |= {"size": now.size if now.kind == "file" else 0, "target": now.target}
        self.whole.append(line)
        self._remember(line)
        self._now = None

    def _remember(self, line: dict[str, Any]) -> None:
        with self._log.open("ab") as log:
            log.write(json.dumps(line).encode("ascii") + b"\n")

    def close(self) -> None:
        """Let go of the file under way; it is gone on with next time."""
        if self._file is not None:
            self._file.close()

    def finish(self) -> Path:
        """All has come: make the links, and give the folder its name. Returns it."""
        with _told(self.place):
            for link in self._links:
                path = self._partial.joinpath(*_parts(link.path))
                if os.path.lexists(path):
                    path.unlink()
                if link.kind == "link":
                    path.symlink_to(link.target)
                else:
                    first = self._partial.joinpath(*_parts(link.target))
                    os.link(first, path, follow_symlinks=False)
            for one in reversed(self.whole):
                if one["kind"] == "dir":
                    self._partial.joinpath(*_parts(one["path"])).chmod(one["mode"] | 0o700)
            inner = self._partial / self.place.name
            if [one.name for one in self._partial.iterdir()] == [inner.name]:
                # A checkpoint itself, not a folder with one in it.
                inner.rename(self.place)
                self._partial.rmdir()
            else:
                self._partial.rename(self.place)
            self._log.unlink(missing_ok=True)
        self.files = sum(one["kind"] == "file" for one in self.whole)
        return self.place


class _told:  # noqa: N801 - reads as the `with` statement's own word
    """This machine's refusals as our error."""

    def __init__(self, place: Path) -> None:
        self._place = place

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, OSError):
            place = Path(str(error.filename)) if error.filename else self._place
            raise CannotWrite(path=place, reason=error.strerror or str(error)) from error


@contextmanager
def _sense() -> Iterator[None]:
    """Numbers that no file has, names that no filesystem takes, what is no base64."""
    try:
        yield
    except (ValueError, OverflowError) as error:
        raise _nonsense(str(error)) from error


def _as_path(line: dict[str, Any]) -> PullPath:
    return PullPath(
        path=line["path"], kind=line["kind"], mode=line["mode"], size=0, mtime_ns=0,
        target=line["target"],
    )  # fmt: skip


def _parts(path: str) -> list[str]:
    """The names of a path that stays within the folder. Raises Internal."""
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts) or "\0" in path:
        raise _nonsense(f"the path {path!r} leads out of the folder")
    return parts


def check_link(link: PullPath) -> None:
    """A link within the folder leads within it. Raises Internal.

    ``..`` is let through only at the beginning, where it means the folders above the link
    itself, which are none: further on it might mean those above what a link leads to.
    """
    if link.kind == "hard":
        _parts(link.target)
        return
    parts, depth = link.target.split("/"), len(_parts(link.path)) - 1
    up = next((n for n, part in enumerate(parts) if part != ".."), len(parts))
    if not link.target or up > depth or any(part in ("", "..") for part in parts[up:]):
        raise _nonsense(f"the link {link.path!r} leads out of the folder, to {link.target!r}")


def _nonsense(what: str) -> Internal:
    return Internal(what="the target sent what cannot be taken", detail=what)
