"""What a look at a target finds: the part of the protocol that plans and status read.

Times are seconds since the epoch, sizes bytes unless a name says otherwise. An unknown
value is None. Modes are permission bits.
"""

from __future__ import annotations

from typing import Literal

from dflashctl.agent.fabric import FirstFailure, Interface, Node
from dflashctl.agent.keeping import StoreSeen
from dflashctl.agent.lean import dataclass
from dflashctl.agent.process import Rung
from dflashctl.agent.watching import RestartSeen

State = Literal[
    "NONE",
    "STARTING",
    "RUNNING",
    "ADOPTED",
    "STOPPED",
    "FINISHED",
    "FAILED",
    "ORPHANED",
    "INTERRUPTED",
]
LIVE_STATES: tuple[State, ...] = ("STARTING", "RUNNING", "ADOPTED", "ORPHANED")
GpuStatus = Literal["ok", "unresponsive", "unreadable", "absent"]
# What the playbook may call an exit code of the trainer's own; 0 is always "finished".
Ending = Literal["finished", "interrupted", "refused", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketsSeen:
    """The boundaries that a run was started with, from the file that it reads.

    ``sha256``: of the file, its first 12 digits; ``expected_efficiency``: 0 to 1;
    ``predicted_tokens_per_s``: where they were chosen beside a run that was measured.
    """

    path: str
    sha256: str
    boundaries: tuple[int, ...]
    expected_efficiency: float | None
    predicted_tokens_per_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSeen:
    """The newest run of the job, as its records and the process table tell.

    Attributes:
        state: one of `State`, of this run alone.
        pid: the trainer's, None before it was started.
        exit_name: what its exit code means (`Ending`), None while it runs.
        signal: the name of the signal that ended it.
        oom: whether the kernel's memory killer ended it; None when it cannot be told.
        stopped_by: who asked for the stop ("user@host", "session closed"), if any.
        rung: the rung of the stop ladder that ended it.
        rebooted: the machine or container started anew since the run did.
        processes: how many processes of it are alive.
        session: the tmux session it was started in.
        command: the trainer's words.
        env: the variables that were declared for it.
        release: the first 12 digits of the hash over the release.
        started_by: who started it.
        buckets: the boundaries that it was started with, if any.
        node: the target's place in it, where it is one over several.
        first_failure: of such a run that has failed, which process torchrun saw fail first.
    """

    id: str
    state: State
    pid: int | None
    started_at: float
    ended_at: float | None
    exit_code: int | None
    exit_name: Ending | None
    signal: str | None
    oom: bool | None
    stopped_by: str | None
    rung: Rung | None
    rebooted: bool
    processes: int
    session: str
    command: tuple[str, ...]
    env: dict[str, str]
    release: str
    started_by: str
    buckets: BucketsSeen | None = None
    node: Node | None = None
    first_failure: FirstFailure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSeen:
    """The tmux session by that exact name. ``adopted``: not started by us."""

    name: str
    pane_pid: int
    created_at: float | None
    attached: int
    adopted: bool
    command: str
    processes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU, in nvidia-smi's figures; None where it gives none."""

    index: int
    name: str
    utilization_pct: int | None
    memory_used_mib: int | None
    memory_total_mib: int | None
    temperature_c: int | None
    power_w: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A process that holds a GPU for computing. ``ours``: it belongs to the run."""

    pid: int
    name: str
    user: str
    devices: tuple[str, ...]
    ours: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GpusSeen:
    """The GPUs as nvidia-smi, the device files and ``/proc/*/fd`` show them.

    ``devices``: how many ``/dev/nvidia<N>`` there are; ``uvm``: whether
    ``/dev/nvidia-uvm`` is there; ``error``: nvidia-smi's first line when unreadable.
    """

    status: GpuStatus
    gpus: tuple[Gpu, ...]
    devices: int
    uvm: bool
    holders: tuple[Holder, ...]
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverSeen:
    """Versions of the NVIDIA driver.

    ``module``: the kernel's, which a container shares with its host; ``library``: the one
    that programs load there.
    """

    module: str | None
    library: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSeen:
    """A wanted file's place: what is there now.

    ``real_dest``: where the path leads. ``stored``: a blob with the wanted hash is kept
    on the target already. ``problem``: why it cannot be put there, if so (``directory``,
    ``unwritable``, ``no_parent``). ``text``: what is in it, where that was asked for, is
    another text than the wanted one, and short.
    """

    dest: str
    real_dest: str
    sha256: str | None
    mode: int | None
    stored: bool
    problem: str | None
    text: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointsSeen:
    """The checkpoint folder.

    Attributes:
        real_path: the path with its links resolved.
        exists: whether a directory is there.
        problem: why it may not be cleared, if so (`home`, `root`, `short`,
            `holds_state`, `holds_files`, `holds_archives`, `not_a_directory`,
            `unwritable`).
        mount_point: entries are moved within it instead of the folder being renamed.
        entries: all that a clearing would move, hidden files too.
        count: how many of them are checkpoints; ``complete`` of these.
        latest: the name of the newest complete one, at step ``latest_step``.
        latest_at: its modification time.
        size: bytes in all, links not followed; None when counting took too long.
    """

    path: str
    real_path: str
    exists: bool
    problem: str | None
    mount_point: bool
    entries: int
    count: int
    complete: int
    latest: str | None
    latest_step: int | None
    latest_at: float | None
    size: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskSeen:
    """Room on the filesystem that a path is (or would be) on."""

    path: str
    free: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSeen:
    """What came of a `Probe`: ``problem`` is None when all is well."""

    python: str
    version: str | None
    missing: tuple[str, ...]
    problem: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CutTransaction:
    """A transaction whose journal has no end and whose agent is gone."""

    id: str
    step: str
    at: float
    who: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LockSeen:
    """Who holds the target's lock."""

    who: str
    since: float
    transaction: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerSeen:
    """The newest detached bucket optimiser: at what, or how it ended.

    ``share``: how much of ``stage`` is done, 0 to 1; ``error``: the code of its complaint.
    """

    state: Literal["working", "done", "failed"]
    session: str
    started_at: float
    ended_at: float | None
    stage: str | None
    share: float | None
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSeen:
    """A run's progress, from what it printed; None where it never said.

    Attributes:
        at: when a metric was last seen; ``step_at``: when the step last grew.
        epoch, learning_rate, grad_norm, accuracy (a share), tokens (seen so far),
        tokens_per_s, steps_per_s, samples_per_s: the trainer's own words.
        loss_smoothed: the exponential mean over about 20 points.
        loss_trend, tokens_per_s_trend: means over equal stretches of the whole run.
        tokens_per_s_usual: the median over the whole run.
        padding_efficiency: real over padded tokens, the mean over the whole run.
        work_s: of a step its own work, the waiting for other processes left out; the
            exponential mean over about 20 points.
        measured_steps_per_s: of the last quarter of the run, pauses left out.
        eta_s: time left at the measured rate, with its spread from `eta_low_s` to
            `eta_high_s`; where no total is known, what the trainer says.
    """

    at: float
    step_at: float | None
    step: float | None
    total_steps: float | None
    epoch: float | None
    loss: float | None
    accuracy: float | None
    learning_rate: float | None
    grad_norm: float | None
    tokens_per_s: float | None
    steps_per_s: float | None
    samples_per_s: float | None
    tokens: float | None
    loss_smoothed: float | None
    loss_trend: tuple[float, ...]
    tokens_per_s_trend: tuple[float, ...]
    tokens_per_s_usual: float | None
    measured_steps_per_s: float | None
    eta_s: float | None
    eta_low_s: float | None
    eta_high_s: float | None
    padding_efficiency: float | None = None
    work_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictSeen:
    """Something that speaks against a run that is alive. ``since``: when it was first so."""

    code: str
    since: float | None
    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """One look: everything a plan or a status needs.

    Attributes:
        fingerprint: digests by subject (run, session, files, checkpoints). A commit is
            refused when one of them has changed.
        state: the job's state.
        terminal: the first terminal type that the target knows, of the operator's and
            a few common ones.
        metrics: the newest run's progress; None when it printed none.
        verdicts: what its metrics and its surroundings speak against it.
        problems: codes of what is wrong with the run's surroundings (``no_cwd``,
            ``no_user``).
        absent: those of the look's ``paths`` that are not there.
        forgettable: the oldest of many runs, which may be forgotten.
        dataset: the fingerprint of the data that the boundaries were made for, if asked.
        optimizer: the newest detached bucket optimiser of the job.
        driver: the NVIDIA driver's versions, if asked.
        restart: what the watchdog does about the newest run's failure, if anything.
        interfaces: the target's addresses, if asked.
    """

    fingerprint: dict[str, str]
    now: float
    hostname: str
    user: str
    boot_id: str
    state_dir: str
    python: str
    tmux: str | None
    scp: bool
    state: State
    run: RunSeen | None
    session: SessionSeen | None
    gpus: GpusSeen | None
    files: tuple[FileSeen, ...]
    checkpoints: CheckpointsSeen | None
    store: StoreSeen | None
    disks: tuple[DiskSeen, ...]
    probe: ProbeSeen | None
    cut: CutTransaction | None
    lock: LockSeen | None
    terminal: str | None
    problems: tuple[str, ...]
    absent: tuple[str, ...] = ()
    forgettable: tuple[str, ...] = ()
    dataset: str | None = None
    optimizer: OptimizerSeen | None = None
    metrics: MetricsSeen | None = None
    verdicts: tuple[VerdictSeen, ...] = ()
    driver: DriverSeen | None = None
    restart: RestartSeen | None = None
    interfaces: tuple[Interface, ...] = ()
