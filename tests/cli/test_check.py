"""inventory check: every target is reached, and the worst of them counts."""

from __future__ import annotations

import json
import time
from dataclasses import replace

from dflashctl.agent.seen import DriverSeen
from dflashctl.errors import ContainerStopped, Unreachable
from tests.cli.world import World
from tests.plan.scenes import BARE

WELL = replace(BARE, driver=DriverSeen(module="570.1", library="570.1"))


def test_without_a_name_all_targets_are_reached(world: World) -> None:
    world.answers = [WELL]
    result = world.run("inventory", "check", "--json")
    answer = json.loads(result.out)
    assert list(answer["targets"]) == ["here", "kpro6", "kpro6/dflash", "kpro6/eval"]
    assert answer["targets"]["kpro6"]["driver_module"] == "570.1"
    assert all(look.driver and look.gpus for look in world.looks)


def test_fewer_gpus_than_declared_are_a_problem_with_a_remedy(world: World) -> None:
    assert WELL.gpus is not None
    world.answers = [replace(WELL, gpus=replace(WELL.gpus, gpus=WELL.gpus.gpus[:4]))]
    result = world.run("inventory", "check", "-t", "dflash")
    assert result.code == 65
    assert "4 of 8" in result.out
    assert "nvidia-smi -L" in result.out


def test_one_that_is_not_reached_does_not_keep_the_others_from_being_looked_at(
    world: World,
) -> None:
    world.answers = [replace(WELL, now=time.time() - 600)]
    world.unreachable["kpro6"] = Unreachable(target="kpro6", address="x:22", reason="timed out")
    world.unreachable["kpro6/dflash"] = ContainerStopped(
        target="kpro6/dflash", vmid=200, host="kpro6"
    )
    result = world.run("inventory", "check")
    assert result.code == 69
    assert "unreachable" in result.out
    assert "pct start 200" in result.out
    assert "behind this machine's" in result.out


def test_a_narrow_window_gets_lines_in_the_place_of_the_table(world: World) -> None:
    world.answers = [WELL]
    world.environ["COLUMNS"] = "50"
    result = world.run("inventory", "check", "-t", "kpro6")
    assert "VERDICT" not in result.out
    assert "8x NVIDIA" in result.out
    assert max(map(len, result.out.splitlines())) <= 50
    world.environ["COLUMNS"] = "80"
    result = world.run("inventory", "check", "-t", "kpro6")
    assert "VERDICT" in result.out


def test_what_keeps_us_from_a_host_is_told_once(world: World) -> None:
    for name in ("kpro6", "kpro6/dflash"):
        error = Unreachable(target=name, address="x:22", reason="timed out")
        world.unreachable[name] = error
    world.answers = [WELL]
    out = world.run("inventory", "check").out
    assert out.count("timed out") == 1
    assert "the same as kpro6\n" in out
