"""GPUs in a status: a line for each, or all of them in two."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from dflashctl.view import figures
from dflashctl.view.metrics import bar

if TYPE_CHECKING:
    from dflashctl.agent.seen import Gpu, Observed


def gpu_lines(seen: Observed) -> list[str]:
    """The GPUs' names, and a line for each."""
    gpus = seen.gpus
    if gpus is None or gpus.status == "absent":
        return ["none"]
    if gpus.status == "unresponsive":
        return ["not responding"]
    if gpus.status == "unreadable":
        return [f"unreadable: {gpus.error}" if gpus.error else "unreadable"]
    names = Counter(gpu.name for gpu in gpus.gpus)
    return [
        ", ".join(f"{count}x {name}" for name, count in names.items()),
        *(
            f"{gpu.index}  {_use(gpu)} {_figure(gpu.utilization_pct, '%'):>4} "
            f"{_memory((gpu,)):>11} "
            f"{_figure(gpu.temperature_c, ' °C'):>6} {_figure(gpu.power_w, ' W'):>6}"
            for gpu in gpus.gpus
        ),
    ]


def _use(gpu: Gpu) -> str:
    return bar(None if gpu.utilization_pct is None else gpu.utilization_pct / 100)


def _figure(value: float | None, unit: str) -> str:
    return figures.UNKNOWN if value is None else f"{value:.0f}{unit}"


def _memory(gpus: tuple[Gpu, ...]) -> str:
    used = [gpu.memory_used_mib for gpu in gpus if gpu.memory_used_mib is not None]
    total = [gpu.memory_total_mib for gpu in gpus if gpu.memory_total_mib is not None]
    if len(used) < len(gpus) or len(total) < len(gpus):
        return figures.UNKNOWN
    return f"{sum(used) / 1024:.0f}/{sum(total) / 1024:.0f} GiB"


def gpus_in_short(seen: Observed) -> list[str]:
    """All GPUs in two lines: mean use, memory in all, the hottest, power in all."""
    if seen.gpus is None or seen.gpus.status != "ok" or not seen.gpus.gpus:
        return gpu_lines(seen)[:1]
    gpus = seen.gpus.gpus
    use = [gpu.utilization_pct for gpu in gpus if gpu.utilization_pct is not None]
    heat = [gpu.temperature_c for gpu in gpus if gpu.temperature_c is not None]
    power = [gpu.power_w for gpu in gpus if gpu.power_w is not None]
    return [
        f"{len(gpus)}x {_figure(sum(use) / len(use) if use else None, '%')} {_memory(gpus)}",
        f"{_figure(max(heat, default=None), ' °C')} {_figure(sum(power) if power else None, ' W')}",
    ]
