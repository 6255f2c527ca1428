"""A run on several targets, as status shows it: one run, its nodes, who is lost, who is slow."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from dflashctl.agent.fabric import FirstFailure, Node
from dflashctl.cli.health import exit_code, report, together
from dflashctl.errors import Unreachable
from dflashctl.inventory.model import Local, Target
from dflashctl.plan.nodes import across
from dflashctl.view.nodes import node_lines, one_a_run, runs_object
from tests.plan.scenes import BUSY, METRICS, RUNNING

if TYPE_CHECKING:
    from dflashctl.agent.seen import Observed
    from dflashctl.view.status import Report

A, B, C = NAMES = ("kpro6/dflash", "kpro7/dflash", "kpro8/dflash")


def node(rank: int, *, names: tuple[str, ...] = (A, B), **run: Any) -> Observed:
    place = Node(rank=rank, names=names, port=29400, master="10.0.0.1",
                 address=f"10.0.0.{rank + 1}", interface="eth0")  # fmt: skip
    return replace(BUSY, state=run.get("state", "RUNNING"),
                   run=replace(RUNNING, node=place, **run))  # fmt: skip


def working(seen: Observed, work_s: float | None, **more: Any) -> Observed:
    return replace(seen, metrics=replace(METRICS, work_s=work_s, **more))


def ended(rank: int, ago_s: float, **how: Any) -> Observed:
    return node(rank, state="FAILED", ended_at=BUSY.now - ago_s, **{"signal": None, **how})


def reports(*seen: Observed | None, names: tuple[str, ...] = NAMES) -> tuple[Report, ...]:
    gone = Unreachable(target="x", address="x", reason="no answer")
    return together(
        [
            report(Target(name=name, route=Local()), gone if look is None else look)
            for name, look in zip(names, seen, strict=False)
        ]
    )


def codes(*seen: Observed | None) -> list[list[str]]:
    return [[verdict.code for verdict in one.verdicts] for one in reports(*seen)]


def test_a_run_whose_nodes_all_live_has_nothing_against_it() -> None:
    assert codes(node(0), node(1)) == [[], []]
    assert [exit_code(one) for one in reports(node(0), node(1))] == [0, 0]


def test_the_targets_of_one_run_are_shown_as_one() -> None:
    (shown,) = one_a_run(reports(working(node(0), 0.2), node(1)))
    assert shown.target == f"{A}, {B}"
    assert shown.seen is not None
    assert shown.seen.run is not None
    assert shown.seen.run.node is not None
    assert shown.seen.run.node.rank == 0, "node 0's metrics are the run's"
    assert shown.across is not None
    first, second = node_lines(shown.across)
    assert first.startswith(f"0  {A}  RUNNING  step 254")
    assert "own work 0.2 s" in first
    assert second.split() == ["1", B, "RUNNING"]


def test_runs_of_their_own_stay_apart() -> None:
    apart = reports(BUSY, node(0, names=(B, C)), node(1, names=(B, C)))
    assert [one.target for one in one_a_run(apart)] == [A, f"{B}, {C}"]


@pytest.mark.parametrize(
    ("second", "word"),
    [
        (ended(1, 30.0, signal="KILL"), "FAILED (signal KILL)"),
        (ended(1, 30.0, exit_code=1), "FAILED (exit code 1)"),
        (None, "unreachable"),
        (BUSY, "without this run"),
    ],
)
def test_a_node_that_is_gone_while_the_others_work_is_named(
    second: Observed | None, word: str
) -> None:
    if second is BUSY:
        second = replace(BUSY, run=replace(RUNNING, id="2026-11-28T1206Z-dflash-zzzz"))
    found = reports(node(0), second)
    (verdict,) = [v for one in found for v in one.verdicts if v.code == "node_lost"]
    assert verdict.evidence == f"node 1, {B}, is {word}; {A} still at work"
    assert 5 in [exit_code(one) for one in found]


def test_a_target_that_was_not_asked_is_not_lost() -> None:
    (alone,) = reports(node(0))
    assert not alone.verdicts
    assert alone.across is not None
    assert "not asked" in node_lines(alone.across)[1]


def test_of_a_run_that_failed_it_is_told_who_was_the_first() -> None:
    found = reports(ended(0, 4.0, exit_code=1), ended(1, 9.5, signal="KILL"))
    (verdict,) = found[1].verdicts
    assert verdict.code == "node_failed_first"
    assert verdict.evidence == (f"node 1, {B}, failed first (signal KILL); then {A} (exit code 1)")
    assert [exit_code(one) for one in found] == [4, 4]


def test_a_process_that_a_signal_ended_is_the_cause_though_its_torchrun_ends_last() -> None:
    peer_lost = FirstFailure(rank=0, exit_code=1, at=BUSY.now - 9.0)
    killed = FirstFailure(rank=2, exit_code=-9, at=BUSY.now - 8.0)
    found = reports(
        ended(0, 6.0, exit_code=1, first_failure=peer_lost),
        ended(1, 4.0, exit_code=1, first_failure=killed),
    )
    (verdict,) = found[1].verdicts
    assert verdict.evidence == (
        f"node 1, {B}, failed first (rank 2: signal KILL); then {A} (rank 0: exit code 1)"
    )
    assert not found[0].verdicts


def test_of_a_run_that_was_stopped_nobody_is_blamed() -> None:
    stopped = [node(rank, state="STOPPED", ended_at=BUSY.now - rank) for rank in (0, 1)]
    assert codes(*stopped) == [[], []]


def test_a_straggler_is_told_by_its_own_work_as_all_steps_take_the_same_time() -> None:
    names = NAMES
    seen = [working(node(rank, names=names), work, steps_per_s=2.0)
            for rank, work in enumerate((0.20, 0.31, 0.22))]  # fmt: skip
    assert codes(*seen) == [[], ["straggler"], []]
    (verdict,) = reports(*seen)[1].verdicts
    assert verdict.evidence == (
        f"a step takes {B} 0.31 s of its own work, and the others 0.21 s: they wait for it"
    )
    even = [working(node(rank, names=names), work) for rank, work in enumerate((0.20, 0.24, 0.22))]
    assert codes(*even) == [[], [], []]


def test_where_work_is_not_told_the_time_of_a_whole_step_counts() -> None:
    seen = [working(node(rank), None, steps_per_s=rate) for rank, rate in enumerate((2.0, 1.0))]
    assert codes(*seen) == [[], ["straggler"]]


def test_one_node_alone_is_no_straggler() -> None:
    assert codes(working(node(0), 9.0), node(1)) == [[], []]


def test_as_json_every_run_stands_once_with_all_its_nodes() -> None:
    found = reports(working(node(0), 0.2), ended(1, 30.0, signal="KILL"))
    (run,) = json.loads(json.dumps(runs_object(found)))
    assert run["id"] == RUNNING.id
    assert [one["target"] for one in run["nodes"]] == [A, B]
    assert set(run["nodes"][0]) == {
        "target", "rank", "state", "step", "step_s", "work_s", "ended_ago_s", "ended_by",
    }  # fmt: skip
    assert run["nodes"][1]["ended_by"] == "signal KILL"
    assert [(one["target"], one["code"]) for one in run["verdicts"]] == [(B, "node_lost")]
    assert runs_object(reports(BUSY)) == []


def test_of_targets_that_answer_nothing_no_run_is_known() -> None:
    assert across({A: None, B: None}) == ()
