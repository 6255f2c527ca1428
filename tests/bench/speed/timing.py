"""Programs run to their end, in turns, and what a figure of many runs is."""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One run of a program.

    Attributes:
        wall_s: from its start to its end.
        cpu_s: its own processor time on this machine, with that of its children.
        peak_kib: the most memory that one of them had.
        round_trips: the longest chain of messages that waited for one another, through the
            proxy; 0 where none was on the way.
        sent: bytes to the host; ``received``: from it.
        pct: how often the host's ``pct`` was started.
        errors: its standard error.
    """

    wall_s: float
    cpu_s: float
    peak_kib: int
    round_trips: float = 0.0
    sent: int = 0
    received: int = 0
    pct: int = 0
    errors: str = ""


class Failed(Exception):
    """A program that was to be measured did not do its work."""


def run(
    words: Sequence[str],
    environ: Mapping[str, str],
    *,
    codes: Sequence[int] = (0,),
    cwd: Path | None = None,
) -> Sample:
    """Run it and measure. Its memory reads as ours at least, as it begins as our copy.

    Raises:
        Failed: it ended with another code than those.
    """
    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as errors:
        began = time.perf_counter()
        child = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=said, stderr=errors, env=environ, cwd=cwd
        )
        _, status, used = os.wait4(child.pid, 0)
        wall = time.perf_counter() - began
        child.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        errors.seek(0)
        told = errors.read().decode(errors="replace")
        if child.returncode not in codes:
            out = said.read().decode(errors="replace")
            raise Failed(f"{' '.join(words)}: exit {child.returncode}\n{out[-2000:]}{told[-2000:]}")
    return Sample(
        wall_s=wall, cpu_s=used.ru_utime + used.ru_stime, peak_kib=used.ru_maxrss, errors=told
    )


@dataclass(frozen=True, slots=True)
class Samples:
    """What the runs of one way gave, by the round trip's length in seconds."""

    by_delay: dict[float, list[Sample]] = field(default_factory=dict)

    def add(self, delay_s: float, sample: Sample) -> None:
        """One more."""
        self.by_delay.setdefault(delay_s, []).append(sample)

    def seconds(self, delay_s: float) -> float:
        """The median of the times."""
        return statistics.median(one.wall_s for one in self.by_delay[delay_s])

    def slope(self) -> float:
        """How many round trips the time grows by: least squares over the medians."""
        delays = sorted(self.by_delay)
        return statistics.linear_regression(delays, [self.seconds(one) for one in delays]).slope

    def least(self, value: Callable[[Sample], float]) -> float:
        """The least of all runs: what is counted can only be more by an accident."""
        return min(value(one) for runs in self.by_delay.values() for one in runs)

    def most(self, value: Callable[[Sample], float]) -> float:
        """The most of all runs."""
        return max(value(one) for runs in self.by_delay.values() for one in runs)


def ratio(one: Samples, other: Samples, delay_s: float) -> float:
    """How much longer one takes than the other: the medians' quotient."""
    return one.seconds(delay_s) / other.seconds(delay_s)


def in_turns(
    ways: Mapping[str, Callable[[float], Sample]], delays: Sequence[float], runs: int
) -> dict[str, Samples]:
    """Each way so often at each delay, ABAB: what else the machine does hits all alike."""
    measured = {name: Samples() for name in ways}
    for _ in range(runs):
        for delay_s in delays:
            for name, once in ways.items():
                measured[name].add(delay_s, once(delay_s))
    return measured
