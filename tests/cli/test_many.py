"""Verbs on several targets, in two phases."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from dflashctl.agent.protocol import Commit, Event, Outcome, StopRun
from dflashctl.agent.seen import LockSeen
from dflashctl.errors import LinkLost, LockHeld, Unreachable
from dflashctl.view.progress import Board
from tests.cli.test_deploy import RUNNING_ALREADY, failing, impatient
from tests.cli.world import PLAYBOOK, World, succeed
from tests.plan.scenes import BARE

__all__ = ["impatient"]

ALL = ["here", "kpro6", "kpro6/dflash", "kpro6/eval"]
BOTH = ("-t", "training")
ONE, OTHER = "kpro6/dflash", "kpro6/eval"


def flat(text: str) -> str:
    """A table's cells are folded; what they say is one line."""
    return " ".join(text.split())


def out_of_reach(target: str) -> Unreachable:
    return Unreachable(target=target, address="192.0.2.61:22", reason="No route to host")


@pytest.mark.parametrize(
    "options",
    [("--all",), ("-t", "training", "-t", "kpro6", "-t", "here"), ("-t", "eval", "--all")],
)
def test_all_that_are_named_are_deployed_to_and_told_in_the_inventory_s_order(
    world: World, options: tuple[str, ...]
) -> None:
    result = world.run("deploy", *options)
    assert result.code == 0
    assert sorted(world.committed) == sorted(ALL)
    rows = [line.split()[0] for line in result.out.splitlines()[1 : len(ALL) + 1]]
    assert rows == ALL
    value = json.loads(world.run("deploy", "--json", *options).out)
    assert list(value["targets"]) == ALL


def test_every_run_has_an_id_of_its_own(world: World) -> None:
    world.run("deploy", "--all")
    ids = [commit.actions[-1].run_id for commit in world.commits]  # type: ignore[union-attr]  # each ends with a check
    assert len(set(ids)) == len(ALL)


def test_plans_that_say_the_same_are_shown_once(world: World) -> None:
    world.answers_of["here"] = [RUNNING_ALREADY]
    result = world.run("deploy", "--all", "--dry-run")
    assert result.code == 10
    assert "Nothing to do on here" in result.out
    assert "Plan for kpro6, kpro6/dflash, kpro6/eval\n" in result.out
    assert result.out.count("start run") == 1
    assert "start run * in tmux session" in result.out


@pytest.mark.provokes("held_back")
def test_one_that_is_refused_keeps_all_untouched_and_the_way_round_it_is_named(
    world: World,
) -> None:
    world.answers_of[OTHER] = [RUNNING_ALREADY]
    result = world.run("deploy", *BOTH, "--clear-checkpoints")
    assert result.code == 65
    assert (world.commits, world.pushed) == ([], [])
    assert f"refused on {OTHER}" in result.err
    assert f"nothing was touched on {ONE} either" in result.err
    assert f"dflashctl deploy -t {ONE}" in result.err


def test_no_error_hides_another_and_the_gravest_is_the_exit_code(world: World) -> None:
    world.unreachable["kpro6"] = out_of_reach("kpro6")
    world.answers_of[ONE] = [replace(BARE, tmux=None)]
    lock = LockSeen(who="ann@desk", since=1_795_867_560.0, transaction="t-0")
    world.answers_of[OTHER] = [replace(BARE, lock=lock)]
    result = world.run("deploy", "--all")
    assert result.code == 69
    assert world.commits == []
    for words in ("kpro6 cannot be reached", f"{ONE} has no usable tmux", "ann@desk"):
        assert words in result.err
    value = json.loads(world.run("deploy", "--all", "--json").out)
    codes = {name: target["error"]["code"] for name, target in value["targets"].items()}
    assert codes == {
        "here": "held_back",
        "kpro6": "unreachable",
        ONE: "missing_tool",
        OTHER: "lock_held",
    }


def test_a_dead_host_is_told_once_for_all_that_is_on_it(world: World) -> None:
    for name in ("kpro6", ONE, OTHER):
        world.unreachable[name] = out_of_reach(name)
    result = world.run("deploy", "--all")
    assert result.err.count("cannot be reached") == 1
    assert f"the same on 2 more: {ONE}, {OTHER}" in result.err


def test_a_dry_run_shows_all_plans_and_ends_with_the_refusal(world: World) -> None:
    world.answers_of[OTHER] = [RUNNING_ALREADY]
    result = world.run("deploy", *BOTH, "--clear-checkpoints", "--dry-run")
    assert result.code == 65
    assert f"Plan for {ONE}" in result.out


