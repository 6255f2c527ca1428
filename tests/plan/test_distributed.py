"""One run over several targets, as plans see it: addresses, torchrun's words, who is in it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflashctl.agent.fabric import Interface, Node
from dflashctl.agent.keeping import ClearCheckpoints
from dflashctl.agent.protocol import StartRun
from dflashctl.errors import Refusal
from dflashctl.inventory.model import Local, Target
from dflashctl.plan.deploy import plan_deploy
from dflashctl.plan.look import look_for
from dflashctl.plan.model import Desired, Place, Plan, Sight
from dflashctl.plan.network import Spot, meeting
from dflashctl.plan.stop import plan_stop
from dflashctl.plan.together import first_of_each_folder, no_way, places
from dflashctl.plan.torchrun import launcher, with_network, without_network
from dflashctl.playbook.model import DistributedSpec, PreflightSpec, RunSpec

from .scenes import BARE, BUSY, DESIRED, PLAYBOOK, RECORD, RUN_ID

A, B = "kpro6/dflash", "kpro7/dflash"
SPEC = DistributedSpec(nproc_per_node=8)
TRAINER = ("/root/venv/bin/python", "/root/train.py", "--lr", "1e-3")


def at(name: str, *addresses: str, fabric: str | None = None) -> Spot:
    """``eth0=10.0.0.1/24`` or, with the link's speed, ``ib0=10.1.0.1/24@100000``."""
    return Spot(name=name, interfaces=tuple(map(interface, addresses)), fabric_address=fabric)


def interface(text: str) -> Interface:
    name, _, rest = text.partition("=")
    address, _, rest = rest.partition("/")
    prefix, _, speed = rest.partition("@")
    return Interface(name=name, address=address, prefix=int(prefix),
                     mbit_per_s=int(speed) if speed else None)  # fmt: skip


def found(*spots: Spot, on: str = "auto") -> list[str]:
    return [
        one.code if isinstance(one, Refusal) else f"{one.name} {one.address}"
        for one in meeting(spots, on)
    ]


# --- addresses --------------------------------------------------------------------------


def test_targets_meet_on_the_network_that_all_of_them_have() -> None:
    left = at(A, "lan0=192.168.1.5/24", "eth0=10.0.0.1/24")
    right = at(B, "eth3=10.0.0.2/24", "wan0=203.0.113.9/24")
    assert found(left, right) == ["eth0 10.0.0.1", "eth3 10.0.0.2"]


def test_of_several_the_quickest_is_taken_then_the_lowest() -> None:
    left = at(A, "eth0=10.0.0.1/24@1000", "ib0=10.9.0.1/24@200000", "x0=10.1.0.1/24@1000")
    right = at(B, "eth0=10.0.0.2/24@1000", "ib0=10.9.0.2/24@200000", "x0=10.1.0.2/24@1000")
    assert found(left, right) == ["ib0 10.9.0.1", "ib0 10.9.0.2"]
    slow = at(B, "eth0=10.0.0.2/24@1000", "ib0=10.9.0.2/24@100", "x0=10.1.0.2/24@1000")
    assert found(left, slow) == ["eth0 10.0.0.1", "eth0 10.0.0.2"]


def test_a_bridge_that_each_machine_has_for_itself_is_no_network_between_them() -> None:
    left = at(A, "docker0=172.17.0.1/16@10000", "eth0=10.0.0.1/24")
    right = at(B, "docker0=172.17.0.1/16@10000", "eth0=10.0.0.2/24")
    assert found(left, right) == ["eth0 10.0.0.1", "eth0 10.0.0.2"]


@pytest.mark.provokes("refused.no_shared_network")
def test_without_a_network_in_common_it_is_told_who_has_what() -> None:
    first, _ = meeting((at(A, "eth0=10.0.0.1/24"), at(B, "eth0=10.0.1.1/24")), "auto")
    assert isinstance(first, Refusal)
    assert first.code == "no_shared_network"
    assert f"{A} has eth0 10.0.0.1/24; {B} has eth0 10.0.1.1/24" in first.message
    assert "fabric_address" in first.remedy


def test_what_the_inventory_names_counts_and_leads_the_others() -> None:
    left = at(A, "eth0=10.0.0.1/24@1000", "eth1=10.1.0.1/24@10", fabric="10.1.0.1")
    right = at(B, "eth0=10.0.0.2/24@1000", "eth1=10.1.0.2/24@10")
    assert found(left, right) == ["eth1 10.1.0.1", "eth1 10.1.0.2"]


