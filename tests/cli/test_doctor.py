"""doctor: each check stands alone, and whatever is wrong is on the page."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from dflashctl.cli import ownside
from dflashctl.errors import HostKeyUnknown
from tests.cli.world import World
from tests.plan.scenes import BARE


def doctor(world: World, *words: str, code: int) -> dict[str, Any]:
    result = world.run("doctor", "--json", *words)
    assert result.code == code, result.err
    answer = json.loads(result.out)
    assert isinstance(answer, dict)
    return answer


def verdicts(found: list[dict[str, Any]]) -> dict[str, str]:
    return {one["check"]: one["verdict"] for one in found}


@pytest.fixture(autouse=True)
def _own_side_is_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine that runs the tests may have no key, and that is not what they are about."""
    monkeypatch.setattr(ownside, "own_findings", lambda _: ())


def test_a_target_where_all_is_well_has_every_check_and_no_problem(world: World) -> None:
    answer = doctor(world, code=0)
    assert set(verdicts(answer["here"])) == {"inventory", "playbook"}
    found = verdicts(answer["targets"]["here"]["findings"])
    wanted = {"reached", "GPUs", "uvm", "driver", "python", "tmux", "clock", "state", "run"}
    assert wanted | {"files", "checkpoints", "interpreter", "GPUs free", "room"} == set(found)
    assert "problem" not in found.values()


def test_a_problem_on_a_target_is_65_with_its_remedy(world: World) -> None:
    world.answers = [replace(BARE, tmux=None)]
    result = world.run("doctor")
    assert result.code == 65
    assert "apt install tmux" in result.out
    assert result.out.count("there is no tmux") == 1
    assert "1 problem" in result.err


def test_an_unreachable_target_does_not_end_it(world: World) -> None:
    world.unreachable["kpro6"] = HostKeyUnknown(
        target="kpro6", host="kpro6", port=22, key_type="ssh-ed25519", fingerprint="SHA256:abc"
    )
    answer = doctor(world, "-t", "kpro6", "-t", "here", code=65)
    assert verdicts(answer["targets"]["here"]["findings"])["reached"] == "ok"
    (only,) = answer["targets"]["kpro6"]["findings"]
    assert "SHA256:abc" in only["evidence"]
    assert "dflashctl inventory trust kpro6" in only["remedy"]


def test_without_an_inventory_this_side_is_checked_all_the_same(world: World) -> None:
    (world.cwd / "inventory" / "hosts.yml").unlink()
    answer = doctor(world, code=65)
    assert answer["targets"] == {}
    assert verdicts(answer["here"]) == {"inventory": "problem", "playbook": "ok"}


def test_a_broken_playbook_leaves_the_target_s_own_checks(world: World) -> None:
    (world.cwd / "playbooks" / "deploy.yml").write_text("version: 1\nname: x\nbogus: 1\n")
    answer = doctor(world, code=65)
    assert verdicts(answer["here"])["playbook"] == "problem"
    found = verdicts(answer["targets"]["here"]["findings"])
    assert (found["tmux"], found["job"]) == ("ok", "unchecked")


def test_without_a_default_target_all_are_looked_at(world: World) -> None:
    path = world.cwd / "inventory" / "hosts.yml"
    path.write_text(path.read_text().replace("default_target: here\n", ""))
    assert len(doctor(world, code=0)["targets"]) == 4
    assert world.run("doctor", "-t", "nobody").code == 2