def test_what_cannot_be_sent_to_one_is_begun_on_none(world: World) -> None:
    bare = replace(BARE, files=(replace(BARE.files[0], dest="/root/train.py"),))
    world.answers = [bare]
    world.push_error_of[OTHER] = LinkLost(target=OTHER, address=OTHER, reason="reset")
    result = world.run("deploy", *BOTH)
    assert result.code == 69
    assert world.commits == []
    assert f"nothing was touched on {ONE} either" in result.err


def test_stop_stops_those_that_it_can(world: World) -> None:
    world.answers = [RUNNING_ALREADY]
    world.unreachable["kpro6"] = out_of_reach("kpro6")
    result = world.run("stop", "--all")
    assert result.code == 69
    assert sorted(world.committed) == ["here", ONE, OTHER]
    assert "kpro6 cannot be reached" in result.err
    assert "UNREACHABLE" in result.out


def test_a_race_for_the_lock_in_the_second_phase_leaves_that_one_untouched(world: World) -> None:
    def locked(*_: object) -> None:
        raise LockHeld(target=OTHER, holder="ann@desk", since="2026-11-29T12:06:00Z")

    world.commit_of[OTHER] = locked  # type: ignore[assignment]  # it never returns
    result = world.run("deploy", *BOTH)
    assert result.code == 75
    assert f"run {world.commits[world.committed.index(ONE)].actions[-1].run_id}" in result.out  # type: ignore[union-attr]  # it ends with a check
    assert "locked by ann@desk; not touched" in result.out


def on_partial(world: World, rule: str) -> None:
    (world.cwd / "playbooks" / "deploy.yml").write_text(f"{PLAYBOOK}on_partial: {rule}\n")


def test_by_default_the_others_stay_when_one_fails(world: World) -> None:
    world.commit_of[OTHER] = failing("died_early", exit_code=1, signal=None, after_s=2.0, log=[])
    result = world.run("deploy", *BOTH)
    assert result.code == 66
    assert sorted(world.committed) == [ONE, OTHER]
    assert "started" in result.out
    assert "failed: check that it lives" in flat(result.out)


def test_with_stop_what_was_started_is_stopped_again(world: World) -> None:
    on_partial(world, "stop")
    world.commit_of[OTHER] = failing("died_early", exit_code=1, signal=None, after_s=2.0, log=[])
    world.answers_of[ONE] = [BARE, RUNNING_ALREADY]
    result = world.run("deploy", *BOTH)
    assert result.code == 66
    assert world.committed.count(ONE) == 2
    assert isinstance(world.commits[-1].actions[0], StopRun)
    assert "on_partial: stop" in result.err
    assert "then stopped again (on_partial: stop)" in flat(result.out)


@pytest.mark.usefixtures("impatient")
def test_those_that_lose_their_connection_together_share_the_new_one(world: World) -> None:
    def lost(commit: Commit, on_event: Callable[[Event], None]) -> Outcome:
        raise LinkLost(target="t", address="t", reason="silent for 30 s")

    world.commit = lost
    result = world.run("deploy", "--all")
    assert result.code == 0
    assert len(world.asked) == len(ALL)
    assert world.ways == 2
    assert f"{ONE}: The connection broke off; connecting again." in result.err


def test_a_second_ctrl_c_leaves_all_at_work_unwatched_and_stops_none_of_them(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_partial(world, "stop")
    through, told, over = threading.Event(), threading.Event(), threading.Event()
    monkeypatch.setattr(Board, "remark", lambda *_: told.set())

    def succeeds(commit: Commit, on_event: Callable[[Event], None]) -> Outcome:
        outcome = succeed(commit, on_event)
        through.set()
        return outcome

    def pressed(commit: Commit, on_event: Callable[[Event], None]) -> Outcome:
        assert through.wait(30)
        os.kill(os.getpid(), signal.SIGINT)
        assert told.wait(30)
        os.kill(os.getpid(), signal.SIGINT)
        over.wait(30)
        return succeed(commit, on_event)

    world.commit_of[ONE], world.commit_of[OTHER] = pressed, succeeds
    result = world.run("deploy", *BOTH)
    over.set()
    assert result.code == 130
    assert f"the transaction on {ONE} goes on" in result.err
    assert f"{OTHER} RUNNING" in flat(result.out)
    assert len(world.commits) == 2


def test_ctrl_c_while_looking_touches_nothing_anywhere(world: World) -> None:
    world.answers_of[ONE] = [KeyboardInterrupt()]
    result = world.run("deploy", *BOTH)
    assert result.code == 130
    assert "Nothing was touched" in result.err
    assert world.commits == []
