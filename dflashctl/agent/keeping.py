"""What a checkpoint is, and what can be done with them: a part of the protocol.

Sizes are bytes, times seconds since the epoch, durations seconds.
"""

from __future__ import annotations

from dflashctl.agent.lean import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkerFile:
    """Complete when this file is in the checkpoint's directory."""

    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietFor:
    """Complete when nothing in it was modified for so long."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonField:
    """A field (dots lead inwards) of a JSON file in the checkpoint's directory.

    As a rule of completeness it must be true; as a source of the step, a number.
    """

    file: str
    field: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PointerFile:
    """A file beside the checkpoints that names the newest complete one, or its step.

    That one is complete, and so is every other that was not modified after the pointer.
    """

    file: str


CompleteWhen = MarkerFile | QuietFor | JsonField | PointerFile


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSpec:
    """A folder of checkpoints, and which of its entries are some.

    Attributes:
        path: the folder.
        pattern: a shell pattern for names; None: each entry.
        step_from: where a checkpoint's step is read: a regular expression with one group
            for its name, or a JSON field in it; None: the usual names of steps.
        complete_when: None: each is taken to be complete.
        archive_to: the folder of archives.
    """

    path: str
    pattern: str | None = None
    step_from: str | JsonField | None = None
    complete_when: CompleteWhen | None = None
    archive_to: str | None = None


# --- actions -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearCheckpoints:
    """Move all that the folder holds aside. ``real_path`` is the path as it resolved."""

    path: str
    real_path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveCheckpoints:
    """Bring the complete checkpoints into an archive, with the hash of each file.

    ``names``: these only; None: all that are complete when it is done. ``then_remove``:
    once the archive is verified the originals go; on one filesystem they are renamed.
    """

    store: StoreSpec
    real_path: str
    name: str
    names: tuple[str, ...] | None
    then_remove: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreCheckpoints:
    """Bring an archive's checkpoints back; what is there now is moved aside before.

    ``to``: a folder to bring them to; None: the store's own, ``real_path``. It was
    ``real_path`` when it was looked at.
    """

    store: StoreSpec
    real_path: str
    name: str
    to: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreCleared:
    """Undo a clearing: its entries come back; what is there now is moved aside before."""

    path: str
    real_path: str
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneCheckpoints:
    """Delete these checkpoints; never the newest complete one."""

    store: StoreSpec
    real_path: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeCleared:
    """Delete what these clearings moved aside; ``own``: also what this transaction did."""

    path: str
    real_path: str
    ids: tuple[str, ...]
    own: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyArchive:
    """Read an archive whole, and compare every file with its manifest."""

    store: StoreSpec
    name: str


CheckpointAction = (
    ClearCheckpoints
    | ArchiveCheckpoints
    | RestoreCheckpoints
    | RestoreCleared
    | PruneCheckpoints
    | PurgeCleared
    | VerifyArchive
)


# --- bringing one to the operator ----------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Pull:
    """Send an archive, or a checkpoint, path by path.

    ``identity``: of what was begun before (None: nothing was): if it is the same still,
    the first ``skip`` paths are left out, and ``offset`` bytes of the next one.
    """

    store: StoreSpec
    name: str
    identity: str | None
    skip: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PullBegun:
    """What comes: so many paths, so many bytes in files. ``identity`` changes with them."""

    identity: str
    paths: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PullPath:
    """The next path. ``kind``: ``file``, ``dir``, ``link`` or ``hard`` (to ``target``)."""

    path: str
    kind: str
    mode: int
    size: int
    mtime_ns: int
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PullData:
    """A piece of the file, in base64."""

    data: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PullDone:
    """The path is whole; the SHA-256 of a file's content."""

    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulled:
    """All has been sent."""


PullEvent = PullBegun | PullPath | PullData | PullDone


# --- what is seen --------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSeen:
    """One checkpoint. ``why``: what is missing when it is not complete.

    ``metric``: the value of the metric that was asked for, where it can be found.
    """

    name: str
    step: int | None
    at: float
    size: int | None
    complete: bool
    why: str | None
    metric: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveSeen:
    """One archive.

    Attributes:
        form: ``files`` (they lie there as they were), ``tar`` or ``tar.zst``.
        whole: False when what made it was cut off.
        names: its checkpoints, the newest last.
        size: of the files in it; ``allocated``: what they take on a disk; ``stored``: what
            the archive takes.
        source: the folder that they came from.
    """

    name: str
    form: str
    whole: bool
    at: float
    names: tuple[str, ...]
    latest_step: int | None
    size: int
    allocated: int
    stored: int
    files: int
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearedSeen:
    """What one clearing moved aside. ``id``: the transaction that did it."""

    id: str
    at: float
    count: int
    latest_step: int | None
    size: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSeen:
    """All checkpoints (the oldest first), archives and clearings that there are.

    Attributes:
        left_out: how many of the oldest checkpoints are not listed.
        allocated: what the complete ones take on the disk; None when it was not measured.
        archive_free: what is free where archives go to.
        same_disk: whether archives are on the checkpoints' own filesystem.
        resumed_from: the newest complete one that was there when the live run was started.
    """

    checkpoints: tuple[CheckpointSeen, ...]
    left_out: int
    archives: tuple[ArchiveSeen, ...]
    cleared: tuple[ClearedSeen, ...]
    allocated: int | None
    archive_free: int | None
    same_disk: bool
    resumed_from: str | None
