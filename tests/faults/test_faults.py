"""A command is cut somewhere; whatever it was, the five invariants hold."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.faults import judge
from tests.faults.cases import RUNNING, WORDS, Case
from tests.faults.strike import Strike, may_end_with
from tests.faults.world import PATIENCE_S, World, until

if TYPE_CHECKING:
    from tests.conftest import Lab
    from tests.faults.conftest import Keeper, Tried

pytestmark = [pytest.mark.faults, pytest.mark.timeout(180)]
CLI = ("cli-int", "cli-term", "cli-kill")
# The link goes, the agent stays.
LINK = ("reset", "away", "black-hole", "slow-link", *CLI)
DISK = ("disk-full", "read-only")


def test_a_cut(case: Case, world: World, strike: Strike, tried: Tried) -> None:
    prepare(case, world)
    was = judge.before(world)
    world.broken = True  # until all is seen to be well
    if case.verb in ("restart", "clear", "archive", "deploy"):
        world.write(world.version + 1)
    if case.moment is not None and case.moment[0] != "time":
        world.halt_at({case.moment[0]: case.moment[1]})
    strike.begin()
    command = world.start(*WORDS[case.verb])
    if case.moment is not None:
        strike.come(command, strike.await_moment(command))
    if strike.proxy is not None:
        strike.while_it_goes_on(command)
    command.wait(PATIENCE_S + 60)
    if strike.struck:
        tried.strike()
    if case.fault in ("away", "black-hole"):
        strike.lift()
    allowed = may_end_with(case)
    judge.said_well(case, command, allowed if strike.struck else {0, *allowed})
    if case.fault in LINK:
        judge.a_lost_link_is_told(world, was, command)
    if strike.second is not None:
        strike.second.wait(PATIENCE_S)
        judge.said_well(case, strike.second, {0, 75})
        assert 0 in (command.poll(), strike.second.poll()), "one of two wins"
    if case.fault in ("stopped", "rebooted"):
        strike.lift()
    world.quiet()
    if case.fault in LINK:
        judge.it_ended_well(world, was)
    judge.status_is_true(world, was, disk=case.fault in DISK)
    strike.lift()
    judge.no_checkpoint_is_lost(world, was)
    judge.files_are_whole(world, was)
    judge.one_trainer(world)
    judge.the_same_again(case, world)
    judge.no_checkpoint_is_lost(world, was)
    world.broken = False


def prepare(case: Case, world: World) -> None:
    """The state that the case begins in, whatever the one before it left."""
    world.go_on()
    world.forget_old()
    if case.verb in RUNNING:
        if not world.those("trainer"):
            world.ok("deploy", "--restart")
    else:
        if not world.those("trainer"):
            world.ok("deploy")
        world.ok("stop")


@pytest.mark.lab
@pytest.mark.parametrize("call", range(4))
def test_a_status_whose_container_ends_in_the_middle_tells_that(
    lab_keeper: Keeper, lab: Lab, call: int
) -> None:
    world = lab_keeper.get()
    world.go_on()
    world.broken = True
    world.halt_at({"call": call})
    command = world.start("status", "--json")
    until(lambda: world.halted() or command.poll() is not None, PATIENCE_S, "it hangs")
    assert world.halted()
    lab.container.stop()
    try:
        command.wait(PATIENCE_S)
        assert command.poll() in (69, 78), command.out + command.err
        (seen,) = json.loads(command.out)["targets"].values()
        assert seen["error"]["code"] in ("link_lost", "unreachable", "container_stopped")
    finally:
        lab.container.start()
    world.go_on()
    world.ok("deploy", "--restart")
    world.broken = False
