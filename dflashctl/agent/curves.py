"""What a run's curves speak against it: pure functions over a `Progress`.

Each looks for one thing and gives a `VerdictSeen` with its evidence, or None. The limits
are such that the noise, the pauses and the warm-up of a healthy run stay far below them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from operator import mul

from dflashctl.agent.seen import BucketsSeen, VerdictSeen
from dflashctl.agent.series import Bin, Progress, median, rates_of

STALL_S = 300.0
STALL_GAPS = 10.0
# A pause that came twice is a habit of the run, as an evaluation is.
HABIT = 1.5
SPIKE_Z, SPIKE_RATIO = 8.0, 1.5
LONE_Z, LONE_RATIO = 30.0, 3.0
SPIKE_SPAN = 10
BASELINE = 100
FALL, FALL_SHARE, FALL_Z = 0.05, 0.15, 6.0
SWING = 0.07
SLOW = 0.6
SLOW_S = 120.0
# Gradients overflow now and then where a loss scale is being found.
GRADIENTS = 5
# Of the expected padding efficiency; the first batches say little of all.
OFF, OFF_STEPS, OFF_POINTS = 0.05, 50, 5
MAD_TO_SIGMA = 1.4826


def stalled(progress: Progress, now: float) -> VerdictSeen | None:
    """No step for five minutes and ten times as long as usual."""
    if progress.step_at is None or progress.gap_s is None:
        return None
    habit = HABIT * progress.pauses_s[1]
    limit = max(STALL_S, STALL_GAPS * progress.gap_s, habit)
    since = now - progress.step_at
    if since <= limit:
        return None
    step = progress.last.get("step") or 0
    evidence = (
        f"no step after {step:.0f} for {in_words(since)}; usually one is seen every "
        f"{in_words(progress.gap_s)}"
    )
    return VerdictSeen(code="stalled", since=progress.step_at, evidence=evidence)


def not_finite(progress: Progress) -> VerdictSeen | None:
    """A loss that is no number or infinite; gradients only when they stay so."""
    bad = progress.not_finite
    if bad is None or (bad["metric"] == "grad_norm" and bad["count"] < GRADIENTS):
        return None
    name = {"loss": "the loss", "grad_norm": "the gradient norm"}[bad["metric"]]
    at = "" if bad["step"] is None else f" since step {bad['step']:.0f}"
    evidence = f"{name} is not a finite number{at} ({bad['count']} times)"
    return VerdictSeen(code="loss_not_finite", since=bad["at"], evidence=evidence)


def spike(progress: Progress) -> VerdictSeen | None:
    """Losses far outside of what came before, by a robust z-score; the newest such."""
    rows = [(row[0], row[1], row[2]) for row in progress.recent if row[2] is not None]
    if len(rows) < 30:
        return None
    losses = [row[2] or 0.0 for row in rows]
    high: list[int] = []
    worst: tuple[float, int] | None = None
    for index in range(20, len(losses)):
        before = losses[max(0, index - BASELINE) : index]
        # Only what could be one is measured: most points could not.
        if losses[index] <= 1.2 * losses[index - 10] and losses[index] <= 1.2 * before[0]:
            continue
        z, ratio = _z(losses[index], before)
        if z > LONE_Z and ratio > LONE_RATIO:
            worst = (z, index)
        if z > SPIKE_Z and ratio > SPIKE_RATIO:
            high = [one for one in high if index - one < SPIKE_SPAN] + [index]
            if len(high) >= 2:
                worst = (z, index)
    if worst is None:
        return None
    index = worst[1]
    at, step, _ = rows[index]
    usual = median(losses[max(0, index - BASELINE) : index])
    place = "" if step is None else f" at step {step:.0f}"
    peak = max(losses[max(0, index - SPIKE_SPAN) : index + SPIKE_SPAN])
    evidence = f"the loss went from {usual:.4g} to {peak:.4g}{place} (robust z {worst[0]:.0f})"
    return VerdictSeen(code="loss_spike", since=at, evidence=evidence)


def falling_accuracy(progress: Progress) -> VerdictSeen | None:
    """An accuracy well below what it had reached, for several stretches in a row."""
    bins = [one for one in progress.bins if one.accuracy is not None]
    if len(bins) < 12 or sum(one.points for one in bins) < 30:
        return None
    values = [one.accuracy or 0.0 for one in bins]
    means = [sum(values[i : i + 3]) / 3 for i in range(len(values) - 2)]
    peak = max(means)
    noise = MAD_TO_SIGMA * median(abs(b - a) for a, b in pairwise(values)) / math.sqrt(2)
    limit = peak - max(FALL, FALL_SHARE * peak, FALL_Z * noise)
    if max(values[-3:]) >= limit:
        return None
    top = means.index(peak) + 2
    since = next(one.at for one in bins[top:] if (one.accuracy or 0.0) < limit)
    now = sum(values[-3:]) / 3
    step = "" if bins[top].step is None else f" at step {bins[top].step:.0f}"
    evidence = f"the accuracy fell from {peak:.1%}{step} to {now:.1%}"
    return VerdictSeen(code="accuracy_falling", since=since, evidence=evidence)


def oscillation(progress: Progress) -> VerdictSeen | None:
    """A loss that swings with a fixed period, by its autocorrelation.

    It is the sign of batches that are sorted by length.
    """
    recent = [row[2] for row in progress.recent if row[2] is not None]
    bins = [one for one in progress.bins if one.loss is not None]
    whole = [one.loss or 0.0 for one in bins[len(bins) // 4 :]]
    for losses, unit in ((recent, "points"), (whole, "parts of the run")):
        found = _period(losses)
        if found is not None:
            period, strength, swing = found
            evidence = (
                f"the loss swings by {swing:.0%} with a period of {period} {unit} "
                f"(autocorrelation {strength:.2f}): are batches sorted by length?"
            )
            return VerdictSeen(code="loss_oscillates", since=None, evidence=evidence)
    return None


def slow(progress: Progress, buckets: BucketsSeen | None) -> VerdictSeen | None:
    """A throughput far below the run's own, or below what its buckets were to give."""
    speeds = [(row[0], row[4]) for row in progress.recent if row[4] is not None]
    past = [one.tokens_per_s for one in progress.bins[1:] if one.tokens_per_s is not None]
    if len(past) >= 8 and len(speeds) >= 8:
        last = speeds[-1][0]
        late = [speed or 0.0 for at, speed in speeds if at > last - SLOW_S]
        if len(late) < 8:
            late = [speed or 0.0 for _, speed in speeds[-8:]]
        now, usual = median(late), _upper(past)
        if now < SLOW * usual:
            since = _slow_since(progress.bins, usual)
            evidence = f"{now:,.0f} tokens/s where {usual:,.0f} are usual in this run"
            return VerdictSeen(code="throughput_drop", since=since, evidence=evidence)
        predicted = buckets.predicted_tokens_per_s if buckets else None
        if predicted is not None and median(past) < SLOW * predicted:
            usual = median(past)
            evidence = f"{usual:,.0f} tokens/s are usual; the buckets promised {predicted:,.0f}"
            return VerdictSeen(code="throughput_drop", since=None, evidence=evidence)
        return None
    rates = rates_of(progress.bins[1:])
    if len(past) >= 8 or len(rates) < 12:
        return None
    now, usual = median(rates[-3:]), _upper(rates)
    if max(rates[-3:]) >= SLOW * usual:
        return None
    evidence = f"{now:.3g} steps/s where {usual:.3g} are usual in this run"
    return VerdictSeen(code="throughput_drop", since=progress.bins[-3].at, evidence=evidence)


