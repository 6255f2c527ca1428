"""The same work on many targets."""

from __future__ import annotations

import threading

import pytest

from dflashctl.errors import Unreachable
from dflashctl.inventory.model import Local, Target
from dflashctl.link.fanout import each

TARGETS = tuple(Target(name=f"t{number}", route=Local()) for number in range(8))


def test_results_come_in_the_targets_order_and_errors_in_their_place():
    later = threading.Event()

    def work(target: Target) -> str:
        if target.name == "t0":
            assert later.wait(5)
        if target.name == "t5":
            raise Unreachable(target=target.name, address="a", reason="refused")
        if target.name == "t7":
            later.set()
        return target.name

    results = each(TARGETS, work)
    assert isinstance(results[5], Unreachable)
    assert [one for one in results if isinstance(one, str)] == [
        target.name for target in TARGETS if target.name != "t5"
    ]


def test_no_more_than_allowed_run_at_once():
    busy, most, lock = 0, 0, threading.Lock()
    full = threading.Barrier(2, timeout=5)

    def work(_: Target) -> None:
        nonlocal busy, most
        with lock:
            busy += 1
            most = max(most, busy)
        full.wait()
        with lock:
            busy -= 1

    each(TARGETS, work, at_once=2)
    assert most == 2


def test_a_fault_of_ours_is_raised():
    def work(target: Target) -> None:
        raise ZeroDivisionError(target.name)

    with pytest.raises(ZeroDivisionError):
        each(TARGETS, work)


def test_no_targets_no_results():
    assert each((), lambda target: target.name) == []
