from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from dflashctl.agent.seen import BucketsSeen, CutTransaction, LockSeen, Observed
from dflashctl.agent.watching import RestartSeen
from dflashctl.errors import ContainerStopped, HostKeyUnknown, Unreachable
from tests.cli.world import World
from tests.plan.scenes import ADOPTED, BARE, BUSY, EMPTY, FAILED, GPUS, METRICS, OVER, RUNNING

STOPPED = replace(OVER, state="STOPPED", run=replace(FAILED, state="STOPPED", exit_code=None))
FINISHED = replace(OVER, state="FINISHED", run=replace(FAILED, state="FINISHED", exit_code=0))
ORPHANED = replace(BUSY, state="ORPHANED", run=replace(RUNNING, state="ORPHANED"), session=None)
CUT = CutTransaction(id="t-9", step="StopRun", at=1_795_860_000.0, who="ann@desk")
HUNG = replace(GPUS, status="unresponsive", gpus=(), error="nvidia-smi gave no answer in 6 s")
DOWN = Unreachable(target="kpro6/eval", address="192.0.2.61", reason="connection refused")


@pytest.mark.parametrize(
    ("seen", "code"),
    [
        (BUSY, 0),
        (ADOPTED, 0),
        (replace(BUSY, state="STARTING"), 0),
        (BARE, 3),
        (STOPPED, 3),
        (FINISHED, 3),
        (OVER, 4),
        (replace(OVER, state="INTERRUPTED", cut=CUT), 4),
        (ORPHANED, 5),
        (replace(BUSY, gpus=HUNG), 5),
        (replace(BUSY, gpus=replace(HUNG, status="unreadable", error="No devices")), 5),
        (replace(BUSY, cut=CUT), 5),
        (replace(OVER, gpus=HUNG), 4),
        (replace(BUSY, gpus=replace(GPUS, status="absent", gpus=())), 0),
    ],
)
def test_the_exit_code_says_how_the_job_stands(world: World, seen: Observed, code: int) -> None:
    world.answers = [seen]
    assert world.run("status").code == code


def test_one_target_shows_all_that_a_person_asks(world: World) -> None:
    world.answers = [BUSY]
    result = world.run("status")
    for fact in (
        "here", "RUNNING", RUNNING.id, "4242", "2026-11-28 09:00 UTC (3 h 6 min)",
        "8x NVIDIA H200", "0/140 GiB", "30 °C", "75 W", "17, latest step-00003400", "41.2 GB",
        "900.0 GB free of 2.0 TB", RUNNING.release,
    ):  # fmt: skip
        assert fact in result.out
    assert result.err == ""


@pytest.mark.parametrize(
    ("run", "words"),
    [
        ({"exit_code": 1}, "exit code 1"),
        ({"exit_code": None, "signal": "KILL"}, "signal KILL"),
        ({"exit_code": None, "signal": "KILL", "oom": True}, "out of memory, signal KILL"),
        ({"exit_code": 75, "exit_name": "interrupted"}, "exit code 75 (interrupted)"),
        ({"exit_code": None}, "how is unknown"),
    ],
)
def test_a_run_that_is_over_says_how_it_ended(
    world: World, run: dict[str, Any], words: str
) -> None:
    world.answers = [replace(OVER, run=replace(FAILED, **run))]
    assert words in world.run("status").out


def test_a_hand_started_session_is_shown_in_place_of_an_older_run(world: World) -> None:
    world.answers = [replace(ADOPTED, run=FAILED)]
    out = world.run("status").out
    assert "ADOPTED" in out
    assert "started by hand" in out
    assert "777" in out
    assert FAILED.id not in out


def test_a_driver_that_hangs_is_not_responding(world: World) -> None:
    world.answers = [replace(BUSY, gpus=HUNG)]
    out = world.run("status").out
    assert "not responding" in out
    assert "nvidia-smi gave no answer in 6 s" in out


