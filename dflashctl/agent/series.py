"""A run's metrics so far in a size that does not grow: what ``state.json`` holds.

The collector writes ``state.json`` into the run's folder, whole and by a rename, at most
once a second and at least every `HEARTBEAT_S` while it lives::

    {"version": 1,
     "collector": [pid, start],   who writes this (`process.Process`)
     "at": 1764417960.5,          when it was written: the heartbeat
     "lines": 8123,               lines that the trainer has printed
     "printed_at": 1764417960.1,  when it last printed anything; null: never
     "problem": null,             why metrics are not read any more (``pattern_too_slow``)
     "last": {"step": 254, "total_steps": 2400, "epoch": 1, "loss": 4.6, "accuracy": ...,
              "learning_rate": ..., "grad_norm": ..., "tokens_per_s": 25100.0,
              "steps_per_s": ..., "samples_per_s": ..., "tokens": ..., "eta_s": ...},
     "last_at": ...,              when a metric was last seen; null: never
     "step_at": ...,              when the step last grew; null: never
     "gap_s": 2.1,                usual time between two looks at a growing step (median)
     "pauses_s": [61.0, 58.2],    the longest and the second longest such time
     "loss_smoothed": 4.58,       exponential mean over about 20 points
     "not_finite": null,          {"metric", "step", "at", "count"}: since the last finite one
     "efficiency": [0.77, 120],   mean padding efficiency, of how many points; null: never said
     "work_s": [0.21, 120],       exponential mean over about 20 points, of how many; or null
     "recent": [[at, step, loss, accuracy, tokens_per_s], ...],     the last `RECENT` seconds
                                  that had points; of several in a second the highest loss
     "bins": [[at, step, points, steps, busy_s, loss, accuracy, tokens_per_s], ...]}
                                  the whole run in at most `BINS` equal parts

In ``last`` only what was seen is present, as last seen; a value that is no finite number is
None. ``tokens_per_s`` and ``steps_per_s`` there are the trainer's own words; the measured
rate is ``steps / busy_s`` of the bins, which leaves pauses out. Times are seconds since the
epoch.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from dflashctl.agent.metrics import METRICS, Values
from dflashctl.agent.process import Process
from dflashctl.agent.seen import MetricsSeen

HEARTBEAT_S = 5.0
RECENT = 240
BINS = 128
# A step that takes this many times the usual is a pause and not a slow step.
PAUSE = 10.0
TREND = 30
# A mean of fewer points says little.
STEADY = 20
_SMOOTHING = 2 / 21


@dataclass(slots=True, kw_only=True)
class Bin:
    """A stretch of the run: where it ends, and means over its points."""

    at: float
    step: float | None
    points: int = 1
    steps: float = 0.0
    busy_s: float = 0.0
    loss: float | None = None
    accuracy: float | None = None
    tokens_per_s: float | None = None

    def absorb(self, later: Bin) -> None:
        """Take in the stretch that follows."""
        share = later.points / (self.points + later.points)
        for name in ("loss", "accuracy", "tokens_per_s"):
            mine, other = getattr(self, name), getattr(later, name)
            if mine is None or other is None:
                setattr(self, name, other if mine is None else mine)
            else:
                setattr(self, name, mine + (other - mine) * share)
        self.at, self.step = later.at, later.step
        self.points += later.points
        self.steps += later.steps
        self.busy_s += later.busy_s

    def row(self) -> list[Any]:
        """As it stands in ``state.json``."""
        return [round(self.at, 3), self.step, self.points, self.steps, round(self.busy_s, 3),
                _short(self.loss), _short(self.accuracy), _short(self.tokens_per_s)]  # fmt: skip

    @staticmethod
    def of_row(row: Sequence[Any]) -> Bin:
        """From ``state.json``."""
        at, step, points, steps, busy_s, loss, accuracy, tokens_per_s = row
        return Bin(at=at, step=step, points=points, steps=steps, busy_s=busy_s, loss=loss,
                   accuracy=accuracy, tokens_per_s=tokens_per_s)  # fmt: skip


class Series:
    """Takes in points, one after another; `state` is what is known so far."""

    def __init__(self) -> None:
        self._last: dict[str, float | None] = {}
        self._last_at: float | None = None
        self._step_at: float | None = None
        self._smoothed: float | None = None
        self._not_finite: dict[str, Any] | None = None
        self._efficiency: tuple[float, int] | None = None
        self._work_s: tuple[float, int] | None = None
        self._recent: deque[list[float | None]] = deque(maxlen=RECENT)
        self._gaps: deque[float] = deque(maxlen=63)
        self._paces: deque[float] = deque(maxlen=63)
        self._pauses = [0.0, 0.0]
        self._bins: list[Bin] = []
        self._each = 1

    def add(self, at: float, point: Values) -> None:
        """A point that was printed at this moment."""
        before = self._last.get("step")
        for name in METRICS:
            if name in point:
                value = point[name]
                self._last[name] = value if math.isfinite(value) else None
        self._last_at = at
        self._judge_finite(at, point)
        loss = _finite(point.get("loss"))
        if loss is not None:
            old = self._smoothed
            self._smoothed = loss if old is None else old + (loss - old) * _SMOOTHING
        work_s = _finite(point.get("work_s"))
        if work_s is not None:
            mean, count = self._work_s or (work_s, 0)
            self._work_s = mean + (work_s - mean) * _SMOOTHING, count + 1
        steps, busy_s = self._advance(at, before, point.get("step"))
        speed = _finite(point.get("tokens_per_s"))
        accuracy = _finite(point.get("accuracy"))
        efficiency = _finite(point.get("padding_efficiency"))
        if efficiency is not None:
            mean, count = self._efficiency or (0.0, 0)
            self._efficiency = mean + (efficiency - mean) / (count + 1), count + 1
        step = self._last.get("step")
        self._remember([at, step, loss, accuracy, speed])
        self._bin(Bin(at=at, step=step, steps=steps, busy_s=busy_s, loss=loss,
                      accuracy=accuracy, tokens_per_s=speed))  # fmt: skip

    def _remember(self, row: list[float | None]) -> None:
        last = self._recent[-1] if self._recent else None
        if last is None or abs((row[0] or 0.0) - (last[0] or 0.0)) >= 1.0:
            self._recent.append(row)
            return
        losses = [loss for loss in (last[2], row[2]) if loss is not None]
        last[1] = row[1]
        last[2] = max(losses, default=None)
        last[3:] = [old if new is None else new for old, new in zip(last[3:], row[3:], strict=True)]

    def state(self) -> dict[str, Any]:
        """The part of ``state.json`` that is about metrics."""
        return {
            "last": self._last,
            "last_at": self._last_at,
            "step_at": self._step_at,
            "gap_s": median(self._gaps) if self._gaps else None,
            "pauses_s": self._pauses,
            "loss_smoothed": _short(self._smoothed),
            "not_finite": self._not_finite,
            "efficiency": self._efficiency,
            "work_s": self._work_s,
            "recent": [[round(row[0] or 0.0, 3), *map(_short, row[1:])] for row in self._recent],
            "bins": [one.row() for one in self._bins],
        }

    def _judge_finite(self, at: float, point: Values) -> None:
        for name in ("loss", "grad_norm"):
            value = point.get(name)
            bad = self._not_finite
            if value is None:
                continue
            if math.isfinite(value):
                if bad and bad["metric"] == name:
                    self._not_finite = None
            elif bad is None or (bad["metric"], name) == ("grad_norm", "loss"):
                step = self._last.get("step")
                self._not_finite = {"metric": name, "step": step, "at": at, "count": 1}
            elif bad["metric"] == name:
                bad["count"] += 1

    def _advance(self, at: float, before: float | None, step: float | None) -> tuple[float, float]:
        """How many steps were made, and in what time, pauses left out."""
        if step is None or step == before:
            return 0.0, 0.0
        was_at, self._step_at = self._step_at, at
        if before is None or was_at is None or step < before or at < was_at:
            return 0.0, 0.0  # no rate across a jump
        steps, gap = step - before, at - was_at
        self._gaps.append(gap)
        self._pauses = sorted((*self._pauses, gap), reverse=True)[:2]
        usual = median(self._paces) if len(self._paces) >= 8 else math.inf
        self._paces.append(gap / steps)
        return steps, min(gap, PAUSE * usual * steps)

    def _bin(self, new: Bin) -> None:
        if self._bins and self._bins[-1].points < self._each:
            self._bins[-1].absorb(new)
            return
        if len(self._bins) == BINS:
            for one, other in zip(self._bins[::2], self._bins[1::2], strict=True):
                one.absorb(other)
            self._bins = self._bins[::2]
            self._each *= 2
        self._bins.append(new)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A ``state.json`` that was read; the names are those of its fields."""

    at: float
    collector: Process | None
    problem: str | None
    printed_at: float | None
    last: dict[str, float | None]
    last_at: float
    step_at: float | None
    gap_s: float | None
    pauses_s: tuple[float, float]
    loss_smoothed: float | None
    not_finite: dict[str, Any] | None
    recent: tuple[tuple[float, float | None, float | None, float | None, float | None], ...]
    bins: tuple[Bin, ...]
    efficiency: tuple[float, int] | None = None
    work_s: tuple[float, int] | None = None


