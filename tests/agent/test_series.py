"""What is kept of a run's metrics, however long it is."""

from __future__ import annotations

import json
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflashctl.agent.seen import MetricsSeen
from dflashctl.agent.series import (
    BINS,
    RECENT,
    Progress,
    Series,
    median,
    metrics_seen,
    read_progress,
)


def progress(series: Series) -> Progress:
    """As it comes back from the file."""
    state = {"version": 1, "at": 0.0, "collector": [1, 2], "problem": None, "printed_at": None}
    text = json.dumps({**state, **series.state()}, allow_nan=False)
    found = read_progress(json.loads(text))
    assert found is not None
    return found


def seen(series: Series) -> MetricsSeen:
    return metrics_seen(progress(series))


def run(steps: int, *, total: int, step_s: float = 1.0, every: int = 1) -> Series:
    series = Series()
    for step in range(every, steps + 1, every):
        series.add(1e9 + step * step_s, {"step": step, "total_steps": total, "loss": 4.0 / step})
    return series


def test_the_newest_value_of_each_metric_is_kept() -> None:
    series = Series()
    series.add(10.0, {"step": 1, "loss": 3.0, "learning_rate": 1e-4})
    series.add(11.0, {"step": 2, "loss": 2.0})
    found = seen(series)
    assert (found.step, found.loss, found.learning_rate) == (2, 2.0, 1e-4)
    assert (found.at, found.step_at, found.accuracy) == (11.0, 11.0, None)


@pytest.mark.parametrize("steps", [3, BINS, BINS + 1, 1000, 20_000])
def test_its_size_does_not_grow_with_the_run(steps: int) -> None:
    series = run(steps, total=20_000)
    state = series.state()
    assert len(state["bins"]) <= BINS
    assert len(state["recent"]) <= RECENT
    assert sum(row[2] for row in state["bins"]) == steps
    assert len(json.dumps(state)) < 40_000
    assert len(seen(series).loss_trend) <= 30


@given(st.lists(st.floats(0.1, 100), min_size=1, max_size=300))
def test_the_bins_means_are_those_of_all_points(losses: list[float]) -> None:
    series = Series()
    for step, loss in enumerate(losses):
        series.add(float(step), {"step": step, "loss": loss})
    rows = series.state()["bins"]
    mean = sum(row[5] * row[2] for row in rows) / len(losses)
    assert mean == pytest.approx(sum(losses) / len(losses), rel=1e-4)


def test_the_time_left_comes_from_the_runs_own_rate() -> None:
    found = seen(run(400, total=1000, step_s=2.0))
    assert found.measured_steps_per_s == pytest.approx(0.5)
    assert found.eta_s == pytest.approx(1200)
    assert found.eta_low_s == pytest.approx(1200)


def test_the_spread_says_how_even_the_rate_is() -> None:
    series, at, dice = Series(), 1e9, random.Random(0)
    for step in range(1, 2001):
        at += dice.choice((0.5, 1.0, 1.5)) * (1.3 if step // 50 % 2 else 1.0)
        series.add(at, {"step": step, "total_steps": 4000})
    found = seen(series)
    assert found.eta_low_s is not None
    assert found.eta_s is not None
    assert found.eta_high_s is not None
    assert found.eta_low_s < found.eta_s < found.eta_high_s
    assert found.eta_s == pytest.approx(2000 * 1.15, rel=0.15)


def test_a_pause_does_not_count() -> None:
    series, at = Series(), 1e9
    for step in range(1, 101):
        at += 7200.0 if step == 50 else 1.0
        series.add(at, {"step": step, "total_steps": 200})
    assert seen(series).eta_s == pytest.approx(100, rel=0.2)


def test_no_rate_goes_across_a_counter_that_begins_anew() -> None:
    series = run(100, total=100)
    for step in range(1, 101):
        series.add(1e9 + 200 + step, {"step": step, "total_steps": 100})
    assert seen(series).measured_steps_per_s == pytest.approx(1.0)


def test_without_a_total_the_trainers_own_word_counts() -> None:
    series = Series()
    series.add(1.0, {"step": 1, "eta_s": 90.0})
    found = seen(series)
    assert (found.eta_low_s, found.eta_s, found.eta_high_s) == (90.0, 90.0, 90.0)


def test_what_is_no_number_is_told_until_a_number_comes() -> None:
    series = Series()
    for step, loss in enumerate((2.0, math.nan, math.inf)):
        series.add(float(step), {"step": step, "loss": loss})
    bad = series.state()["not_finite"]
    assert bad == {"metric": "loss", "step": 1, "at": 1.0, "count": 2}
    assert seen(series).loss is None
    series.add(3.0, {"step": 3, "loss": 1.0})
    assert series.state()["not_finite"] is None


@pytest.mark.parametrize(
    "record",
    [{}, {"version": 2}, {"version": 1, "last_at": None}, {"version": 1, "last_at": 1.0},
     {"version": 1, "last_at": 1.0, "last": [], "bins": 3}],
)  # fmt: skip
def test_a_record_of_another_kind_is_no_metrics(record: dict) -> None:
    assert read_progress(record) is None


@given(st.lists(st.floats(-1e9, 1e9), min_size=1))
def test_half_lies_on_either_side_of_a_median(values: list[float]) -> None:
    middle = median(values)
    assert sum(value < middle for value in values) <= len(values) / 2
    assert sum(value > middle for value in values) <= len(values) / 2
