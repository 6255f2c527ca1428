"""What the memory cgroup tells: how often the kernel killed for want of memory (v1 and v2)."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_ROOT = Path("/sys/fs/cgroup")


class Kills(NamedTuple):
    """How many memory kills a file of the cgroup tells of."""

    file: str
    number: int


def kills(own: Path = Path("/proc/self/cgroup"), root: Path = _ROOT) -> Kills | None:
    """Memory kills in our cgroup since it exists; None where that cannot be read."""
    with suppress(OSError, ValueError):
        for line in own.read_text(encoding="utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == "":
                places = [root / path.lstrip("/") / "memory.events", root / "memory.events"]
            elif "memory" in controllers.split(","):
                folder = root / "memory"
                places = [folder / path.lstrip("/") / "memory.oom_control",
                          folder / "memory.oom_control"]  # fmt: skip
            else:
                continue
            for place in places:
                with suppress(OSError):
                    return Kills(str(place), _count(place.read_text(encoding="ascii")))
    return None


def killed_since(before: Kills | None) -> bool | None:
    """Whether the kernel has killed there for want of memory since ``before`` was counted."""
    if before is not None:
        with suppress(OSError, ValueError, KeyError):
            return _count(Path(before.file).read_text(encoding="ascii")) > before.number
    return None


def _count(text: str) -> int:
    pairs = dict(line.split() for line in text.splitlines() if len(line.split()) == 2)
    return int(pairs["oom_kill"])
