"""A run that failed is started again by the watchdog, or with good reason is not."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dflashctl.agent.again import against, command_of, has_failed, taken
from dflashctl.agent.history import listed, recall
from dflashctl.agent.protocol import CancelRestart, ExecuteCommand, FileWanted
from dflashctl.agent.recorded import About, ListRuns, RecallRun
from dflashctl.agent.records import RunFolder, read_json
from dflashctl.agent.restarts import forbidden, see
from dflashctl.agent.seen import CheckpointsSeen, FileSeen
from dflashctl.agent.watching import Channel, Restart, Watch
from tests.plan.scenes import FAILED, OVER, SESSION

from .conftest import R1, Bench, trainer, until

WANTED = FileWanted(dest="/w/train.py", sha256="a" * 64, size=3, mode=0o644)
THERE = FileSeen(dest="/w/train.py", real_dest="/w/train.py", sha256="a" * 64, mode=0o644,
                 stored=True, problem=None)  # fmt: skip
START = trainer("r-1", ("train", "--fresh"), release=(WANTED,),
                about=About(fresh=("train", "--fresh"), resume=("train", "--resume")))  # fmt: skip
DEAD = replace(OVER, session=None, files=(THERE,))


def dead(**more: Any) -> Any:
    assert DEAD.run is not None
    return replace(DEAD, run=replace(FAILED, **more))


def holding(complete: int) -> Any:
    store = CheckpointsSeen(
        path="/w/c", real_path="/w/c", exists=True, problem=None, mount_point=False, entries=2,
        count=2, complete=complete, latest="step-2" if complete else None, latest_step=None,
        latest_at=None, size=None,
    )  # fmt: skip
    return replace(DEAD, checkpoints=store)


@pytest.mark.parametrize("more", [{}, {"exit_code": None, "signal": "KILL", "oom": True},
                                  {"exit_code": 134}, {"signal": "SEGV"}])  # fmt: skip
def test_a_fault_of_the_trainers_own_is_reason_to_start_again(more: dict[str, Any]) -> None:
    seen = dead(**more)
    assert has_failed(seen.run)
    assert against(seen, START, None) is None


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"exit_name": "refused", "exit_code": 64}, "exit code 64 says that it refuses"),
        ({"signal": "INT", "exit_code": None}, "signal INT is how somebody ends it by hand"),
        ({"exit_code": 143}, "exit code 143 is how somebody ends it by hand"),
        ({"ended_at": None, "exit_code": None}, "nobody recorded how it ended"),
    ],
)
def test_a_wish_and_a_riddle_are_none(more: dict[str, Any], why: str) -> None:
    assert against(dead(**more), START, None) == why


@pytest.mark.parametrize("more", [{"stopped_by": "ann@desk"}, {"state": "STOPPED"},
                                  {"state": "FINISHED"}])  # fmt: skip
def test_a_stop_and_a_good_end_are_no_failures(more: dict[str, Any]) -> None:
    assert not has_failed(replace(FAILED, **more))


def test_other_files_than_the_run_had_are_not_started() -> None:
    for other in (replace(THERE, sha256="b" * 64), replace(THERE, mode=0o600), None):
        seen = replace(DEAD, files=(other,) if other else ())
        assert against(seen, START, None) == "files on the target are not those that it ran"


def test_nothing_is_begun_anew_because_checkpoints_cannot_be_seen() -> None:
    assert against(holding(0), START, None) is None
    assert "step-9 was" in str(against(holding(0), START, "step-9"))
    unseen = replace(DEAD, checkpoints=None)
    assert "step-9 was" in str(against(unseen, START, "step-9"))
    assert against(holding(1), START, "step-9") is None


def test_a_session_that_somebody_sits_in_is_left_alone() -> None:
    assert taken(DEAD) is None
    assert taken(replace(DEAD, session=SESSION)) == "the tmux session dflash is in use"


def test_it_resumes_where_a_complete_checkpoint_is() -> None:
    assert command_of(holding(1), START) == ("train", "--resume")
    assert command_of(holding(0), START) == ("train", "--fresh")
    bare = replace(START, about=About())
    assert command_of(holding(1), bare) == START.command


def script(bench: Bench) -> str:
    return f"""