def test_addresses_that_are_all_named_may_be_on_networks_of_their_own() -> None:
    left = at(A, "eth0=10.0.0.1/24", fabric="10.0.0.1")
    right = at(B, "eth0=10.0.1.1/24", fabric="10.0.1.1")
    assert found(left, right) == ["eth0 10.0.0.1", "eth0 10.0.1.1"]
    six = at(B, "eth0=fd00::2/64", fabric="fd00::2")
    assert found(left, six) == ["eth0 10.0.0.1", "eth0 fd00::2"]


@pytest.mark.provokes("refused.no_network")
def test_a_named_interface_is_taken_on_each_of_them() -> None:
    left = at(A, "eth0=10.0.0.1/24@1000", "eth1=10.1.0.1/24")
    right = at(B, "eth0=10.0.0.2/24@1000", "eth1=10.1.9.2/24")
    assert found(left, right, on="eth1") == ["eth1 10.1.0.1", "eth1 10.1.9.2"]
    assert found(left, at(B, "eth0=10.0.0.2/24"), on="eth1") == ["eth1 10.1.0.1", "no_network"]


@pytest.mark.provokes("refused.no_such_address")
def test_an_address_that_is_not_there_is_told_with_those_that_are() -> None:
    (refusal, _) = meeting((at(A, "eth0=10.0.0.1/24", fabric="10.0.0.9"), at(B)), "auto")
    assert isinstance(refusal, Refusal)
    assert refusal.code == "no_such_address"
    assert "eth0 10.0.0.1/24" in refusal.message


@given(st.permutations(["eth0=10.0.0.{}/24", "eth1=10.1.0.{}/24", "ib0=10.2.0.{}/24@400000"]))
def test_the_order_of_interfaces_decides_nothing(order: list[str]) -> None:
    left, right = (at(name, *(text.format(number) for text in order))
                   for number, name in enumerate((A, B), start=1))  # fmt: skip
    assert found(left, right) == ["ib0 10.2.0.1", "ib0 10.2.0.2"]


# --- torchrun's words -------------------------------------------------------------------


def run_of(*command: str) -> RunSpec:
    assert PLAYBOOK.run is not None
    return replace(PLAYBOOK.run, command=command)


def node(rank: int, **more: Any) -> Node:
    settings = {"names": (A, B), "port": 29400, "master": "10.0.0.1",
                "address": f"10.0.0.{rank + 1}", "interface": "eth0"}  # fmt: skip
    return Node(rank=rank, **{**settings, **more})


def words(spec: DistributedSpec, place: Node, *command: str) -> str:
    playbook = replace(PLAYBOOK, distributed=spec)
    return " ".join(launcher(playbook, run_of(*(command or TRAINER)), place, RUN_ID))


def test_a_static_run_says_rank_and_node_0s_address() -> None:
    assert words(SPEC, node(1)) == (
        "/root/venv/bin/python -m torch.distributed.run --nnodes 2 --node-rank 1 "
        f"--master-addr 10.0.0.1 --master-port 29400 --rdzv-id {RUN_ID} --local-addr 10.0.0.2 "
        "--nproc-per-node 8 --max-restarts 0 --no-python"
    )


def test_an_elastic_run_says_how_few_may_go_on_and_who_is_the_host() -> None:
    spec = replace(SPEC, rendezvous="c10d", min_nodes=1, max_restarts=3)
    told = [words(spec, node(rank)) for rank in (0, 1)]
    for text in told:
        assert "--nnodes 1:2 --rdzv-backend c10d --rdzv-endpoint 10.0.0.1:29400" in text
        assert "--max-restarts 3" in text
    assert "is_host=1" in told[0]
    assert "is_host=0" in told[1]
    whole = words(replace(spec, min_nodes=None), node(0, master="fd00::1"))
    assert "--nnodes 2:2" in whole
    assert "--rdzv-endpoint [fd00::1]:29400" in whole


def test_a_single_node_meets_nobody() -> None:
    alone = node(0, names=(A,), master=None, address=None, interface=None)
    assert "--standalone --local-addr 127.0.0.1 --nproc-per-node 8" in words(SPEC, alone)


