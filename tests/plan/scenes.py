"""Jobs and targets to plan for, whole and ordinary; a test changes what it is about."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from dflashctl.agent.protocol import Action, FileWanted
from dflashctl.agent.recorded import Facts, FileKept, RunRecord, Source
from dflashctl.agent.runs import release_id
from dflashctl.agent.seen import (
    CheckpointsSeen,
    DiskSeen,
    FileSeen,
    Gpu,
    GpusSeen,
    Holder,
    MetricsSeen,
    Observed,
    ProbeSeen,
    RunSeen,
    SessionSeen,
)
from dflashctl.inventory.model import Local, Target
from dflashctl.plan.model import Desired, Plan
from dflashctl.playbook.model import (
    CheckpointSpec,
    Playbook,
    PreflightSpec,
    PushedFile,
    ReadySpec,
    RunSpec,
    StopSpec,
)

GB = 1_000_000_000
OLD, NEW = "a" * 64, "b" * 64
TRAIN = FileWanted(dest="/root/train.py", sha256=NEW, size=2000, mode=0o644)
SCRIPT = FileWanted(dest="/root/start.sh", sha256="c" * 64, size=100, mode=0o755)
NOW = 1_795_867_560.0
RUN_ID = "2026-11-29T1206Z-dflash-k3f9"

PLAYBOOK = Playbook(
    path=Path("deploy.yml"),
    name="dflash",
    session="dflash",
    files=tuple(
        PushedFile(source=Path(file.dest).relative_to("/root"), dest=file.dest, mode=file.mode)
        for file in (TRAIN, SCRIPT)
    ),
    run=RunSpec(
        command=("bash", "/root/start.sh"),
        resume=None,
        cwd="/root",
        user=None,
        env_base="login",
        env={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
        env_file=None,
        env_from=("WANDB_API_KEY",),
        exit_codes={"75": "interrupted"},
    ),
    stop=StopSpec(),
    ready=ReadySpec(),
    preflight=PreflightSpec(gpus=8, free_space=20 * GB),
    checkpoints=CheckpointSpec(path="/workspace/checkpoints"),
)
TARGET = Target(name="kpro6/dflash", route=Local(), gpus=8)
DESIRED = Desired(
    playbook=PLAYBOOK,
    target=TARGET,
    files=(TRAIN, SCRIPT),
    secrets={"WANDB_API_KEY": "not to be seen"},
    run_id=RUN_ID,
)

METRICS = MetricsSeen(
    at=NOW - 1.0,
    step_at=NOW - 1.0,
    step=254.0,
    total_steps=2400.0,
    epoch=1.0,
    loss=4.6,
    accuracy=None,
    learning_rate=3e-4,
    grad_norm=None,
    tokens_per_s=25_100.0,
    steps_per_s=None,
    samples_per_s=None,
    tokens=None,
    loss_smoothed=4.58,
    loss_trend=(9.0, 6.5, 4.58),
    tokens_per_s_trend=(24_000.0, 25_100.0),
    tokens_per_s_usual=25_300.0,
    measured_steps_per_s=0.6,
    eta_s=3600.0,
    eta_low_s=3000.0,
    eta_high_s=4200.0,
)
RUNNING = RunSeen(
    id="2026-11-28T0900Z-dflash-a2b3",
    state="RUNNING",
    pid=4242,
    started_at=1_795_856_400.0,
    ended_at=None,
    exit_code=None,
    exit_name=None,
    signal=None,
    oom=None,
    stopped_by=None,
    rung=None,
    rebooted=False,
    processes=9,
    session="dflash",
    command=("bash", "/root/start.sh"),
    env={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
    release=release_id((TRAIN, SCRIPT), ("bash", "/root/start.sh")),
    started_by="ann@desk",
)
FAILED = replace(
    RUNNING,
    state="FAILED",
    ended_at=1_795_867_560.0,
    exit_code=1,
    exit_name="failed",
    processes=0,
)
# The run before RUNNING, with an older train.py.
EARLIER = replace(
    FAILED,
    id="2026-11-27T0800Z-dflash-zz77",
    started_at=1_795_766_400.0,
    ended_at=1_795_852_800.0,
    release="ba9876543210",
)
RECORD = RunRecord(
    now=NOW,
    run=EARLIER,
    cwd="/root",
    user=None,
    env_base="login",
    secrets=("WANDB_API_KEY",),
    signal="INT",
    grace_s=120.0,
    exit_codes={"75": "interrupted"},
    fresh=("bash", "/root/start.sh"),
    resume=None,
    files=(
        FileKept(dest="/root/train.py", sha256=OLD, size=1900, mode=0o644, kept=True),
        FileKept(dest="/root/start.sh", sha256=SCRIPT.sha256, size=100, mode=0o755, kept=True),
    ),
    source=Source(commit="f" * 40, branch="main", dirty=False, diff="", whole=True),
    facts=Facts(driver="570.124.06", gpus=("NVIDIA H200",) * 8, python="3.11.2", torch="2.9.1"),
    version="0.1.0",
    transaction="t-2026-11-27T0800Z-dflash-aaaa",
    resumed_from=None,
    checkpoints="/workspace/checkpoints",
    repeats=None,
    boundaries=None,
    metrics=None,
)
SESSION = SessionSeen(
    name="dflash",
    pane_pid=4240,
    created_at=1_795_856_400.0,
    attached=0,
    adopted=False,
    command="python3 supervise.py",
    processes=0,
)
BY_HAND = replace(SESSION, adopted=True, pane_pid=777, command="bash start.sh", processes=9)
STRANGER = Holder(
    pid=31337, name="python3", user="eve", devices=("/dev/nvidia0", "/dev/nvidia1"), ours=False
)


def placed(file: FileWanted, **changes: Any) -> FileSeen:
    """A file that is there as wanted, and kept as a blob."""
    seen = FileSeen(
        dest=file.dest,
        real_dest=file.dest,
        sha256=file.sha256,
        mode=file.mode,
        stored=True,
        problem=None,
    )
    return replace(seen, **changes)


def gpu(index: int, used_mib: int = 4) -> Gpu:
    return Gpu(
        index=index,
        name="NVIDIA H200",
        utilization_pct=0,
        memory_used_mib=used_mib,
        memory_total_mib=143_771,
        temperature_c=30,
        power_w=75.0,
    )


GPUS = GpusSeen(
    status="ok",
    gpus=tuple(gpu(index) for index in range(8)),
    devices=8,
    uvm=True,
    holders=(),
    error=None,
)
EMPTY = CheckpointsSeen(
    path="/workspace/checkpoints",
    real_path="/workspace/checkpoints",
    exists=True,
    problem=None,
    mount_point=False,
    entries=0,
    count=0,
    complete=0,
    latest=None,
    latest_step=None,
    latest_at=None,
    size=0,
)
SEVENTEEN = replace(
    EMPTY,
    entries=18,
    count=17,
    complete=17,
    latest="step-00003400",
    latest_step=3400,
    latest_at=1_795_860_000.0,
    size=41_200_000_000,
)
# Never started, everything ready for it, nothing of the playbook there yet.
BARE = Observed(
    fingerprint={},
    now=NOW,
    hostname="dflash",
    user="root",
    boot_id="b00t",
    state_dir="/root/.local/state/dflashctl",
    python="3.11.2",
    tmux="tmux 3.5a",
    scp=True,
    state="NONE",
    run=None,
    session=None,
    gpus=GPUS,
    files=tuple(placed(file, sha256=None, mode=None, stored=False) for file in (TRAIN, SCRIPT)),
    checkpoints=EMPTY,
    store=None,
    disks=(
        DiskSeen(path="/root/.local/state/dflashctl", free=100 * GB, total=200 * GB),
        DiskSeen(path="/root", free=100 * GB, total=200 * GB),
        DiskSeen(path="/workspace/checkpoints", free=900 * GB, total=2000 * GB),
    ),
    probe=None,
    cut=None,
    lock=None,
    terminal=None,
    problems=(),
)
DEPLOYED = replace(BARE, files=(placed(TRAIN), placed(SCRIPT)))
# Our run is alive and has written checkpoints; train.py has changed here since.
BUSY = replace(
    DEPLOYED,
    state="RUNNING",
    run=RUNNING,
    session=SESSION,
    files=(placed(TRAIN, sha256=OLD, stored=False), placed(SCRIPT)),
    checkpoints=SEVENTEEN,
)
ADOPTED = replace(BUSY, state="ADOPTED", run=None, session=BY_HAND)
OVER = replace(DEPLOYED, state="FAILED", run=FAILED, checkpoints=SEVENTEEN)


def with_run(**changes: Any) -> Desired:
    """The job with another ``run``."""
    assert PLAYBOOK.run
    return with_playbook(run=replace(PLAYBOOK.run, **changes))


def with_playbook(**changes: Any) -> Desired:
    """The job with another playbook."""
    return replace(DESIRED, playbook=replace(PLAYBOOK, **changes))


def actions(plan: Plan) -> list[str]:
    """The names of a plan's actions, in order."""
    return [type(step.action).__name__ for step in plan.steps]


def action(plan: Plan, kind: type[Any]) -> Any:
    """The one action of that kind."""
    found: list[Action] = [step.action for step in plan.steps if isinstance(step.action, kind)]
    assert len(found) == 1
    return found[0]


def said(plan: Plan, kind: type[Any]) -> tuple[str, str]:
    """What the plan says of the one step of that kind: what, and why."""
    step = next(step for step in plan.steps if isinstance(step.action, kind))
    return step.what, step.why


def codes(plan: Plan) -> list[str]:
    """The codes of a plan's refusals."""
    return [refusal.code for refusal in plan.refusals]


def probe(**changes: Any) -> ProbeSeen:
    seen = ProbeSeen(python="/root/venv/bin/python", version="3.11.2", missing=(), problem=None)
    return replace(seen, **changes)
