"""A playbook as values: the desired job. What is not set is None or empty."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from dflashctl.agent.lean import dataclass, field

if TYPE_CHECKING:
    from pathlib import Path

    from dflashctl.agent.keeping import CompleteWhen, JsonField
    from dflashctl.agent.seen import Ending
    from dflashctl.agent.watching import Kind, Restart


@dataclass(frozen=True, slots=True, kw_only=True)
class PushedFile:
    """One ordinary file to push, after directories and globs were expanded.

    ``dest``: absolute; else below the folder that the agent keeps for what training imports.
    ``mode``: permission bits on the target (the playbook's, else the source's own).
    """

    source: Path
    dest: str
    mode: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """How the trainer is started. ``env`` is declared in the open, ``secrets`` are not.

    ``secrets`` are read from ``env_file`` and the operator's environment (``env_from``)
    when the playbook is loaded for a verb that starts a run; never shown or recorded.
    """

    command: tuple[str, ...]
    resume: tuple[str, ...] | None
    resume_new_buckets: tuple[str, ...] | None = None
    cwd: str | None
    user: str | None
    env_base: Literal["login", "minimal"]
    env: dict[str, str]
    env_file: Path | None
    env_from: tuple[str, ...]
    exit_codes: dict[str, Ending]


@dataclass(frozen=True, slots=True, kw_only=True)
class StopSpec:
    """``signal`` without its SIG; ``grace_s`` before TERM goes to the whole tree."""

    signal: str = "INT"
    grace_s: float = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadySpec:
    """A new run counts as started once it lived for ``alive_for_s``.

    ``metric``: and has printed this one, for which it has ``within_s``.
    """

    alive_for_s: float = 10.0
    metric: str | None = None
    within_s: float = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PreflightSpec:
    """What must hold before anything is stopped. ``free_space`` in bytes."""

    gpus: int | None = None
    free_space: int | None = None
    python: str | None = None
    imports: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrashSpec:
    """Of what was cleared: the last ``keep`` stay, and what is younger than ``for_s``."""

    keep: int = 1
    for_s: float = 7 * 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepSpec:
    """The checkpoints that a pruning leaves: the last few, and every so many steps."""

    last: int | None = None
    every: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSpec:
    """Where the trainer keeps its checkpoints, on the target, and which entries are some.

    ``trash`` and ``keep`` are None where the playbook allows no purging, or names no rule.
    The other fields are those of `StoreSpec`.
    """

    path: str
    pattern: str | None = None
    step_from: str | JsonField | None = None
    complete_when: CompleteWhen | None = None
    archive_to: str | None = None
    trash: TrashSpec | None = None
    keep: KeepSpec | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSpec:
    """Where the metrics are found, if not in the output in a form that is known.

    ``pattern``: a regular expression for a line of output, its groups named after metrics;
    ``jsonl``: a file on the target to which the trainer appends lines of JSON.
    """

    pattern: str | None = None
    jsonl: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelSpec:
    """Somebody to tell: an address, a mail address or a command, or where the address is."""

    kind: Kind
    to: tuple[str, ...]
    to_from: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchSpec:
    """How a run is watched on its target.

    Attributes:
        textfile: is for node_exporter.
        restart: whether and how a run that fails is started again.
    """

    every_s: float
    channels: tuple[ChannelSpec, ...]
    textfile: str | None = None
    restart: Restart | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetSpec:
    """Where the lengths are, on the target.

    Attributes:
        path: a file, a folder, or a pattern for several.
        column: where in it; None: found by its name.
        format: ``auto``, or one of those that docs/optimize-buckets.md lists.
        python: the interpreter that reads it; None: the target's ``python3``.
    """

    path: str
    column: str | None = None
    format: str = "auto"
    python: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchingSpec:
    """How training makes its batches. What is None has to be said somewhere else.

    Attributes:
        count: how many buckets.
        token_budget: the most tokens in a batch, padding included.
        max_batch_size: the most samples in a batch.
        max_length: the last boundary; None: just above the longest sample.
        align: inner boundaries are multiples of it.
        window: sort windows of so many samples inside a bucket; 0: none.
        order: of an epoch's batches.
        ranks: how many processes share them; None: the target's GPUs.
        accumulation: batches of a rank in one optimizer step.
        seed: of every shuffle.
    """

    count: int = 6
    token_budget: int | None = None
    max_batch_size: int | None = None
    max_length: int | None = None
    align: int = 1
    window: int = 0
    order: Literal["random", "stratified"] = "stratified"
    ranks: int | None = None
    accumulation: int = 1
    seed: int = 0


OnPartial = Literal["keep", "stop", "rollback"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributedSpec:
    """One run over the targets of a command, started on each of them by torchrun.

    Attributes:
        nproc_per_node: processes on each target.
        port: where the first target listens for the others.
        rendezvous: ``static``: every target, from begin to end; ``c10d``: as they come and go.
        min_nodes: with c10d, how few may go on; None: all of them.
        max_restarts: how often torchrun starts its processes again.
        interface: the network interface between the targets, or ``auto``.
    """

    nproc_per_node: int
    port: int = 29400
    rendezvous: Literal["static", "c10d"] = "static"
    min_nodes: int | None = None
    max_restarts: int = 0
    interface: str = "auto"


Verb = Literal[
    "push",
    "run",
    "stop",
    "clear_checkpoints",
    "archive_checkpoints",
    "restore_checkpoints",
    "prune_checkpoints",
    "start",
    "wait_ready",
    "optimize_buckets",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class WhenSpec:
    """What must be so for a step to be done: all that is set. None and empty: no matter.

    Attributes:
        state: the job's state is one of these.
        gpus_free: so many GPUs at least are held by nobody else.
        at_least, at_most: how many checkpoints there are.
        files_changed: whether a pushed file is not on the target as it is here.
        missing: one at least of these is not there: absolute paths, names of programs.
    """

    state: tuple[str, ...] = ()
    gpus_free: int | None = None
    at_least: int | None = None
    at_most: int | None = None
    files_changed: bool | None = None
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSpec:
    """One step of a playbook: what to do, and when.

    Attributes:
        do: the verb.
        goes_on: whether its failure is passed over.
        name: of the archive, for the steps that make or restore one.
        command, cwd, env_base, env, timeout_s: of ``run``.
        alive_for_s: of ``wait_ready``; None: the playbook's ``ready``.
    """

    do: Verb
    when: WhenSpec = WhenSpec()
    goes_on: bool = False
    name: str | None = None
    command: tuple[str, ...] = ()
    cwd: str | None = None
    env_base: Literal["login", "minimal"] = "login"
    env: dict[str, str] = field(default_factory=dict)
    timeout_s: float = 600.0
    alive_for_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Playbook:
    """The whole. ``path`` is the file it was read from.

    ``buckets``: the file of bucket boundaries that goes with a release, on this machine.
    ``on_partial``: what becomes of the new runs where one of several targets failed.
    """

    path: Path
    name: str
    session: str
    files: tuple[PushedFile, ...]
    run: RunSpec | None
    stop: StopSpec
    ready: ReadySpec
    preflight: PreflightSpec
    checkpoints: CheckpointSpec | None
    metrics: MetricsSpec = MetricsSpec()
    watch: WatchSpec | None = None
    buckets: Path | None = None
    dataset: DatasetSpec | None = None
    batching: BatchingSpec | None = None
    distributed: DistributedSpec | None = None
    steps: tuple[StepSpec, ...] = ()
    on_partial: OnPartial | None = None

    @property
    def when_partial(self) -> OnPartial:
        """``on_partial``, or what it is where the playbook does not say."""
        return self.on_partial or ("stop" if self.distributed else "keep")