def buckets_off(progress: Progress, buckets: BucketsSeen | None) -> VerdictSeen | None:
    """Another padding than the buckets were to give: other data, or other boundaries."""
    expected = buckets.expected_efficiency if buckets else None
    if expected is None or progress.efficiency is None:
        return None
    measured, points = progress.efficiency
    steps = sum(one.steps for one in progress.bins)
    if steps < OFF_STEPS or points < OFF_POINTS or abs(measured / expected - 1) <= OFF:
        return None
    evidence = (
        f"{measured:.1%} of the tokens are real where the buckets promised {expected:.1%}: "
        "is it the data that they were made for?"
    )
    return VerdictSeen(code="buckets_off", since=None, evidence=evidence)


def _slow_since(bins: Sequence[Bin], usual: float) -> float | None:
    since = None
    for one in reversed(bins):
        if one.tokens_per_s is None or one.tokens_per_s >= SLOW * usual:
            break
        since = one.at
    return since


def _upper(values: Sequence[float]) -> float:
    """The upper quartile: a run that is slow for most of its time is still slow."""
    return sorted(values)[(3 * len(values)) // 4]


def _z(value: float, before: Sequence[float]) -> tuple[float, float]:
    """How many robust sigmas a value is above what came before, and how many times as high."""
    middle = median(before)
    sigma = MAD_TO_SIGMA * median(abs(one - middle) for one in before)
    sigma = max(sigma, 0.01 * abs(middle), 1e-9)
    ratio = value / middle if middle > 0 else math.inf
    return (value - middle) / sigma, ratio


def _period(losses: Sequence[float]) -> tuple[int, float, float] | None:
    """Period in points, autocorrelation at it, and swing as a share of the mean."""
    count = len(losses)
    if count < 40:
        return None
    middle = sum(losses) / count
    across = (count - 1) / 2
    rise = sum((i - across) * loss for i, loss in enumerate(losses))
    rise /= sum((i - across) ** 2 for i in range(count))
    rest = [loss - middle - rise * (i - across) for i, loss in enumerate(losses)]
    power = sum(one * one for one in rest) / count
    if middle <= 0 or math.sqrt(power) < SWING * middle:
        return None

    def likeness(lag: int) -> float:
        products: float = sum(map(mul, rest, rest[lag:]))
        return products / (count - lag) / power

    row = [likeness(lag) for lag in range(count // 2)]
    for lag in range(4, count // 4):
        peak = row[lag] >= max(row[lag - 1], row[lag + 1])
        if (
            peak
            and row[lag] > 0.6
            and row[lag // 2] < -0.2
            and max(row[2 * lag - 1 : 2 * lag + 2]) > 0.5
        ):
            return lag, row[lag], math.sqrt(power) / middle
    return None


def in_words(seconds: float) -> str:
    """A duration in words: ``45 s``, ``12 min``, ``3.5 h``."""
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
