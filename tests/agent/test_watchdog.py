"""What the watchdog makes of what it sees, and the real one beside a real run."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dflashctl.agent.protocol import VerifyRun
from dflashctl.agent.seen import Observed, VerdictSeen
from dflashctl.agent.watchdog import CLEAR, TRIES, Post, Watchman
from dflashctl.agent.watching import Channel, Notice, Watch
from tests.plan.scenes import BUSY, FAILED, GPUS, METRICS, OVER, RUNNING

from .conftest import R1, R2, Bench, trainer, until

STALLED = VerdictSeen(code="stalled", since=None, evidence="no step for long")
SPIKE = VerdictSeen(code="loss_spike", since=None, evidence="4.6")


def told(*looks: Observed) -> list[list[tuple[str, str]]]:
    watchman = Watchman("dflash", "kpro6")
    return [[(n.event, n.code) for n in watchman.see(look, RUNNING.id)] for look in looks]


def with_verdicts(*verdicts: VerdictSeen) -> Observed:
    return replace(BUSY, metrics=METRICS, verdicts=verdicts)


def test_a_verdict_is_told_once_when_it_comes_and_once_when_it_goes() -> None:
    well, ill = with_verdicts(), with_verdicts(STALLED)
    found = told(well, ill, ill, well, ill, *[well] * CLEAR, well)
    assert found == [[], [("verdict", "stalled")], [], [], [], [], [], [("cleared", "stalled")], []]


def test_verdicts_are_told_apart() -> None:
    found = told(with_verdicts(STALLED), with_verdicts(STALLED, SPIKE))
    assert found == [[("verdict", "stalled")], [("verdict", "loss_spike")]]


def test_gpus_that_do_not_answer_and_orphans_are_told_too() -> None:
    hung = replace(BUSY, gpus=replace(GPUS, status="unresponsive", gpus=(), error=None))
    assert told(hung) == [[("verdict", "gpus_unresponsive")]]
    assert told(replace(BUSY, state="ORPHANED")) == [[("verdict", "orphaned")]]


@pytest.mark.parametrize(
    ("more", "evidence"),
    [
        ({"exit_code": 3}, "exit code 3"),
        ({"exit_code": None, "signal": "SEGV"}, "ended by signal SEGV"),
        ({"exit_code": None, "signal": "KILL", "oom": True}, "the kernel ended it"),
        ({"exit_code": 75, "state": "STOPPED", "stopped_by": "ann@desk"}, "stopped by ann@desk"),
        ({"exit_code": None, "signal": None}, "nobody recorded how"),
    ],
)
def test_the_end_is_told_with_how_it_came(more: dict[str, Any], evidence: str) -> None:
    over = replace(OVER, run=replace(FAILED, id=RUNNING.id, **more), metrics=METRICS)
    (notice,) = Watchman("dflash", "kpro6").see(over, RUNNING.id)
    assert notice.event == "ended"
    assert evidence in notice.evidence
    assert notice.progress == "step 254 of 2400, loss 4.58"


def test_another_run_is_none_of_its_business() -> None:
    assert told(replace(OVER, run=replace(FAILED, id="r-9"))) == [[]]


NOTICE = Notice(event="test", code="test", evidence="", job="j", run=None, host="h", progress="",
                at=0.0)  # fmt: skip


def test_what_could_not_be_sent_is_tried_again_and_given_up_in_the_end(tmp_path: Path) -> None:
    gate = tmp_path / "open"
    channel = Channel(kind="command", to=("test", "-e", str(gate)))
    post = Post((channel, Channel(kind="command", to=("true",))), tmp_path / "record")
    post.add(NOTICE)
    assert not post.send()
    assert not post.send()
    gate.touch()
    assert post.send()
    rows = [json.loads(line) for line in (tmp_path / "record").read_text().splitlines()]
    sent = [row["sent"]["problem"] for row in rows if "sent" in row]
    assert sent == ["exit code 1", None, None]
    gate.unlink()
    post.add(NOTICE)
    assert [post.send() for _ in range(TRIES)] == [False] * (TRIES - 1) + [True]


def test_a_run_is_watched_to_its_end_with_nobody_else_there(bench: Bench) -> None:
    sink, textfile = bench.folder / "told", bench.folder / "dflash.prom"
    words = ("sh", "-c", f'echo "$DFLASHCTL_EVENT $DFLASHCTL_CODE" >> {sink}')
    script = "echo step 1 loss=1.0; echo step 2 loss=nan; sleep 4; exit 3"
    channel = Channel(kind="command", to=words)
    watch = Watch(every_s=0.5, channels=(channel,), textfile=str(textfile))
    outcome = bench.start(R1, script, watch=watch)
    assert outcome.failure is None
    run = bench.run(R1)
    until(lambda: sink.exists() and sink.read_text() == "verdict loss_not_finite\n", 15)
    assert bench.sessions() == ["dflash", f"dflash-watch-{R1[-4:]}"]
    assert bench.observe().state == "RUNNING"
    assert not run.orders.exists()
    assert str(sink) not in run.watched.read_text()
    assert 'dflashctl_verdict{job_name="dflash"' in textfile.read_text()
    until(lambda: sink.read_text().endswith("ended FAILED\n"), 15)
    until(lambda: bench.sessions() == [], 15)


@pytest.mark.provokes("unverified.not_ready")
def test_a_start_proves_itself_by_a_metric(bench: Bench) -> None:
    script = "sleep 0.5; echo step 1 loss=1.0; sleep 60"
    wanted = trainer(R1, ("bash", "-c", script))
    proof = VerifyRun(run_id=R1, alive_for_s=0.0, metric="step", within_s=20.0)
    outcome = bench.commit(wanted, proof)
    assert outcome.failure is None
    assert '"step": 1' in bench.run(R1).state.read_text().replace(":1", ": 1")
    bench.stop(R1)
    wanted = trainer(R2, ("bash", "-c", script))
    late = VerifyRun(run_id=R2, alive_for_s=0.0, metric="accuracy", within_s=1.5)
    outcome = bench.commit(wanted, late)
    assert outcome.failure is not None
    assert (outcome.failure.code, outcome.failure.detail["metric"]) == ("not_ready", "accuracy")
    assert outcome.observed.state == "RUNNING"