def test_torchrun_is_the_one_of_the_commands_interpreter_else_of_preflights() -> None:
    assert words(SPEC, node(0), "python3.11", "-m", "train").startswith("python3.11 -m torch.")
    assert words(SPEC, node(0), "bash", "start.sh").startswith("python3 -m torch.")
    playbook = replace(
        PLAYBOOK, distributed=SPEC, preflight=PreflightSpec(python="/opt/venv/bin/python")
    )
    assert launcher(playbook, run_of("bash", "x.sh"), node(0), RUN_ID)[0] == "/opt/venv/bin/python"


def test_without_distributed_nothing_comes_before_the_words() -> None:
    assert launcher(PLAYBOOK, run_of(*TRAINER), node(0), RUN_ID) == ()


# --- places and plans -------------------------------------------------------------------


def desired(name: str, *, spec: DistributedSpec | None = SPEC, nodes: int = 2) -> Desired:
    target = Target(name=name, route=Local(), gpus=8)
    job = replace(PLAYBOOK, distributed=spec, run=run_of(*TRAINER))
    return replace(DESIRED, playbook=job, target=target, nodes=(A, B)[:nodes])


def sights(*seen: Any, **more: Any) -> tuple[Sight, ...]:
    made = []
    for number, (name, look) in enumerate(zip((A, B), seen, strict=False), start=1):
        wanted = desired(name, **more)
        there = replace(look, interfaces=(interface(f"eth0=10.0.0.{number}/24"),))
        made.append(Sight(desired=wanted, look=look_for(wanted), seen=there))
    return tuple(made)


def placed(*seen: Any, **more: Any) -> list[Sight]:
    whole = sights(*seen, **more)
    found = places(whole)
    assert not any(isinstance(one, Refusal) for one in found)
    return [
        replace(one, desired=replace(one.desired, place=place))
        for one, place in zip(whole, found, strict=True)
        if isinstance(place, Place)
    ]


def deploy(sight: Sight, **more: Any) -> Plan:
    how = {"restart": False, "clear": False, "wait": True, **more}
    return plan_deploy(sight.desired, sight.seen, **how)


def start_of(plan: Plan) -> StartRun:
    (start,) = [step.action for step in plan.steps if isinstance(step.action, StartRun)]
    return start


def test_all_nodes_are_started_with_one_id_and_the_playbooks_own_words() -> None:
    starts = [start_of(deploy(one)) for one in placed(BARE, BARE)]
    assert {one.run_id for one in starts} == {RUN_ID}
    assert {one.command for one in starts} == {TRAINER}
    assert [one.about.node and one.about.node.rank for one in starts] == [0, 1]
    for start in starts:
        assert start.launcher[-1] == "--no-python"
        assert start.env["GLOO_SOCKET_IFNAME"] == "eth0"
        assert start.env["NCCL_SOCKET_IFNAME"] == "=eth0"
        assert start.env["PET_SHUTDOWN_TIMEOUT"] == "120", "as long as stop.grace"


def test_what_the_playbook_sets_itself_stays() -> None:
    one = placed(BARE, BARE)[0].desired
    run = replace(run_of(*TRAINER), env={"NCCL_SOCKET_IFNAME": "ib"})
    assert with_network(run, one).env["NCCL_SOCKET_IFNAME"] == "ib"
    secret = replace(one, secrets={"GLOO_SOCKET_IFNAME": "x"})
    assert "GLOO_SOCKET_IFNAME" not in with_network(run, secret).env


def test_an_earlier_runs_interface_is_not_carried_into_a_rollback() -> None:
    env = {"NCCL_SOCKET_IFNAME": "=eth0", "GLOO_SOCKET_IFNAME": "own", "X": "1"}
    assert without_network(env, node(0)) == {"GLOO_SOCKET_IFNAME": "own", "X": "1"}
    assert without_network(env, None) == env


def test_the_file_of_metrics_is_node_0s() -> None:
    job = replace(PLAYBOOK, metrics=replace(PLAYBOOK.metrics, jsonl="/workspace/m.jsonl"))
    starts = []
    for one in placed(BARE, BARE):
        wanted = replace(one.desired, playbook=replace(job, distributed=SPEC))
        starts.append(start_of(deploy(replace(one, desired=wanted))))
    assert [one.about.metrics for one in starts] == [{"jsonl": "/workspace/m.jsonl"}, {}]


