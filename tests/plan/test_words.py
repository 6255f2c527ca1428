from __future__ import annotations

from dataclasses import replace

import pytest

from dflashctl.plan import words
from tests.plan.scenes import EMPTY, RUNNING, SEVENTEEN


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (41_200_000_000, "41.2 GB"),
        (5 * 10**18, "5000.0 PB"),
    ],
)
def test_sizes_are_in_decimal_units(count: int, text: str) -> None:
    assert words.size(count) == text


def test_long_lists_are_cut() -> None:
    assert words.listed(("a", "b", "c")) == "a, b, c"
    assert words.listed(("a", "b", "c", "d", "e")) == "a, b, c and 2 more"


def test_a_run_without_a_pid_yet_is_named_all_the_same() -> None:
    assert words.running(replace(RUNNING, state="STARTING", pid=None)) == f"run {RUNNING.id}"


def test_checkpoints_are_told_with_what_is_known() -> None:
    assert words.checkpoints(replace(SEVENTEEN, count=1, complete=1, size=None)) == (
        "1 checkpoint (newest step 3400)"
    )
    assert words.checkpoints(replace(EMPTY, count=2, complete=2, size=None)) == "2 checkpoints"


def test_a_very_long_command_is_shown_by_its_beginning() -> None:
    assert words.command(("bash", "a b")) == "bash 'a b'"
    shown = words.command(("python3", "-c", "x" * 100_000))
    assert shown.startswith("python3 -c xxx")
    assert len(shown) < 400
