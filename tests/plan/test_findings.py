"""What is declared beside what is there, check by check."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflashctl.agent.seen import DriverSeen, GpusSeen, Observed
from dflashctl.plan.findings import Finding, has_problem, skew, target_findings
from tests.plan.scenes import BARE, TARGET


def grades(seen: Observed, *, declared: int | None = 8, skew_s: float = 0.0) -> dict[str, str]:
    found = target_findings(replace(TARGET, gpus=declared), seen, skew_s)
    assert len({one.check for one in found}) == len(found)
    for one in found:
        assert one.evidence
        assert bool(one.remedy) == (one.grade in ("warning", "problem")), one
    return {one.check: one.grade for one in found}


def with_gpus(**changes: Any) -> Observed:
    assert BARE.gpus is not None
    return replace(BARE, gpus=replace(BARE.gpus, **changes))


ABSENT: dict[str, Any] = {"status": "absent", "gpus": (), "devices": 0, "uvm": False}


def test_all_is_well_where_all_is_as_declared():
    seen = replace(BARE, driver=DriverSeen(module="570.1", library="570.1"))
    assert set(grades(seen).values()) == {"ok"}


@pytest.mark.parametrize(
    ("changes", "declared", "grade"),
    [
        ({}, 8, "ok"),
        ({}, None, "ok"),
        ({}, 9, "problem"),
        ({}, 4, "warning"),
        ({"status": "unresponsive", "gpus": ()}, None, "problem"),
        ({"status": "unreadable", "gpus": (), "error": "NVML"}, 0, "problem"),
        (ABSENT, 0, "ok"),
        (ABSENT, None, "ok"),
        (ABSENT, 1, "problem"),
        ({**ABSENT, "devices": 2}, None, "problem"),
    ],
)
def test_the_number_of_gpus_is_compared(changes: Any, declared: int | None, grade: str):
    assert grades(with_gpus(**changes), declared=declared)["GPUs"] == grade


def test_gpus_without_the_compute_device_are_a_problem():
    assert grades(with_gpus(uvm=False))["uvm"] == "problem"
    assert grades(with_gpus(**ABSENT), declared=None)["uvm"] == "unchecked"


@pytest.mark.parametrize(
    ("module", "library", "grade"),
    [
        ("570.1", "570.1", "ok"),
        ("570.1", "535.2", "problem"),
        ("570.1", None, "unchecked"),
        (None, None, "unchecked"),
    ],
)
def test_the_driver_of_the_host_is_compared_with_that_of_the_container(
    module: str | None, library: str | None, grade: str
):
    seen = replace(BARE, driver=DriverSeen(module=module, library=library))
    assert grades(seen)["driver"] == grade


def test_a_target_without_tmux_has_a_problem():
    found = target_findings(TARGET, replace(BARE, tmux=None), 0.0)
    assert has_problem(found)
    assert grades(replace(BARE, tmux=None))["tmux"] == "problem"


@pytest.mark.parametrize(("skew_s", "grade"), [(0.0, "ok"), (-4.0, "ok"), (61.0, "warning")])
def test_clocks_far_apart_are_told(skew_s: float, grade: str):
    assert grades(BARE, skew_s=skew_s)["clock"] == grade


@given(st.floats(0, 1e9), st.floats(0, 60), st.floats(-1e6, 1e6))
def test_a_clock_counts_as_off_only_by_what_the_round_trip_cannot_explain(
    before: float, trip: float, off: float
):
    there = before + trip / 2 + off
    found = skew(there, before, before + trip)
    assert abs(found) <= abs(off) + 1e-3
    assert (found == 0) or (found > 0) == (off > 0)


def test_a_look_without_gpus_checks_none():
    found = target_findings(TARGET, replace(BARE, gpus=None), 0.0)
    assert Finding(check="GPUs", grade="unchecked", evidence="nobody asked nvidia-smi") in found


def test_the_scene_has_gpus():
    assert isinstance(BARE.gpus, GpusSeen)
