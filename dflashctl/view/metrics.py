"""A run's progress in a status: counters, loss, speed, time left, and small curves."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dflashctl.view import figures

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dflashctl.agent.seen import MetricsSeen, Observed

_STEPS = "▁▂▃▄▅▆▇█"
_BAR_CELLS = 10
# A spread that rounds to the same words is none.
_EVEN = 0.03
_TIMES = ("at", "step_at")


def sparkline(values: Sequence[float]) -> str:
    """A curve one line high, from its lowest value to its highest."""
    if len(values) < 2:
        return ""
    low, high = min(values), max(values)
    # Divided first: of the smallest numbers there are, the inverse is infinite.
    spread = high - low or 1.0
    return "".join(_STEPS[round((value - low) / spread * (len(_STEPS) - 1))] for value in values)


def _in_scale(losses: Sequence[float]) -> Sequence[float]:
    """A loss falls steeply first: where it can be, its logarithm shows what comes after."""
    return [math.log(loss) for loss in losses] if min(losses, default=0.0) > 0 else losses


def bar(share: float | None) -> str:
    """A bar for a share of 1."""
    if share is None:
        return " " * _BAR_CELLS
    full = round(max(0.0, min(1.0, share)) * _BAR_CELLS)
    return "█" * full + "░" * (_BAR_CELLS - full)


def short(value: float) -> str:
    """A figure in about four digits: ``4.583``, ``0.00031``, ``12,345``."""
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def rate(value: float, unit: str) -> str:
    """A rate with a prefix to its unit: ``25.1 Ktok/s``."""
    for scale, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "K")):
        if value >= scale:
            return f"{value / scale:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}"


def count(value: float) -> str:
    """A counter, whole."""
    return f"{value:,.0f}"


def metric_lines(seen: Observed) -> Iterable[tuple[str, list[str]]]:
    """What a status says of the run's progress: label and lines."""
    metrics = seen.metrics
    if metrics is None:
        return
    place = _place(metrics)
    if place:
        yield "step", [place]
    if metrics.loss_smoothed is not None:
        now = "" if metrics.loss is None else f", now {short(metrics.loss)}"
        curve = sparkline(_in_scale(metrics.loss_trend))
        yield "loss", [f"{short(metrics.loss_smoothed)}{now}  {curve}".rstrip()]
    more = [
        f"{name} {text}"
        for name, value, text in (
            ("accuracy", metrics.accuracy, f"{metrics.accuracy or 0:.1%}"),
            ("learning rate", metrics.learning_rate, f"{metrics.learning_rate or 0:.3g}"),
            ("gradient norm", metrics.grad_norm, f"{metrics.grad_norm or 0:.3g}"),
        )
        if value is not None
    ]
    if more:
        yield "", [", ".join(more)]
    pace = speed(metrics)
    if pace:
        usual = metrics.tokens_per_s_usual
        told = metrics.tokens_per_s is not None and usual is not None
        beside = f", usually {rate(usual or 0, 'tok/s')}" if told else ""
        curve = f"{pace}{beside}  {sparkline(metrics.tokens_per_s_trend)}".rstrip()
        yield "speed", [curve, *_promise_kept(seen)]
    if metrics.padding_efficiency is not None:
        expected = seen.run.buckets.expected_efficiency if seen.run and seen.run.buckets else None
        beside = "" if expected is None else f"; the buckets promised {expected:.1%}"
        yield "padding", [f"{metrics.padding_efficiency:.1%} of the tokens are real{beside}"]
    if metrics.eta_s is not None and seen.run is not None and seen.run.ended_at is None:
        yield "time left", [_left(metrics, seen.now)]


def _promise_kept(seen: Observed) -> list[str]:
    """The speed as a share of what the run's buckets were to give."""
    speed = seen.metrics.tokens_per_s if seen.metrics else None
    predicted = seen.run.buckets.predicted_tokens_per_s if seen.run and seen.run.buckets else None
    if speed is None or not predicted:
        return []
    return [f"{speed / predicted:.0%} of the {rate(predicted, 'tok/s')} that the buckets promised"]


def _place(metrics: MetricsSeen) -> str:
    if metrics.step is None:
        return "" if metrics.epoch is None else f"epoch {metrics.epoch:g}"
    total = metrics.total_steps
    of = f" of {count(total)} ({metrics.step / total:.1%})" if total else ""
    epoch = "" if metrics.epoch is None else f", epoch {metrics.epoch:g}"
    return f"{count(metrics.step)}{of}{epoch}"


def speed(metrics: MetricsSeen) -> str:
    """How fast it goes, in the best unit that is known."""
    if metrics.tokens_per_s is not None:
        return rate(metrics.tokens_per_s, "tok/s")
    if metrics.samples_per_s is not None:
        return rate(metrics.samples_per_s, "samples/s")
    steps = metrics.measured_steps_per_s or metrics.steps_per_s
    if not steps:
        return ""
    return rate(steps, "steps/s") if steps >= 1 else f"{figures.duration(1 / steps)} a step"


def _left(metrics: MetricsSeen, now: float) -> str:
    """The time left with its spread, and when that is."""
    middle, low, high = metrics.eta_s or 0.0, metrics.eta_low_s, metrics.eta_high_s
    spread = ""
    if low is not None and high is not None and high - low > _EVEN * max(middle, 1.0):
        spread = f" ({figures.duration(low)} to {figures.duration(high)})"
    return f"{figures.duration(middle)}{spread}, until {figures.moment(now + middle)}"


def in_short(metrics: MetricsSeen) -> str:
    """Progress in a few words, for a row."""
    parts = []
    if metrics.step is not None and metrics.total_steps:
        parts.append(f"{metrics.step / metrics.total_steps:.0%}")
    elif metrics.step is not None:
        parts.append(f"step {metrics.step:.0f}")
    if metrics.eta_s is not None:
        parts.append(f"{figures.duration(metrics.eta_s)} left")
    if metrics.loss_smoothed is not None:
        parts.append(f"loss {short(metrics.loss_smoothed)}")
    return ", ".join(parts)


def metrics_object(metrics: MetricsSeen | None) -> dict[str, Any] | None:
    """``metrics`` of a status as JSON."""
    if metrics is None:
        return None
    names = type(metrics).__slots__
    values = {name: getattr(metrics, name) for name in names}
    for name in _TIMES:
        values[name] = figures.iso(values[name])
    return {name: _whole(value) for name, value in values.items()}


def _whole(value: Any) -> Any:
    """Counters are whole numbers."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return int(value)
    return list(value) if isinstance(value, tuple) else value
