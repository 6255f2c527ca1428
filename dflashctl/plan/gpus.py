"""Whether a new run would get the GPUs that it is meant to have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dflashctl.errors import Internal, Refusal
from dflashctl.plan import words
from dflashctl.plan.steps import lives

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dflashctl.agent.seen import GpusSeen, Holder, Observed
    from dflashctl.plan.model import Desired

# What an idle driver may take of a GPU's memory, in MiB; more is somebody's.
IDLE_MIB = 1024


def gpu_refusals(desired: Desired, seen: Observed) -> Iterator[Refusal]:
    """Too few GPUs, GPUs that do not answer, and GPUs that somebody else holds.

    Nobody else may hold one even if no number is asked for; ``preflight.gpus: 0`` says
    that the job uses none, and then nothing about them matters.
    """
    asked, declared = desired.playbook.preflight.gpus, desired.target.gpus
    if asked == 0:
        return
    gpus = seen.gpus
    if gpus is None:
        raise Internal(what="the look left out the GPUs")
    wanted = max(asked or 0, declared or 0)
    if wanted:
        yield from _answering(gpus, wanted)
    for holder in gpus.holders:
        if not holder.ours:
            yield _stranger(holder)
    if wanted and not gpus.holders and not lives(seen):
        yield from _held_from_outside(gpus)


def _answering(gpus: GpusSeen, wanted: int) -> Iterator[Refusal]:
    match gpus.status:
        case "unresponsive":
            yield Refusal(
                code="gpus_unresponsive",
                message="nvidia-smi does not answer; a restart could not get the GPUs",
                remedy="look at the machine's kernel log (dmesg, Xid); "
                "a hung driver needs a reset or a reboot",
            )
        case "unreadable":
            error = f" ({gpus.error})" if gpus.error else ""
            yield Refusal(
                code="gpus_unreadable",
                message=f"nvidia-smi fails{error}; a restart could not get the GPUs",
                remedy="restart the container if the host reloaded its devices; "
                "compare the driver's version in it and on the host",
            )
        case "absent" | "ok":
            count = len(gpus.gpus)
            if count < wanted:
                yield Refusal(
                    code="gpus_missing",
                    message=f"{words.counted(count, 'GPU') if count else 'no GPU'} there, "
                    f"{wanted} wanted (preflight.gpus, or gpus in the inventory)",
                    remedy="run nvidia-smi -L on the target and on its host, "
                    "and compare with the devices that the container is given",
                )
    if gpus.status != "absent" and not gpus.uvm:
        yield Refusal(
            code="no_uvm",
            message="/dev/nvidia-uvm is missing, and nothing can compute without it",
            remedy="on the machine itself: nvidia-modprobe -u -c=0; "
            "then pass the device into the container",
        )


def _stranger(holder: Holder) -> Refusal:
    devices = words.listed(holder.devices) or "a GPU"
    return Refusal(
        code="gpu_held",
        message=f"{holder.name} (pid {holder.pid}, user {holder.user}) holds {devices}, "
        "and is no part of this job",
        remedy="have its owner stop it: dflashctl ends only what it started and what runs "
        "in the job's own session; or set preflight.gpus: 0 if the job uses no GPU",
    )


def _held_from_outside(gpus: GpusSeen) -> Iterator[Refusal]:
    used = {gpu.index: gpu.memory_used_mib or 0 for gpu in gpus.gpus}
    held = tuple(f"GPU {index} ({mib} MiB)" for index, mib in used.items() if mib > IDLE_MIB)
    if held:
        yield Refusal(
            code="gpu_held",
            message=f"memory of {words.listed(held)} is held by something outside this container",
            remedy="run nvidia-smi on the host to see who: nothing that shows here holds it",
        )
