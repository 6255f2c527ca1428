from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflashctl.agent.seen import BucketsSeen
from dflashctl.plan.throughput import Calibration, calibration, of_the_run, predicted
from tests.plan.scenes import BUSY, RUNNING

OWNERS = Calibration(ktok_s=25.1, efficiency=0.868)
SHARES = st.floats(0.05, 1)
RUNS = st.builds(Calibration, ktok_s=SHARES, efficiency=SHARES)


def test_the_speed_without_padding_times_the_efficiency() -> None:
    assert predicted(0.8781, None, (OWNERS,), None) == pytest.approx((25.39, 25.39), abs=0.01)


def test_whether_the_slowest_rank_sets_the_pace_is_left_open() -> None:
    low, high = predicted(0.868, 0.94, (OWNERS,), 0.97)
    assert high == pytest.approx(25.1)
    assert low == pytest.approx(25.1 * 0.94 / 0.97)


@given(SHARES, SHARES, st.lists(RUNS, min_size=1))
def test_a_further_measured_run_never_narrows_the_range(
    efficiency: float, balance: float, runs: list[Calibration]
) -> None:
    first = predicted(efficiency, balance, (runs[0],), 0.9)
    low, high = predicted(efficiency, balance, tuple(runs), 0.9)
    assert low <= first[0] <= first[1] <= high


@pytest.mark.parametrize("text", ["25.1@0.868", "25.1@86.8%"])
def test_a_measured_run_has_two_forms(text: str) -> None:
    read = calibration(text)
    assert read.ktok_s == 25.1
    assert read.efficiency == pytest.approx(0.868)


@pytest.mark.parametrize("text", ["", "25.1", "25.1@", "25.1@86.8", "0@0.5", "25.1@0", "a@0.5"])
def test_anything_else_is_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"must be Ktok/s@efficiency, as in 25\.1@0\.868"):
        calibration(text)


def test_a_run_without_buckets_or_without_a_speed_measures_nothing() -> None:
    buckets = BucketsSeen(path="/b", sha256="0" * 12, boundaries=(0, 8192), expected_efficiency=0.8)
    assert of_the_run(BUSY) == ()
    assert of_the_run(replace(BUSY, run=replace(RUNNING, buckets=buckets))) == ()