def test_who_is_at_work_and_what_was_cut_are_shown(world: World) -> None:
    lock = LockSeen(who="ann@desk", since=1_795_860_000.0, transaction="t-1")
    world.answers = [replace(OVER, lock=lock, cut=CUT)]
    out = world.run("status").out
    assert "ann@desk, since 2026-11-28 10:00 UTC" in out
    assert "transaction t-9 of ann@desk, in step StopRun" in out


@pytest.mark.parametrize(
    ("store", "words"),
    [
        (None, None),
        (EMPTY, "none"),
        (replace(EMPTY, exists=False), "no folder yet"),
        (
            replace(EMPTY, count=3, latest="last.pt", latest_at=None, size=None),
            "3, latest last.pt, ?",
        ),
    ],
)
def test_checkpoints_are_shown_as_far_as_they_are_known(
    world: World, store: Any, words: str | None
) -> None:
    world.answers = [replace(BUSY, checkpoints=store)]
    out = world.run("status").out
    assert (words in out) if words else ("checkpoints" not in out)


@pytest.mark.parametrize("width", ["80", "120", "200"])
def test_many_targets_are_rows_that_fit(world: World, width: str) -> None:
    world.environ["COLUMNS"] = width
    world.answers = [replace(BUSY, metrics=METRICS)]
    world.unreachable["kpro6/eval"] = DOWN
    result = world.run("status", "--all")
    lines = result.out.splitlines()
    assert lines[0] == "4 targets: 3 running, 1 unreachable"
    assert lines[2].split() == ["TARGET", "RUN", "GPUS", "CHECKPOINTS"]
    assert lines[3] == "kpro6/eval    unreachable"  # the sick come first
    assert max(map(len, lines)) <= int(width)
    assert all(line == line.rstrip() for line in lines)
    assert result.out.count(RUNNING.id) == 3
    assert result.out.count("11%, 1 h left, loss 4.58") == 3
    assert "UNREACHABLE" in result.out


def test_many_targets_on_a_narrow_terminal_are_lists(world: World) -> None:
    world.environ["COLUMNS"] = "40"
    world.answers = [BUSY]
    result = world.run("status", "--all")
    assert max(map(len, result.out.splitlines())) <= 40
    assert result.out.count("RUNNING") == 4


def test_a_dead_host_of_many_is_told_once(world: World) -> None:
    world.answers = [BUSY]
    names = [f"c{n}" for n in range(40)]
    inside = "".join(f"      {name}: {{vmid: {n}}}\n" for n, name in enumerate(names, 100))
    hosts = world.cwd / "inventory" / "hosts.yml"
    hosts.write_text(
        "version: 1\nhosts:\n  dead:\n    address: 192.0.2.9\n    containers:\n" + inside
        + "  alive:\n    address: 192.0.2.8\n    containers:\n" + inside
    )  # fmt: skip
    for name in ("dead", *(f"dead/{name}" for name in names)):
        world.unreachable[name] = Unreachable(
            target=name, address="192.0.2.9", reason="no route to host"
        )
    result = world.run("status", "--all")
    assert result.code == 69
    assert result.out.startswith("82 targets: 41 running, 41 unreachable\n")
    assert len(result.out.splitlines()) < 10
    assert result.err.count("error:") == 1
    assert "the same on 40 more: dead/c0, dead/c1, dead/c2, ...\n" in result.err
    targets = json.loads(world.run("status", "--all", "--json").out)["targets"]
    assert next(iter(targets)) == "dead"  # the inventory's order


def test_the_worst_of_several_counts_and_the_others_are_still_shown(world: World) -> None:
    world.answers = [BUSY]
    world.unreachable["kpro6/eval"] = DOWN
    result = world.run("status", "-t", "training")
    assert result.code == 69
    assert RUNNING.id in result.out
    assert "kpro6/eval cannot be reached at 192.0.2.61: connection refused." in result.err


def test_a_stopped_container_is_told_from_an_unreachable_one(world: World) -> None:
    world.unreachable["kpro6/dflash"] = ContainerStopped(
        target="kpro6/dflash", vmid=200, host="kpro6"
    )
    result = world.run("status", "-t", "dflash")
    assert result.code == 78
    assert "container stopped" in result.out
    assert "pct start 200" in result.err