def read_progress(state: dict[str, Any]) -> Progress | None:
    """None when no metric was seen yet, or when it is no such record."""
    try:
        if state["version"] != 1 or state["last_at"] is None:
            return None
        return Progress(
            at=state["at"],
            collector=Process(*state["collector"]) if state["collector"] else None,
            problem=state["problem"],
            printed_at=state["printed_at"],
            last={name: _finite(state["last"].get(name)) for name in METRICS},
            last_at=state["last_at"],
            step_at=state["step_at"],
            gap_s=state["gap_s"],
            pauses_s=(state["pauses_s"][0], state["pauses_s"][1]),
            loss_smoothed=state["loss_smoothed"],
            not_finite=state["not_finite"],
            recent=tuple((row[0], row[1], row[2], row[3], row[4]) for row in state["recent"]),
            bins=tuple(Bin.of_row(row) for row in state["bins"]),
            efficiency=tuple(state["efficiency"]) if state.get("efficiency") else None,
            work_s=tuple(state["work_s"]) if state.get("work_s") else None,
        )
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        return None


def metrics_seen(progress: Progress) -> MetricsSeen:
    """What a status shows of it."""
    last, bins = dict(progress.last), progress.bins
    rates = sorted(rates_of(bins[-max(8, len(bins) // 4) :]))
    speeds = [one.tokens_per_s for one in bins if one.tokens_per_s is not None]
    left = None
    if last["total_steps"] and last["step"] is not None:
        left = max(0.0, last["total_steps"] - last["step"])
    low, middle, high = _time_left(left, rates)
    told = last.pop("eta_s")
    last["padding_efficiency"] = progress.efficiency[0] if progress.efficiency else None
    told_often = progress.work_s is not None and progress.work_s[1] >= STEADY
    last["work_s"] = progress.work_s[0] if progress.work_s and told_often else None
    if middle is None:
        low = middle = high = told
    return MetricsSeen(
        **last,
        at=progress.last_at,
        step_at=progress.step_at,
        loss_smoothed=progress.loss_smoothed,
        loss_trend=_trend([one.loss for one in bins if one.loss is not None]),
        tokens_per_s_trend=_trend(speeds),
        tokens_per_s_usual=median(speeds) if speeds else None,
        measured_steps_per_s=median(rates) if rates else None,
        eta_s=middle,
        eta_low_s=low,
        eta_high_s=high,
    )


def median(values: Iterable[float]) -> float:
    """The middle one, or the mean of the two in the middle; of none it is an error."""
    row = sorted(values)
    half = len(row) // 2
    return row[half] if len(row) % 2 else (row[half - 1] + row[half]) / 2


def rates_of(bins: Sequence[Bin]) -> list[float]:
    """Steps a second in each of them, pauses left out."""
    return [one.steps / one.busy_s for one in bins if one.steps > 0 and one.busy_s > 0]


def _time_left(
    left: float | None, rates: Sequence[float]
) -> tuple[float | None, float | None, float | None]:
    """The time for so many steps: from the rate of nine of ten stretches to one of ten."""
    if left is None or not rates:
        return None, None, None
    tenth = len(rates) // 10
    fast, slow = rates[-1 - tenth], rates[tenth]
    return left / fast, left / median(rates), left / slow


def _trend(values: Sequence[float]) -> tuple[float, ...]:
    """At most `TREND` means over equal stretches."""
    count = min(TREND, len(values))
    cuts = [round(index * len(values) / count) for index in range(count + 1)] if count else [0]
    return tuple(sum(values[a:b]) / (b - a) for a, b in pairwise(cuts))


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _short(value: float | None) -> float | None:
    """Six digits tell enough; whole numbers stay whole."""
    if value is None or not math.isfinite(value):
        return None
    return value if value == value // 1 and abs(value) < 1e15 else float(f"{value:.6g}")
