"""What the memory cgroup tells: how often the kernel killed for want of memory (v1 and v2)."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")


def oom_kills(own: Path = Path("/proc/self/cgroup"), root: Path = _ROOT) -> int | None:
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
                    return _count(place.read_text(encoding="ascii"))
    return None


def killed_since(before: int | None) -> bool | None:
    """Whether the kernel has killed here for want of memory since ``before`` was counted."""
    now = oom_kills()
    return None if before is None or now is None else now > before


def _count(text: str) -> int:
    pairs = dict(line.split() for line in text.splitlines() if len(line.split()) == 2)
    return int(pairs["oom_kill"])
