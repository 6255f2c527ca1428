"""The state folder: where things lie, and how they are written so that a cut cannot halve them."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any


def write_atomically(path: Path, data: bytes, mode: int = 0o600) -> None:
    """The file is wholly the old one or wholly the new one, whatever happens."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    # A process by our pid was killed over it, in an earlier boot perhaps.
    temporary.unlink(missing_ok=True)
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make a rename in this folder last through a power cut."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_json(path: Path, value: dict[str, Any]) -> None:
    """A record, atomically."""
    write_atomically(path, json.dumps(value, indent=1).encode() + b"\n")


ROOM = 4096


def reserve(path: Path) -> None:
    """Take room for a record that must be written even when the disk is full by then."""
    write_atomically(_room(path), b" " * ROOM)


def write_reserved(path: Path, value: dict[str, Any]) -> None:
    """A record, atomically; in the room that was taken for it, if there is one."""
    room = _room(path)
    data = json.dumps(value, indent=1).encode() + b"\n"
    if len(data) > ROOM or not room.exists():
        write_atomically(path, data)
        return
    with room.open("r+b") as file:
        file.write(data.ljust(ROOM))
        file.flush()
        os.fsync(file.fileno())
    room.replace(path)
    sync_folder(path.parent)


def _room(path: Path) -> Path:
    return path.with_name(f".{path.name}.room")


def read_json(path: Path) -> dict[str, Any] | None:
    """A record, or None where there is none or it cannot be read as one."""
    with suppress(OSError, ValueError):
        value = json.loads(path.read_bytes())
        if isinstance(value, dict):
            return value
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFolder:
    """One run's records."""

    path: Path

    @property
    def id(self) -> str:
        """The run's id is its folder's name."""
        return self.path.name

    @property
    def run(self) -> Path:
        """What the run is."""
        return self.path / "run.json"

    @property
    def release(self) -> Path:
        """The files it was started with."""
        return self.path / "release.json"

    @property
    def source(self) -> Path:
        """The git checkout that its files came from."""
        return self.path / "source.json"

    @property
    def facts(self) -> Path:
        """What the target was like when it started."""
        return self.path / "facts.json"

    @property
    def launch(self) -> Path:
        """The whole environment, for the supervisor alone; gone once read."""
        return self.path / "launch.json"

    @property
    def process(self) -> Path:
        """Who runs: supervisor, trainer, tmux server, and of which boot."""
        return self.path / "process.json"

    @property
    def stop(self) -> Path:
        """Who asked for the end, and how it came."""
        return self.path / "stop.json"

    @property
    def exit(self) -> Path:
        """How it ended. Its presence means that the run is over."""
        return self.path / "exit.json"

    @property
    def state(self) -> Path:
        """The collector's heartbeat and the metrics so far (`series`)."""
        return self.path / "state.json"

    @property
    def orders(self) -> Path:
        """What the watchdog is started with, addresses and all; gone once read."""
        return self.path / "orders.json"

    @property
    def watchdog(self) -> Path:
        """The watchdog's process."""
        return self.path / "watchdog.json"

    @property
    def watched(self) -> Path:
        """What the watchdog told, and whom it could reach."""
        return self.path / "watched.jsonl"

    @property
    def restart(self) -> Path:
        """What the watchdog does about its failure (`restarts`)."""
        return self.path / "restart.json"

    @property
    def metrics(self) -> Path:
        """All metrics with their times, one object a line."""
        return self.path / "metrics.jsonl"

    @property
    def log(self) -> Path:
        """What it printed."""
        return self.path / "log"


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFolder:
    """The whole folder of one user on one target."""

    path: Path

    def create(self) -> None:
        """Make it and its parts, each 0700."""
        for folder in (self.path, *self.parts):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    @property
    def parts(self) -> tuple[Path, ...]:
        """The folders in it that all else is kept in."""
        return (self.blobs, self.journal, self.path / "staging", self.path / "jobs")

    @property
    def lock(self) -> Path:
        """The file whose flock is the target's lock."""
        return self.path / "lock"

    @property
    def lock_holder(self) -> Path:
        """Who holds the lock, for messages."""
        return self.path / "lock.json"

    @property
    def journal(self) -> Path:
        """One file a transaction."""
        return self.path / "journal"

    @property
    def blobs(self) -> Path:
        """Pushed files by their hashes."""
        return self.path / "blobs"

    def blob(self, sha256: str) -> Path:
        """A pushed file's content, under its hash."""
        return self.blobs / sha256

    def staging(self, transaction: str) -> Path:
        """Where a transaction's files arrive."""
        return self.path / "staging" / transaction

    def job(self, name: str) -> Path:
        """A playbook's folder."""
        return self.path / "jobs" / name

    def newest_transaction(self, job: str) -> Path:
        """Names the job's newest transaction; written before that begins."""
        return self.job(job) / "transaction.json"

    def optimizer(self, job: str) -> Path:
        """What the job's detached bucket optimiser reads and writes."""
        return self.job(job) / "buckets"

    def run(self, job: str, run_id: str) -> RunFolder:
        """A run's folder, whether it exists or not."""
        return RunFolder(path=self.job(job) / "runs" / run_id)

    def runs(self, job: str) -> list[RunFolder]:
        """Every run of the job that has a record, in no order."""
        found = (self.job(job) / "runs").glob("*/run.json")
        return [RunFolder(path=record.parent) for record in found]

    def current(self, job: str) -> RunFolder | None:
        """The job's newest run; by its date where the file that names it was damaged."""
        with suppress(OSError):
            run_id = (self.job(job) / "current").read_bytes().decode("utf-8", "replace").strip()
            if run_id.isprintable() and run_id and self.run(job, run_id).path.is_dir():
                return self.run(job, run_id)
            return max(self.runs(job), key=lambda folder: folder.run.stat().st_mtime, default=None)
        return None

    def set_current(self, job: str, run_id: str) -> None:
        """Make this run the job's newest one."""
        write_atomically(self.job(job) / "current", run_id.encode() + b"\n")
