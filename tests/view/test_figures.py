from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflashctl.view import figures


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0 s"),
        (2.14, "2.1 s"),
        (45, "45 s"),
        (725, "12 min 5 s"),
        (3600, "1 h"),
        (11_160, "3 h 6 min"),
        (3605, "1 h"),
        (183_600, "2 d 3 h"),
        (-5, "0.0 s"),
        (None, "?"),
        (math.nan, "?"),
    ],
)
def test_a_duration_has_two_units_at_most(seconds: float | None, text: str) -> None:
    assert figures.duration(seconds) == text


@given(st.floats())
def test_no_clock_of_a_target_breaks_a_figure(value: float) -> None:
    assert figures.duration(value)
    assert figures.moment(value)
    assert (figures.iso(value) or "Z").endswith("Z")


def test_times_are_in_utc() -> None:
    assert figures.moment(1_795_953_960) == "2026-11-29 12:06 UTC"
    assert figures.iso(1_795_953_960) == "2026-11-29T12:06:00Z"


def test_what_is_unknown_is_a_question_mark_for_people_and_null_for_programs() -> None:
    assert (figures.size(None), figures.moment(None), figures.iso(None)) == ("?", "?", None)