mkdir -p {bench.checkpoints}/step-$RANDOM
echo "$0 $SECRET" >> {bench.folder}/starts
[ $0 = resume ] || sleep 2
sleep 0.5; exit 3
"""


def start(bench: Bench, *, limit: int, after_s: float) -> None:
    """A run that fails after a while, and whose watchdog may start it again."""
    words = ("sh", "-c", f'echo "$DFLASHCTL_EVENT $DFLASHCTL_CODE" >> {bench.folder}/told')
    fresh, resume = (("bash", "-c", script(bench), how) for how in ("fresh", "resume"))
    watch = Watch(
        every_s=0.3,
        channels=(Channel(kind="command", to=words),),
        textfile=None,
        restart=Restart(limit=limit, after_s=after_s),
    )
    wanted = trainer(R1, fresh, about=About(fresh=fresh, resume=resume), watch=watch,
                     secrets={"SECRET": "xyzzy"})  # fmt: skip
    assert bench.commit(wanted).failure is None
    until((bench.run(R1).path / "watchdog.json").exists)


def told(bench: Bench) -> list[str]:
    path = bench.folder / "told"
    return path.read_text().splitlines() if path.exists() else []


def test_a_trainer_that_dies_is_resumed_until_the_limit_and_every_attempt_is_on_record(
    bench: Bench,
) -> None:
    start(bench, limit=2, after_s=0.3)
    until(lambda: "restart given_up" in told(bench), 40)
    starts = (bench.folder / "starts").read_text().splitlines()
    assert starts == ["fresh xyzzy", "resume xyzzy", "resume xyzzy"]
    once = ["ended FAILED", "restart waits", "restart started"]
    # A look in the very moment of its end may have a verdict of its own.
    events = [line for line in told(bench) if line.startswith(("ended", "restart"))]
    assert events == [*once, *once, "ended FAILED", "restart given_up"]
    first, second, third = listed(ListRuns(job="dflash"), bench.state).runs
    records = [
        recall(RecallRun(job="dflash", run_id=run.id), bench.state)
        for run in (first, second, third)
    ]
    attempts = [(one.attempt.of, one.attempt.number) if one.attempt else None for one in records]
    assert attempts == [None, (first.id, 1), (second.id, 2)]
    assert [one.restart and (one.restart.came, one.restart.why) for one in records] == [
        ("started", second.id), ("started", third.id),
        ("given_up", "the limit of 2 is reached"),
    ]  # fmt: skip
    assert second.started_by.startswith("watchdog@")
    assert records[1].resumed_from is not None
    assert bench.observe().restart == records[2].restart
    until(lambda: bench.sessions() == [])
    kept = [path for path in bench.state.path.rglob("*") if path.is_file()]
    assert not [path for path in kept if b"xyzzy" in path.read_bytes()]


def test_a_restart_that_waits_can_be_cancelled(
    bench: Bench,
) -> None:
    start(bench, limit=3, after_s=60.0)
    until(lambda: "restart waits" in told(bench), 20)
    seen = bench.observe().restart
    assert seen is not None
    assert seen.came == "waits"
    assert 50 < seen.due_at - time.time() < 61
    assert bench.commit(CancelRestart(run_id=R1)).failure is None
    until(lambda: told(bench)[-1] == "restart cancelled", 10)
    seen = bench.observe().restart
    assert seen is not None
    assert (seen.came, seen.why) == ("cancelled", "ada@desk")
    until(lambda: bench.sessions() == [])


def test_a_persons_stop_is_not_answered(bench: Bench) -> None:
    start(bench, limit=3, after_s=1.0)
    bench.stop(R1)
    until(lambda: told(bench) == ["ended STOPPED"], 10)
    until(lambda: bench.sessions() == [], 10)
    assert (bench.folder / "starts").read_text().splitlines() == ["fresh xyzzy"]
    assert see(bench.run(R1)) is None


def test_a_restart_whose_watchdog_was_killed_is_told_as_such(bench: Bench) -> None:
    start(bench, limit=3, after_s=60.0)
    until(lambda: "restart waits" in told(bench), 20)
    record = read_json(bench.run(R1).watchdog)
    assert record is not None
    os.kill(record["process"][0], signal.SIGKILL)
    until(lambda: (found := see(bench.run(R1))) is not None and found.came == "unwatched", 5)
    assert forbidden(bench.state, "dflash", R1) is None
    done = ExecuteCommand(command=("true",), cwd=None, env_base="minimal", env={}, timeout_s=9.0)
    assert bench.commit(done).failure is None
    assert forbidden(bench.state, "dflash", R1) == "ada@desk", "a person has taken over"


def test_a_record_that_is_none_is_no_restart(tmp_path: Path) -> None:
    (tmp_path / "restart.json").write_text('{"number": 1}')
    assert see(RunFolder(path=tmp_path)) is None
