from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflashctl.agent.seen import Observed
from dflashctl.view.metrics import bar, in_short, metric_lines, metrics_object, rate, sparkline
from tests.plan.scenes import BARE, BUSY, METRICS


def shown(seen: Observed) -> dict[str, list[str]]:
    return dict(metric_lines(seen))


@given(st.lists(st.floats(-1e6, 1e6), max_size=60))
def test_a_curve_has_a_step_for_each_value(values: list[float]) -> None:
    curve = sparkline(values)
    assert len(curve) == (len(values) if len(values) > 1 else 0)
    if len(set(values)) > 1 and curve:
        assert curve[values.index(min(values))] == "▁"
        assert curve[values.index(max(values))] == "█"


@pytest.mark.parametrize(
    ("share", "drawn"),
    [(0, "░" * 10), (0.5, "█" * 5 + "░" * 5), (1, "█" * 10), (1.7, "█" * 10), (None, " " * 10)],
)
def test_a_bar_is_as_long_as_its_share(share: float | None, drawn: str) -> None:
    assert bar(share) == drawn


@pytest.mark.parametrize(
    ("value", "words"),
    [(25_100, "25.1 Ktok/s"), (980, "980 tok/s"), (1.2e6, "1.2 Mtok/s"), (0.5, "0.5 tok/s")],
)
def test_a_rate_has_the_prefix_that_people_use(value: float, words: str) -> None:
    assert rate(value, "tok/s") == words


def test_progress_is_told_with_its_spread() -> None:
    lines = shown(replace(BUSY, metrics=METRICS))
    assert lines["step"] == ["254 of 2,400 (10.6%), epoch 1"]
    assert lines["loss"] == ["4.58, now 4.6  █▅▁"]
    assert lines[""] == ["learning rate 0.0003"]
    assert lines["speed"] == ["25.1 Ktok/s, usually 25.3 Ktok/s  ▁█"]
    (left,) = lines["time left"]
    assert left.startswith("1 h (50 min to 1 h 10 min), until 2026-11-28")


def test_what_was_not_printed_is_not_told() -> None:
    nothing = replace(
        METRICS, step=None, epoch=None, loss_smoothed=None, learning_rate=None, tokens_per_s=None,
        samples_per_s=None, steps_per_s=None, measured_steps_per_s=None, eta_s=None,
    )  # fmt: skip
    assert shown(replace(BUSY, metrics=nothing)) == {}
    assert shown(BARE) == {}
    assert in_short(nothing) == ""


@pytest.mark.parametrize(
    ("steps_per_s", "words"), [(0.05, "20 s a step"), (5.0, "5 steps/s"), (0.0, None)]
)
def test_without_tokens_the_steps_tell_the_speed(steps_per_s: float, words: str | None) -> None:
    metrics = replace(METRICS, tokens_per_s=None, measured_steps_per_s=steps_per_s,
                      steps_per_s=None, tokens_per_s_trend=())  # fmt: skip
    assert shown(replace(BUSY, metrics=metrics)).get("speed", [None]) == [words]


def test_a_run_that_is_over_has_no_time_left() -> None:
    run = replace(BUSY.run, ended_at=BUSY.now)  # type: ignore[type-var]  # it has a run
    assert "time left" not in shown(replace(BUSY, run=run, metrics=METRICS))


def test_as_json_counters_are_whole_and_times_are_moments() -> None:
    value = metrics_object(METRICS)
    assert value is not None
    assert (value["step"], type(value["step"])) == (254, int)
    assert value["at"] == "2026-11-28T12:05:59Z"
    assert value["loss_trend"] == [9, 6.5, 4.58]
    assert metrics_object(None) is None
