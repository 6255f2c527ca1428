"""Gathers what the verdicts are judged from: records, GPUs, checkpoints, the kernel's word."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from dflashctl.agent import cgroup, network, process
from dflashctl.agent.records import RunFolder, read_json
from dflashctl.agent.seen import LIVE_STATES, CheckpointsSeen, GpusSeen, RunSeen
from dflashctl.agent.series import Progress
from dflashctl.agent.verdicts import GLANCES_S, Evidence, Glance, Xid

KEPT = 40
# Looks closer than this are one.
APART_S = 10.0
HOT_C = 80
THROTTLE_S = 4.0
# How long node 0 may take to answer, and how long after the start nobody need listen there.
ANSWER_S, GATHER_S = 1.5, 120.0
KERNEL_LOG = Path("/dev/kmsg")
_XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): (\d+)")


def evidence(
    folder: RunFolder,
    run: RunSeen,
    progress: Progress | None,
    gpus: GpusSeen | None,
    store: CheckpointsSeen | None,
    free: int | None,
) -> Evidence:
    """All that is to be judged of a run; ``free``: bytes for its checkpoints."""
    live = run.state in LIVE_STATES
    started = read_json(folder.process) or {}
    vanished = run.state == "FAILED" and run.ended_at is None
    if not live:
        return Evidence(now=time.time(), live=False, vanished=vanished, oom=bool(run.oom))
    answered = gpus is not None and gpus.status == "ok"
    collecting = _lives((read_json(folder.state) or {}).get("collector"))
    watching = _lives((read_json(folder.watchdog) or {}).get("process"))
    # Both end with the run; so that one which ended meanwhile is no reproach, its end is
    # looked for after them.
    ended = folder.exit.exists()
    return Evidence(
        now=time.time(),
        live=True,
        oom=_killed(started),
        collecting=collecting or ended,
        watching=watching or ended,
        progress=progress,
        gpus=gpus,
        glances=_glances(folder, gpus if answered else None),
        gpus_at_start=_gpus_at_start(folder),
        throttling=_throttling(gpus) if gpus and answered else (),
        xids=xids(KERNEL_LOG, run.started_at) if answered else (),
        saved_at=_saved_at(store, run.started_at),
        checkpoint_bytes=store.size // store.count
        if store and store.size and store.count
        else None,
        free_bytes=free,
        buckets=run.buckets,
        apart=_apart(run),
    )


def _apart(run: RunSeen) -> str | None:
    """Whether node 0 of a run over several can be reached from here, as torchrun has to."""
    node = run.node
    if node is None or node.rank == 0 or node.master is None or node.address is None:
        return None
    error = network.reach(node.master, node.port, node.address, ANSWER_S)
    young = time.time() - run.started_at < GATHER_S
    if error is None or (young and isinstance(error, ConnectionRefusedError)):
        return None
    return (
        f"{node.names[node.rank]} ({node.address} on {node.interface}) cannot reach "
        f"{node.names[0]} at {node.master}, port {node.port}: {network.words(error)}"
    )


def _killed(started: dict[str, Any]) -> bool:
    counted = started.get("oom_kills")
    return bool(cgroup.killed_since(cgroup.Kills(*counted) if counted else None))


def _lives(recorded: object) -> bool:
    """Whether a process on record lives; of one that left no record nothing is said."""
    with suppress(TypeError):
        return not isinstance(recorded, list) or process.is_alive(process.Process(*recorded))
    return True


def _gpus_at_start(folder: RunFolder) -> int:
    names = (read_json(folder.facts) or {}).get("gpus")
    return len(names) if isinstance(names, list) else 0


def _glances(folder: RunFolder, gpus: GpusSeen | None) -> tuple[Glance, ...]:
    """What this look and earlier ones found, kept beside the run."""
    path, now = folder.path / "glances.json", time.time()
    kept = []
    with suppress(TypeError, KeyError, ValueError):
        rows = (read_json(path) or {}).get("glances", [])
        kept = [Glance(at=row[0], use=tuple(row[1])) for row in rows]
    recent = [one for one in kept if now - 2 * GLANCES_S <= one.at <= now][-KEPT:]
    if gpus is None or (recent and now - recent[-1].at < APART_S):
        return tuple(recent)
    recent.append(Glance(at=now, use=tuple(gpu.utilization_pct for gpu in gpus.gpus)))
    text = json.dumps({"glances": [[one.at, one.use] for one in recent]})
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    with suppress(OSError):
        temporary.write_text(text)
        temporary.replace(path)
    return tuple(recent)


def _throttling(gpus: GpusSeen) -> tuple[tuple[int, int], ...]:
    """Why clocks are slowed down, asked only when a GPU is hot; drivers differ in words."""
    if max((gpu.temperature_c or 0 for gpu in gpus.gpus), default=0) < HOT_C:
        return ()
    words = ("nvidia-smi", "--query-gpu=index,clocks_throttle_reasons.active",
             "--format=csv,noheader,nounits")  # fmt: skip
    with suppress(OSError, subprocess.SubprocessError, ValueError):
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=THROTTLE_S, check=True, start_new_session=True,
        )  # fmt: skip
        rows = [line.split(",") for line in done.stdout.splitlines() if line.strip()]
        return tuple((int(index), int(bits.strip(), 16)) for index, bits in rows)
    return ()


def xids(log: Path, since: float) -> tuple[Xid, ...]:
    """NVIDIA's errors in the kernel's log since a moment; none where it cannot be read."""
    found = []
    with suppress(OSError):
        handle = os.open(log, os.O_RDONLY | os.O_NONBLOCK)
        try:
            booted = time.time() - time.clock_gettime(time.CLOCK_MONOTONIC)
            while record := _record(handle):
                match = _XID.search(record)
                stamp = record.split(",")[2:3]
                if match and stamp and stamp[0].isdigit():
                    at = booted + int(stamp[0]) / 1e6
                    if at >= since:
                        found.append(Xid(at=at, gpu=match[1], number=int(match[2])))
        finally:
            os.close(handle)
    return tuple(found)


def _record(handle: int) -> str:
    """One record of the kernel's log; those that were overwritten meanwhile are passed over."""
    while True:
        try:
            return os.read(handle, 8192).decode("utf-8", "replace")
        except BrokenPipeError:
            continue
        except BlockingIOError:
            return ""


def _saved_at(store: CheckpointsSeen | None, since: float) -> tuple[float, ...]:
    """When the newest few checkpoints of this run were last written to."""
    times = []
    if store is not None and store.exists:
        with suppress(OSError), os.scandir(store.real_path) as entries:
            for entry in entries:
                with suppress(OSError):
                    if not entry.name.startswith("."):
                        times.append(entry.stat(follow_symlinks=False).st_mtime)
    return tuple(sorted(at for at in times if at >= since)[-4:])