def test_a_refusal_to_trust_a_key_outranks_a_dead_host(world: World) -> None:
    world.unreachable = {
        "kpro6/eval": DOWN,
        "kpro6": HostKeyUnknown(
            target="kpro6", host="192.0.2.6", port=22, key_type="ED25519", fingerprint="SHA256:x"
        ),
    }
    assert world.run("status", "--all").code == 76


def test_nothing_of_a_target_reaches_the_terminal_raw(world: World) -> None:
    evil = "x\x1b]0;owned\x07\x1b[2J[bold]y[/bold]\u202e"
    store = replace(EMPTY, count=1, latest=evil)
    session = replace(ADOPTED.session, name=evil)  # type: ignore[type-var]  # it has a session
    gpus = replace(HUNG, status="unreadable", error=evil)
    seen = replace(ADOPTED, checkpoints=store, session=session, gpus=gpus)
    world.answers = [seen]
    for words in (("status",), ("status", "--all"), ("status", "--json")):
        result = world.run("--color", "always", *words)
        text = result.out.replace("\x1b[", "")
        assert "owned" not in text or words[-1] == "--json"
        assert "\x1b]" not in result.out
        assert "\u202e" not in result.out
    assert "[bold]y[/bold]" in world.run("status").out


def test_only_an_asked_target_is_looked_at(world: World) -> None:
    world.run("status")
    assert len(world.looks) == 1
    world.looks.clear()
    world.run("status", "-t", "dflash", "-t", "kpro6")
    assert len(world.looks) == 2


def test_status_asks_for_no_more_than_it_shows(world: World) -> None:
    world.run("status")
    assert (world.looks[0].files, world.looks[0].probe, world.looks[0].gpus) == ((), None, True)


def test_a_clock_out_of_order_does_not_end_a_status(world: World) -> None:
    run = replace(RUNNING, started_at=1e300)
    world.answers = [replace(BUSY, run=run, now=-1e300)]
    assert world.run("status").code == 0
    json.loads(world.run("status", "--json").out)


@pytest.mark.parametrize(
    ("came", "why", "words"),
    [
        ("waits", "", "attempt 2 of 3 due 2026-11-28 12:06 UTC (in 30 s); dflashctl stop"),
        ("started", "r-9", "attempt 2 of 3 made: run r-9"),
        ("cancelled", "ann@desk", "attempt 2 of 3 cancelled by ann@desk"),
        ("given_up", "the limit of 2 is reached", "given up: the limit of 2 is reached"),
        ("unwatched", "", "but the watchdog is gone"),
    ],
)
def test_what_the_watchdog_does_about_a_failure_is_told(
    world: World, came: Any, why: str, words: str
) -> None:
    restart = RestartSeen(number=2, limit=3, due_at=OVER.now + 30, came=came, why=why)
    world.answers = [replace(OVER, restart=restart)]
    result = world.run("status")
    assert words in " ".join(result.out.split())
    world.answers = [replace(OVER, restart=restart)]
    found = json.loads(world.run("status", "--json").out)["targets"]["here"]["restart"]
    assert (found["came"], found["due_at"]) == (came, "2026-11-28T12:06:30Z")


def test_speed_and_padding_stand_beside_what_the_buckets_promised(world: World) -> None:
    buckets = BucketsSeen(path="/b", sha256="0" * 12, boundaries=(0, 8192),
                          expected_efficiency=0.868, predicted_tokens_per_s=25_600.0)  # fmt: skip
    metrics = replace(METRICS, padding_efficiency=0.865)
    world.answers = [replace(BUSY, run=replace(RUNNING, buckets=buckets), metrics=metrics)]
    out = world.run("status").out
    assert "98% of the 25.6 Ktok/s that the buckets promised" in out
    assert "86.5% of the tokens are real; the buckets promised 86.8%" in out
    world.answers = [replace(BUSY, metrics=METRICS)]
    assert "promised" not in world.run("status").out
