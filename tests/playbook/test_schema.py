from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflashctl.playbook.values import duration, size

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
BYTES = {
    "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
}  # fmt: skip


@given(st.integers(0, 366), st.sampled_from(list(SECONDS)))
def test_a_duration_is_its_number_times_its_unit(number: int, unit: str) -> None:
    assert duration(f"{number}{unit}") == number * SECONDS[unit]


def test_a_duration_may_have_a_fraction() -> None:
    assert duration("0.5s") == 0.5
    assert duration("1.5m") == 90.0


@given(st.integers() | st.floats() | st.text(st.characters(exclude_characters="smhd")))
def test_anything_without_a_unit_is_no_duration(value: object) -> None:
    with pytest.raises(ValueError, match="must be a number and a unit"):
        duration(value)


@given(st.integers(367, 999_999_999))
def test_a_duration_is_at_most_a_year(days: int) -> None:
    with pytest.raises(ValueError, match="must be at most a year"):
        duration(f"{days}d")


@pytest.mark.parametrize("text", ["1h30m", "-1s", "1 s", "1S", "1ms", ".5s", "1.s", "٣s", "1s\n"])
def test_a_duration_has_one_plain_form(text: str) -> None:
    with pytest.raises(ValueError, match="must be a number and a unit"):
        duration(text)


@given(st.integers(0, 999_999_999), st.sampled_from(list(BYTES)))
def test_a_size_is_its_number_times_its_unit(number: int, unit: str) -> None:
    assert size(f"{number}{unit}") == size(f"{number} {unit}") == number * BYTES[unit]


def test_a_size_may_have_a_fraction() -> None:
    assert size("1.5TB") == 1_500_000_000_000
    assert size("0.25KiB") == 256


@pytest.mark.parametrize(
    "value", [20, "20", "20G", "20gb", "GB", "-1GB", "1e3GB", "1,5GB", "1GB\n", "1.5.5GB", "1PB"]
)
def test_a_size_has_one_plain_form(value: object) -> None:
    with pytest.raises(ValueError, match="must be a number and a unit"):
        size(value)
