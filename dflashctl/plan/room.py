"""Room on the target's disks for what a plan brings and for what the run will write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dflashctl.agent.protocol import PlaceFiles, Receive, StartRun
from dflashctl.errors import Refusal
from dflashctl.plan import words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dflashctl.agent.seen import DiskSeen, Observed
    from dflashctl.plan.model import Desired, Step


# A run without room for its records and the first of its log could not be told from none.
FOR_RECORDS = 16 << 20


def disk_for(path: str, seen: Observed) -> DiskSeen | None:
    """The disk that ``path`` is on: as reported for it, or for the nearest folder above."""
    above = [
        disk
        for disk in seen.disks
        if path == disk.path or path.startswith(disk.path.rstrip("/") + "/")
    ]
    return max(above, key=lambda disk: len(disk.path), default=None)


def room_refusals(desired: Desired, seen: Observed, steps: tuple[Step, ...]) -> Iterator[Refusal]:
    """Disks too full for the files, and less free than the playbook asks for."""
    yield from _for_files(seen, steps)
    wanted = desired.playbook.preflight.free_space
    if wanted is None or not any(isinstance(step.action, StartRun) for step in steps):
        return
    path = _where_the_run_writes(desired, seen)
    disk = disk_for(path, seen)
    if disk is not None and disk.free < wanted:
        yield Refusal(
            code="free_space",
            message=f"{words.size(disk.free)} are free on the disk of {path}, "
            f"and preflight.free_space wants {words.size(wanted)}",
            remedy="make room on that disk (on the target, df -h shows them all), or ask for "
            "less; cleared checkpoints still take their room until they are purged",
        )


def _where_the_run_writes(desired: Desired, seen: Observed) -> str:
    playbook = desired.playbook
    if playbook.checkpoints is not None:
        return playbook.checkpoints.path
    if playbook.run is not None and playbook.run.cwd is not None:
        return playbook.run.cwd
    return seen.state_dir


def _for_files(seen: Observed, steps: tuple[Step, ...]) -> Iterator[Refusal]:
    """Files are received as an archive, kept as blobs, and written beside the old ones.

    Two reports with the same figures are one filesystem.
    """
    needed: dict[tuple[int, int], int] = {}
    named: dict[tuple[int, int], str] = {}
    # Of many files, most are in the same few folders.
    disks: dict[str, DiskSeen | None] = {disk.path: disk for disk in seen.disks}
    for path, size in _writes(seen, steps):
        place = path if path in disks else path.rpartition("/")[0]
        if place not in disks:
            disks[place] = disk_for(path, seen)
        disk = disks[place]
        if disk is None:
            continue
        key = (disk.free, disk.total)
        needed[key] = needed.get(key, 0) + size
        named.setdefault(key, path)
    for (free, total), size in needed.items():
        if size > free:
            path = named[free, total]
            yield Refusal(
                code="no_room",
                message=f"files and records need {words.size(size)} on the disk of {path}, "
                f"where {words.size(free)} are free",
                remedy="make room on that disk; on the target, df -h shows them all",
            )


def _writes(seen: Observed, steps: tuple[Step, ...]) -> Iterator[tuple[str, int]]:
    for step in steps:
        if isinstance(step.action, Receive):
            yield seen.state_dir, 2 * sum(file.size for file in step.action.files)
        elif isinstance(step.action, PlaceFiles):
            yield from ((file.dest, file.size) for file in step.action.files)
        elif isinstance(step.action, StartRun):
            yield seen.state_dir, FOR_RECORDS
