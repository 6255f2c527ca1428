"""What is asked about the runs on record, and what their records tell.

Times are seconds since the epoch, sizes bytes. What was not recorded is None.
"""

from __future__ import annotations

from typing import Literal

from dflashctl.agent.fabric import Node
from dflashctl.agent.lean import dataclass, field
from dflashctl.agent.seen import Ending, MetricsSeen, RunSeen
from dflashctl.agent.watching import Attempt, RestartSeen


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The git checkout on the operator's side that the pushed files came from.

    Attributes:
        commit: the checkout's commit, in full.
        branch: its branch; None when it is on none.
        dirty: whether a pushed file is not as in that commit, or not in it at all.
        diff: how the pushed files differ from the commit, as git tells it.
        whole: False when the diff was too long and its end is missing.
    """

    commit: str
    branch: str | None
    dirty: bool
    diff: str
    whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What is recorded of a run beside what it is started with.

    Attributes:
        fresh, resume: the playbook's words for a start from nothing and for one from
            checkpoints; a rollback chooses between them.
        source: where the pushed files came from.
        gpus: the GPUs' names as they were seen last.
        python: the interpreter whose version and torch are worth knowing.
        metrics: how its metrics are found: ``pattern`` or ``jsonl``, if either.
        repeats: the run whose release this one was started from again.
        attempt: that the watchdog started it, if it did.
        node: the target's place, where the run is one over several.
    """

    fresh: tuple[str, ...] = ()
    resume: tuple[str, ...] | None = None
    source: Source | None = None
    gpus: tuple[str, ...] = ()
    python: str | None = None
    metrics: dict[str, str] = field(default_factory=dict)
    repeats: str | None = None
    attempt: Attempt | None = None
    node: Node | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The target when the run started: NVIDIA's driver, the GPUs, the interpreter, torch."""

    driver: str | None
    gpus: tuple[str, ...]
    python: str | None
    torch: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileKept:
    """A file of a release. ``kept``: its content is on the target still, under its hash."""

    dest: str
    sha256: str
    size: int
    mode: int
    kept: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ListRuns:
    """Which runs of the job are on record?"""

    job: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallRun:
    """All that is on record of one run; ``no_run`` when there is none by that id."""

    job: str
    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBlobs:
    """The contents of kept files that are text and at most ``limit`` bytes long."""

    sha256s: tuple[str, ...]
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsListed:
    """The runs of a job that are on record, the oldest first. ``current``: the newest's id.

    ``metrics``: the last of each run that printed any, by its id.
    """

    now: float
    current: str | None
    runs: tuple[RunSeen, ...]
    metrics: dict[str, MetricsSeen] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """All that is on record of one run.

    Attributes:
        now: when it was asked for.
        run: what it is and what has become of it.
        secrets: the names of its secret variables.
        files: its release.
        version: of the tool that started it.
        transaction: the one that started it.
        resumed_from: the newest checkpoint that was there when it started.
        checkpoints: the folder of its checkpoints.
        boundaries: those of its buckets.
        metrics: the last that were measured.
        attempt: that the watchdog started it, if it did.
        restart: what the watchdog did when it had failed, if anything.
    """

    now: float
    run: RunSeen
    cwd: str | None
    user: str | None
    env_base: Literal["login", "minimal"]
    secrets: tuple[str, ...]
    signal: str
    grace_s: float
    exit_codes: dict[str, Ending]
    fresh: tuple[str, ...]
    resume: tuple[str, ...] | None
    files: tuple[FileKept, ...]
    source: Source | None
    facts: Facts | None
    version: str | None
    transaction: str | None
    resumed_from: str | None
    checkpoints: str | None
    repeats: str | None
    boundaries: tuple[int, ...] | None
    metrics: MetricsSeen | None
    attempt: Attempt | None = None
    restart: RestartSeen | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """Contents by their hashes. What is not kept, too long or no text is left out."""

    texts: dict[str, str]