def test_all_resume_or_none_as_node_0s_checkpoints_say() -> None:
    wanted = replace(run_of(*TRAINER), resume=(*TRAINER, "--resume"))
    there = replace(BARE, checkpoints=BUSY.checkpoints)
    for seen, resumed in (((there, BARE), True), ((BARE, there), False)):
        for one in placed(*seen):
            job = replace(one.desired.playbook, run=wanted)
            command = start_of(deploy(replace(one, desired=replace(one.desired, playbook=job))))
            assert (command.command[-1] == "--resume") is resumed


def test_a_node_that_lost_its_part_cannot_join_a_run_that_goes_on_elsewhere() -> None:
    first, second = placed(BUSY, BARE)
    assert not deploy(first).refusals
    (refusal,) = [one for one in deploy(second).refusals if one.code == "part_of_a_run"]
    assert f"runs on {A} and not on {B}" in refusal.message
    codes = {one.code for one in deploy(second, restart=True).refusals}
    assert "part_of_a_run" not in codes


@pytest.mark.provokes("refused.part_of_a_run")
def test_a_part_of_a_run_is_not_restarted_without_the_rest() -> None:
    assert BUSY.run is not None
    seen = replace(BUSY, run=replace(BUSY.run, node=node(0)))
    (alone,) = placed(seen, nodes=1)
    refusal = next(one for one in deploy(alone, restart=True).refusals)
    assert refusal.code == "part_of_a_run"
    assert f"-t {A} -t {B}" in refusal.remedy
    (note,) = plan_stop(alone.desired, seen).notes
    assert B in note
    assert not plan_stop(placed(seen, seen)[0].desired, seen).notes


@pytest.mark.provokes("refused.too_few_targets")
def test_fewer_targets_than_min_nodes_are_refused() -> None:
    spec = replace(SPEC, rendezvous="c10d", min_nodes=3)
    for one in placed(BARE, BARE, spec=spec):
        assert "too_few_targets" in {each.code for each in deploy(one).refusals}


def test_a_folder_that_two_targets_have_is_cleared_once() -> None:
    there = replace(BARE, checkpoints=BUSY.checkpoints, store=BUSY.store)
    first, second = placed(there, there)
    place = second.desired.place
    assert place is not None
    second = replace(second, desired=replace(second.desired, place=replace(place, kept_at=A)))
    plans = [deploy(one, clear=True) for one in (first, second)]
    cleared = [any(isinstance(s.action, ClearCheckpoints) for s in plan.steps) for plan in plans]
    assert cleared == [True, False]
    assert any(A in note and "once" in note for note in plans[1].notes)


@pytest.mark.parametrize(
    ("seen", "first"),
    [
        ({0: (0,), 1: (1,)}, {0: 0, 1: 1}),
        ({0: (0, 1), 1: (1,)}, {0: 0, 1: 0}),
        ({0: (0,), 1: (1, 2), 2: (2,)}, {0: 0, 1: 1, 2: 1}),
        ({0: (0, 2), 1: (1, 2), 2: (2,)}, {0: 0, 1: 0, 2: 0}),
        ({0: (), 1: ()}, {0: 0, 1: 1}),
    ],
)
def test_who_has_a_folder_first(seen: dict[int, tuple[int, ...]], first: dict[int, int]) -> None:
    assert first_of_each_folder(seen) == first


@pytest.mark.provokes("refused.no_way_between")
def test_no_way_between_names_both_targets_address_and_port() -> None:
    here, there = (one.desired.place for one in placed(BARE, BARE))
    assert here is not None
    assert there is not None
    message = no_way(here, there, "no answer").message
    for word in (A, B, "10.0.0.1", "10.0.0.2", "29400", "no answer"):
        assert word in message


@pytest.mark.provokes("refused.different_runs")
def test_a_rollback_goes_back_to_one_run_everywhere() -> None:
    first, second = sights(BARE, BARE)
    other = replace(RECORD, run=replace(RECORD.run, id="2026-11-28T1206Z-dflash-aaaa"))
    same = places((replace(first, record=RECORD), replace(second, record=RECORD)))
    assert not any(isinstance(one, Refusal) for one in same)
    for refusal in places((replace(first, record=RECORD), replace(second, record=other))):
        assert isinstance(refusal, Refusal)
        assert refusal.code == "different_runs"
        assert f"{other.run.id} on {B}" in refusal.message
