from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from dflashctl.agent.protocol import CancelRestart, StartRun, StopRun, VerifyRun
from dflashctl.agent.seen import Observed
from dflashctl.agent.watching import RestartSeen
from dflashctl.errors import MissingSetting
from dflashctl.plan.deploy import plan_deploy
from dflashctl.plan.model import Plan
from dflashctl.plan.start import plan_start
from dflashctl.plan.stop import plan_stop
from tests.plan.scenes import (
    ADOPTED,
    BARE,
    BUSY,
    DEPLOYED,
    DESIRED,
    EMPTY,
    FAILED,
    OLD,
    OVER,
    RUN_ID,
    SCRIPT,
    SESSION,
    TRAIN,
    action,
    actions,
    codes,
    placed,
    said,
    with_playbook,
    with_run,
)


def test_stop_ends_our_run_and_nothing_else() -> None:
    plan = plan_stop(DESIRED, BUSY)
    assert actions(plan) == ["StopRun"]
    assert said(plan, StopRun) == (
        "stop run 2026-11-28T0900Z-dflash-a2b3 (pid 4242)",
        "asked for; INT, after 120 s TERM, then KILL",
    )
    assert plan.run_id is None


def test_stop_ends_a_hand_started_session_too() -> None:
    assert action(plan_stop(DESIRED, ADOPTED), StopRun).run_id is None


def test_stop_with_nothing_running_tells_how_the_last_run_ended() -> None:
    plan = plan_stop(DESIRED, OVER)
    assert plan.steps == ()
    (note,) = plan.notes
    assert note == (
        "nothing runs; the last run 2026-11-28T0900Z-dflash-a2b3 ended"
        " 2026-11-28 12:06 UTC (FAILED, exit code 1)"
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"oom": True, "signal": "KILL", "exit_code": None},
            "(FAILED, out of memory, signal KILL)",
        ),
        ({"signal": "SEGV", "exit_code": None}, "(FAILED, signal SEGV)"),
        ({"ended_at": None, "exit_code": None}, "is over (FAILED)"),
    ],
)
def test_the_end_of_a_run_is_told_with_what_is_known(
    changes: dict[str, object], words: str
) -> None:
    seen = replace(OVER, run=replace(FAILED, **changes))  # type: ignore[arg-type]  # of a table
    assert plan_stop(DESIRED, seen).notes[0].endswith(words)


def test_stop_where_nothing_was_ever_started_says_so() -> None:
    assert plan_stop(DESIRED, BARE).notes == ("nothing runs; it was never started here",)


def test_stop_needs_nothing_of_the_playbook_but_its_name() -> None:
    bare = replace(with_playbook(run=None, checkpoints=None), files=(), run_id="")
    assert actions(plan_stop(bare, replace(BUSY, files=(), checkpoints=None, gpus=None)))


def test_start_runs_what_is_on_the_target() -> None:
    plan = plan_start(DESIRED, DEPLOYED, wait=True)
    assert actions(plan) == ["StartRun", "VerifyRun"]
    assert action(plan, StartRun).release == (TRAIN, SCRIPT)
    assert (plan.refusals, plan.notes, plan.run_id) == ((), (), RUN_ID)


def test_start_leaves_a_running_job_alone() -> None:
    for seen in (BUSY, ADOPTED):
        plan = plan_start(DESIRED, seen, wait=True)
        assert (plan.steps, plan.run_id) == ((), None)
        assert plan.notes[0].startswith("already running: ")


def test_start_uses_the_targets_own_files_and_says_that_they_differ() -> None:
    seen = replace(DEPLOYED, files=(placed(TRAIN, sha256=OLD), placed(SCRIPT)))
    plan = plan_start(DESIRED, seen, wait=True)
    assert [file.sha256 for file in action(plan, StartRun).release] == [OLD, SCRIPT.sha256]
    assert plan.notes == (
        "the target's own files are used; not as here: /root/train.py (deploy brings them)",
    )


@pytest.mark.provokes("refused.not_deployed")
def test_start_before_any_deploy_is_refused_and_points_at_deploy() -> None:
    plan = plan_start(DESIRED, BARE, wait=True)
    assert codes(plan) == ["not_deployed"]
    assert "/root/train.py, /root/start.sh" in plan.refusals[0].message
    assert "deploy" in plan.refusals[0].remedy


def test_start_passes_preflight_like_deploy() -> None:
    assert codes(plan_start(DESIRED, replace(DEPLOYED, tmux=None), wait=True)) == ["no_tmux"]


def test_start_goes_on_from_the_checkpoints() -> None:
    desired = with_run(resume=("resume",))
    assert action(plan_start(desired, OVER, wait=True), StartRun).command == ("resume",)
    empty = replace(OVER, checkpoints=EMPTY)
    assert action(plan_start(desired, empty, wait=True), StartRun).command[0] == "bash"


def test_start_makes_room_where_an_ended_run_left_its_session() -> None:
    plan = plan_start(DESIRED, replace(OVER, session=SESSION), wait=True)
    assert actions(plan) == ["StopRun", "StartRun", "VerifyRun"]


def test_start_without_waiting_asks_for_no_time_alive() -> None:
    assert action(plan_start(DESIRED, DEPLOYED, wait=False), VerifyRun).alive_for_s == 0


@pytest.mark.provokes("missing_setting")
def test_start_without_run_in_the_playbook_says_what_is_missing() -> None:
    with pytest.raises(MissingSetting):
        plan_start(with_playbook(run=None), DEPLOYED, wait=True)


def test_once_there_are_many_runs_a_start_forgets_the_oldest_last() -> None:
    seen = replace(
        DEPLOYED, forgettable=("2026-01-01T0000Z-dflash-aaaa", "2026-01-02T0000Z-dflash-b")
    )
    plan = plan_start(DESIRED, seen, wait=True)
    assert actions(plan) == ["StartRun", "VerifyRun", "ForgetRuns"]
    assert plan.steps[-1].what.startswith("forget the 2 oldest runs, up to 2026-01-02T0000Z")


WAITS = RestartSeen(number=1, limit=3, due_at=1_795_867_590.0, came="waits", why="")
FORGOTTEN = replace(OVER, restart=replace(WAITS, came="unwatched"))


def test_a_stop_cancels_a_restart_that_waits() -> None:
    plan = plan_stop(DESIRED, replace(OVER, restart=WAITS))
    assert actions(plan) == ["CancelRestart"]
    assert said(plan, CancelRestart) == (
        (
            "cancel the watchdog's restart of run 2026-11-28T0900Z-dflash-a2b3, "
            "due 2026-11-28 12:06 UTC"
        ),
        "nothing is to start by itself",
    )
    assert plan_stop(DESIRED, FORGOTTEN).steps == ()


@pytest.mark.parametrize("plan", [
    lambda seen: plan_start(DESIRED, seen, wait=False),
    lambda seen: plan_deploy(DESIRED, seen, restart=False, clear=False, wait=False),
    lambda seen: plan_deploy(DESIRED, seen, restart=True, clear=True, wait=True),
])  # fmt: skip
def test_a_new_run_cancels_a_restart_that_waits_first(plan: Callable[[Observed], Plan]) -> None:
    waiting = actions(plan(replace(OVER, restart=WAITS)))
    assert waiting.index("CancelRestart") < waiting.index("StartRun")
    assert "CancelRestart" not in actions(plan(FORGOTTEN))
