"""What speaks against a run: its curves and its surroundings judged, by pure functions.

`judge` is the same for a status and for the watchdog; `evidence` gathers what it judges.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from dflashctl.agent import curves
from dflashctl.agent.curves import in_words
from dflashctl.agent.lean import dataclass
from dflashctl.agent.seen import BucketsSeen, GpusSeen, VerdictSeen
from dflashctl.agent.series import HEARTBEAT_S, Progress, median

# GPUs are judged over a while: between two batches, and while a checkpoint is written, each
# of them rests.
GLANCES, GLANCES_S = 5, 240.0
IDLE_PCT, BUSY_PCT = 5.0, 60.0
OVERDUE_S, OVERDUE_GAPS = 600.0, 3.0
# The next checkpoint needs the room of one, and a little more.
ROOM = 1.1
# Bits of nvidia-smi's clocks_throttle_reasons.active that speak of heat: the hardware's and
# the driver's own.
THERMAL = 0x20 | 0x40


@dataclass(frozen=True, slots=True, kw_only=True)
class Glance:
    """The GPUs' use in percent at a moment, in their order; None where it was not told."""

    at: float
    use: tuple[int | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Xid:
    """An error that NVIDIA's driver wrote to the kernel's log: when, which GPU, its number."""

    at: float
    gpu: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is judged. Everything is of the newest run; what is unknown is None or empty.

    Attributes:
        live: the run's processes are there.
        vanished: it is over, nobody asked for that, and nobody recorded how.
        oom: the kernel has killed for want of memory since the run started.
        collecting: its collector lives; ``watching``: so does its watchdog, if it has one.
        glances: what earlier looks found, the oldest first.
        gpus_at_start: how many GPUs there were when it started.
        throttling: bits of the reasons why a GPU's clock is slowed down, by its index.
        saved_at: when each of its checkpoints was finished, the oldest first.
        checkpoint_bytes: what one takes, about.
        free_bytes: room for the next one.
        buckets: the boundaries that it was started with.
        apart: why the node cannot reach node 0 of its run, where it is one over several.
    """

    now: float
    live: bool
    vanished: bool = False
    oom: bool = False
    collecting: bool = True
    watching: bool = True
    progress: Progress | None = None
    gpus: GpusSeen | None = None
    glances: tuple[Glance, ...] = ()
    gpus_at_start: int = 0
    throttling: tuple[tuple[int, int], ...] = ()
    xids: tuple[Xid, ...] = ()
    saved_at: tuple[float, ...] = ()
    checkpoint_bytes: int | None = None
    free_bytes: int | None = None
    buckets: BucketsSeen | None = None
    apart: str | None = None


def judge(seen: Evidence) -> tuple[VerdictSeen, ...]:
    """Every verdict that the evidence gives, the gravest first."""
    if not seen.live:
        return tuple(_of_the_dead(seen))
    found = [*_progress(seen), *_gpus(seen), *_storage(seen)]
    if seen.apart is not None:
        found.insert(0, VerdictSeen(code="node_apart", since=None, evidence=seen.apart))
    if seen.oom:
        evidence = "the kernel has killed a process here for want of memory"
        found.insert(0, VerdictSeen(code="oom_kill", since=None, evidence=evidence))
    return tuple(found)


def _of_the_dead(seen: Evidence) -> Iterator[VerdictSeen]:
    if seen.oom:
        evidence = "the kernel ended it for want of memory"
        yield VerdictSeen(code="oom_kill", since=None, evidence=evidence)
    if seen.vanished:
        evidence = "the trainer is gone, and nobody recorded how"
        yield VerdictSeen(code="trainer_gone", since=None, evidence=evidence)


def _progress(seen: Evidence) -> Iterator[VerdictSeen]:
    progress = seen.progress
    if not seen.watching:
        evidence = "the watchdog is gone: nobody is told of what goes wrong"
        yield VerdictSeen(code="not_watched", since=None, evidence=evidence)
    if not seen.collecting:
        # What is not recorded any more says nothing of the trainer.
        since = progress.at if progress else None
        evidence = "the collector is gone: output and metrics are not recorded any more"
        yield VerdictSeen(code="not_recorded", since=since, evidence=evidence)
        return
    if progress is None:
        return
    if progress.problem is not None:
        evidence = {
            "pattern_too_slow": "the playbook's metrics.pattern takes too long over a line",
            "bad_pattern": "the target's Python cannot read the playbook's metrics.pattern",
        }.get(progress.problem, progress.problem)
        yield VerdictSeen(code="metrics_unread", since=None, evidence=evidence)
    found = (
        curves.stalled(progress, seen.now),
        curves.not_finite(progress),
        curves.spike(progress),
        curves.falling_accuracy(progress),
        curves.oscillation(progress),
        curves.slow(progress, seen.buckets),
        curves.buckets_off(progress, seen.buckets),
    )
    yield from (verdict for verdict in found if verdict is not None)


def _gpus(seen: Evidence) -> Iterator[VerdictSeen]:
    gpus = seen.gpus
    if gpus is not None and gpus.status == "ok" and len(gpus.gpus) < seen.gpus_at_start:
        evidence = f"{len(gpus.gpus)} GPUs answer; there were {seen.gpus_at_start} at the start"
        if seen.xids:
            evidence += f"; the driver says Xid {seen.xids[-1].number} of {seen.xids[-1].gpu}"
        yield VerdictSeen(code="gpu_lost", since=_last_xid(seen), evidence=evidence)
    elif seen.xids:
        last = seen.xids[-1]
        evidence = f"the driver reports Xid {last.number} of {last.gpu} in the kernel's log"
        yield VerdictSeen(code="gpu_error", since=last.at, evidence=evidence)
    hot = [index for index, bits in seen.throttling if bits & THERMAL]
    if hot:
        which = ", ".join(map(str, hot))
        evidence = f"heat slows down GPU {which}"
        yield VerdictSeen(code="gpu_throttled", since=None, evidence=evidence)
    yield from _use(seen)


def _last_xid(seen: Evidence) -> float | None:
    return seen.xids[-1].at if seen.xids else None


def _use(seen: Evidence) -> Iterator[VerdictSeen]:
    """Idle and ill-balanced GPUs, while the steps go on."""
    glances = [one for one in seen.glances if seen.now - one.at <= 2 * GLANCES_S]
    spans = glances[-1].at - glances[0].at if glances else 0.0
    if len(glances) < GLANCES or spans < GLANCES_S or not _goes_on(seen):
        return
    columns = list(zip(*(one.use for one in glances), strict=False))
    rows = [[value for value in column if value is not None] for column in columns]
    if not rows or any(len(row) < GLANCES for row in rows):
        return
    since = glances[0].at
    idle = [index for index, row in enumerate(rows) if max(row) <= IDLE_PCT]
    if idle:
        which = "all GPUs" if len(idle) == len(rows) else f"GPU {', '.join(map(str, idle))}"
        evidence = f"{which} idle for {in_words(spans)} while the steps go on"
        yield VerdictSeen(code="gpus_idle", since=since, evidence=evidence)
        return
    means = [sum(row) / len(row) for row in rows]
    usual = median(means)
    low = [index for index, mean in enumerate(means) if mean < usual / 2]
    if usual >= BUSY_PCT and low:
        which = ", ".join(f"GPU {index} {means[index]:.0f}%" for index in low)
        evidence = f"{which}, where {usual:.0f}% is usual, over {in_words(spans)}"
        yield VerdictSeen(code="gpu_imbalance", since=since, evidence=evidence)


def _goes_on(seen: Evidence) -> bool:
    """Whether steps were made at most two usual times ago."""
    progress = seen.progress
    if progress is None or progress.step_at is None or progress.gap_s is None:
        return False
    return seen.now - progress.step_at <= 2 * progress.gap_s + HEARTBEAT_S


def _storage(seen: Evidence) -> Iterator[VerdictSeen]:
    size, free = seen.checkpoint_bytes, seen.free_bytes
    if size and free is not None and free < ROOM * size:
        evidence = f"{free / 1e9:.1f} GB free; a checkpoint takes {size / 1e9:.1f} GB"
        yield VerdictSeen(code="disk_full_soon", since=None, evidence=evidence)
    if len(seen.saved_at) < 3:
        return
    gaps = [later - earlier for earlier, later in pairwise(seen.saved_at)]
    usual, since = median(gaps), seen.now - seen.saved_at[-1]
    if since > max(OVERDUE_S, OVERDUE_GAPS * usual, max(gaps) * 2):
        evidence = (
            f"the last checkpoint was saved {in_words(since)} ago; "
            f"usually there is one every {in_words(usual)}"
        )
        due = seen.saved_at[-1] + usual
        yield VerdictSeen(code="checkpoint_overdue", since=due, evidence=evidence)
