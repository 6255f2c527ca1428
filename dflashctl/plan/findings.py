"""What a look at a target is worth, check by check: evidence, and a remedy where one is due."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from dflashctl.plan import words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dflashctl.agent.seen import GpusSeen, Observed
    from dflashctl.inventory.model import Target

Grade = Literal["ok", "warning", "problem", "unchecked"]
# Clocks further apart make the times of two machines hard to read together.
_SKEW_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One check. ``check`` names it; ``remedy`` is empty where nothing is to be done."""

    check: str
    grade: Grade
    evidence: str
    remedy: str = ""


def skew(there: float, before: float, after: float) -> float:
    """How far a clock that was read between two moments of ours is off, at the least, in s."""
    if there < before:
        return there - before
    return max(0.0, there - after)


def target_findings(target: Target, seen: Observed, skew_s: float) -> tuple[Finding, ...]:
    """What was declared of a target beside what is there, and what any job needs."""
    return (
        *_gpus(target.gpus, seen.gpus),
        _driver(seen),
        Finding(check="python", grade="ok", evidence=f"{target.python} is {seen.python}"),
        _tmux(seen),
        _clock(skew_s),
    )


def has_problem(findings: tuple[Finding, ...]) -> bool:
    """Whether one of them is a problem."""
    return any(finding.grade == "problem" for finding in findings)


def _gpus(declared: int | None, gpus: GpusSeen | None) -> Iterator[Finding]:
    if gpus is None:
        yield Finding(check="GPUs", grade="unchecked", evidence="nobody asked nvidia-smi")
        return
    yield _count(declared, gpus)
    if gpus.status == "absent" and not gpus.devices:
        yield Finding(check="uvm", grade="unchecked", evidence="there is no GPU")
    elif gpus.uvm:
        yield Finding(check="uvm", grade="ok", evidence="/dev/nvidia-uvm is there")
    else:
        yield Finding(
            check="uvm",
            grade="problem",
            evidence="/dev/nvidia-uvm is missing, and nothing can compute without it",
            remedy="on the machine itself: nvidia-modprobe -u -c=0; "
            "then pass the device into the container",
        )


def _count(declared: int | None, gpus: GpusSeen) -> Finding:
    said = "none declared" if declared is None else f"{declared} declared"
    match gpus.status:
        case "ok":
            found = len(gpus.gpus)
            names = words.listed(words.tally(tuple(gpu.name for gpu in gpus.gpus))) or "no GPU"
            evidence = f"{names}; {said}"
            if declared is None or found == declared:
                return Finding(check="GPUs", grade="ok", evidence=evidence)
            if found > declared:
                remedy = f"set gpus: {found} in the inventory, if all of them are meant"
                return Finding(check="GPUs", grade="warning", evidence=evidence, remedy=remedy)
            remedy = (
                "run nvidia-smi -L there and on its host, and compare with the devices that "
                "the container is given; or correct gpus in the inventory"
            )
            return Finding(check="GPUs", grade="problem", evidence=evidence, remedy=remedy)
        case "unresponsive":
            return Finding(
                check="GPUs",
                grade="problem",
                evidence=f"nvidia-smi does not answer; {said}",
                remedy="look at the machine's kernel log (dmesg, Xid); "
                "a hung driver needs a reset or a reboot",
            )
        case "unreadable":
            return Finding(
                check="GPUs",
                grade="problem",
                evidence=f"nvidia-smi fails: {gpus.error or 'it says nothing'}; {said}",
                remedy="restart the container if the host reloaded its devices; "
                "compare the driver's version in it and on the host",
            )
        case "absent":
            return _without_nvidia_smi(declared, gpus.devices, said)


def _without_nvidia_smi(declared: int | None, devices: int, said: str) -> Finding:
    if not declared and not devices:
        return Finding(check="GPUs", grade="ok", evidence=f"no GPU; {said}")
    if not devices:
        return Finding(
            check="GPUs",
            grade="problem",
            evidence=f"no GPU shows: no /dev/nvidia0, no nvidia-smi; {said}",
            remedy="give the container its devices and start it anew, or correct gpus in the "
            "inventory; on the host, nvidia-smi -L shows what there is to give",
        )
    return Finding(
        check="GPUs",
        grade="problem",
        evidence=f"{words.counted(devices, 'GPU device')}, but no nvidia-smi; {said}",
        remedy="install the driver's programs there, of the version that the host has, or add "
        "their folder to path of the target in the inventory",
    )


def _driver(seen: Observed) -> Finding:
    driver = seen.driver
    if driver is None or (driver.module is None and driver.library is None):
        return Finding(check="driver", grade="unchecked", evidence="no NVIDIA driver shows there")
    module, library = driver.module or "unknown", driver.library or "unknown"
    evidence = f"on the host (kernel module) {module}, here (library) {library}"
    if driver.module is None or driver.library is None:
        return Finding(check="driver", grade="unchecked", evidence=evidence)
    if module == library:
        return Finding(check="driver", grade="ok", evidence=f"{module}, as on the host")
    return Finding(
        check="driver",
        grade="problem",
        evidence=evidence,
        remedy=f"install the libraries of {module} there; if the host was upgraded just now, "
        "reboot it first",
    )


def _tmux(seen: Observed) -> Finding:
    if seen.tmux is not None:
        return Finding(check="tmux", grade="ok", evidence=f"tmux {seen.tmux}")
    return Finding(
        check="tmux",
        grade="problem",
        evidence="there is no tmux",
        remedy="install it there (Debian: apt install tmux), or add its folder to path of the "
        "target in the inventory",
    )


def _clock(skew_s: float) -> Finding:
    if abs(skew_s) < _SKEW_S:
        return Finding(check="clock", grade="ok", evidence="as here, within a few seconds")
    return Finding(
        check="clock",
        grade="warning",
        evidence=f"{abs(skew_s):.0f} s {'ahead of' if skew_s > 0 else 'behind'} this machine's",
        remedy="let both keep time (timedatectl set-ntp true); a container has its host's clock",
    )
