"""What the verdicts are judged from, as it is found on a machine."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import replace
from pathlib import Path

from dflashctl.agent import evidence as evidence_module
from dflashctl.agent import process
from dflashctl.agent.evidence import KEPT, evidence, xids
from dflashctl.agent.records import RunFolder
from dflashctl.agent.seen import CheckpointsSeen
from tests.plan.scenes import GPUS, RUNNING

from .conftest import R1, Bench, until


def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(path=tmp_path)


def test_each_look_at_the_gpus_is_remembered(tmp_path: Path) -> None:
    run = folder(tmp_path)
    old = [[time.time() - 400 + 20 * n, [90] * 8] for n in range(15)]
    (tmp_path / "glances.json").write_text(json.dumps({"glances": old}))
    found = evidence(run, RUNNING, None, GPUS, None, None)
    assert len(found.glances) == 16
    assert found.glances[-1].use == tuple(gpu.utilization_pct for gpu in GPUS.gpus)
    again = evidence(run, RUNNING, None, GPUS, None, None)
    assert len(again.glances) == 16  # a look right after another is the same


def test_old_looks_and_nonsense_are_forgotten(tmp_path: Path) -> None:
    run = folder(tmp_path)
    rows = [[time.time() - 90_000, [1]]] * (KEPT + 5) + [[time.time() + 900, [1]]]
    (tmp_path / "glances.json").write_text(json.dumps({"glances": rows}))
    assert len(evidence(run, RUNNING, None, GPUS, None, None).glances) == 1
    (tmp_path / "glances.json").write_text('{"glances": 7}')
    assert len(evidence(run, RUNNING, None, GPUS, None, None).glances) == 1


def test_gpus_that_do_not_answer_leave_no_trace(tmp_path: Path) -> None:
    hung = replace(GPUS, status="unresponsive", gpus=())
    assert evidence(folder(tmp_path), RUNNING, None, hung, None, None).glances == ()
    assert list(tmp_path.iterdir()) == []


def test_checkpoints_of_this_run_alone_count(tmp_path: Path) -> None:
    now, store = time.time(), tmp_path / "checkpoints"
    store.mkdir()
    for number, age in enumerate((9000, 300, 200, 100)):
        (store / f"step-{number}").mkdir()
        os.utime(store / f"step-{number}", (now - age, now - age))
    (store / ".partial-step-9").mkdir()
    seen = CheckpointsSeen(
        path=str(store), real_path=str(store), exists=True, problem=None, mount_point=False,
        entries=5, count=4, complete=4, latest=None, latest_step=None, latest_at=None, size=4000,
    )  # fmt: skip
    run = replace(RUNNING, started_at=now - 1000)
    found = evidence(folder(tmp_path), run, None, None, seen, 10)
    assert [round(now - at) for at in found.saved_at] == [300, 200, 100]
    assert (found.checkpoint_bytes, found.free_bytes) == (1000, 10)


def test_how_many_gpus_there_were_is_on_record(tmp_path: Path) -> None:
    (tmp_path / "facts.json").write_text('{"gpus": ["NVIDIA H200", "NVIDIA H200"]}')
    assert evidence(folder(tmp_path), RUNNING, None, GPUS, None, None).gpus_at_start == 2


def test_a_run_that_vanished_is_told_from_one_that_failed(tmp_path: Path) -> None:
    gone = replace(RUNNING, state="FAILED", ended_at=None)
    assert evidence(folder(tmp_path), gone, None, None, None, None).vanished
    failed = replace(RUNNING, state="FAILED", ended_at=1.0, exit_code=1)
    assert not evidence(folder(tmp_path), failed, None, None, None, None).vanished


def test_the_kernels_log_is_searched_for_the_drivers_errors(tmp_path: Path) -> None:
    booted = time.time() - time.clock_gettime(time.CLOCK_MONOTONIC)
    log = tmp_path / "kmsg"
    log.write_text(
        f"4,1,{int((time.time() - booted) * 1e6)},-;"
        "NVRM: Xid (PCI:0000:4e:00): 79, pid=4242, GPU has fallen off the bus.\n"
    )
    # A file gives all of itself at once where the kernel gives one record after another.
    (found,) = xids(log, time.time() - 60)
    assert (found.gpu, found.number) == ("0000:4e:00", 79)
    assert abs(found.at - time.time()) < 5
    assert xids(log, time.time() + 60) == ()
    assert xids(tmp_path / "none", 0) == ()


def test_hot_gpus_are_asked_why_their_clocks_are_slow(tmp_path: Path, monkeypatch) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho '0, 0x0000000000000040'\necho '1, 0x0000000000000000'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert evidence(folder(tmp_path), RUNNING, None, GPUS, None, None).throttling == ()
    hot = replace(GPUS, gpus=tuple(replace(gpu, temperature_c=88) for gpu in GPUS.gpus))
    found = evidence(folder(tmp_path), RUNNING, None, hot, None, None)
    assert found.throttling == ((0, 0x40), (1, 0))
    program.write_text("#!/bin/sh\necho 'Field is not a valid field to query.'; exit 2\n")
    assert evidence(folder(tmp_path), RUNNING, None, hot, None, None).throttling == ()


def test_a_trainer_is_watched_from_its_first_line_and_a_lost_collector_is_told(
    bench: Bench, monkeypatch
) -> None:
    monkeypatch.setattr(evidence_module, "KERNEL_LOG", Path("/dev/null"))
    bench.start(R1, "for i in $(seq 1000); do echo step $i loss=0.$i; sleep 0.05; done")
    until(lambda: bench.observe().metrics is not None)
    seen = bench.observe()
    assert seen.metrics is not None
    assert seen.metrics.step is not None
    assert (seen.state, seen.verdicts) == ("RUNNING", ())
    record = json.loads(bench.run(R1).state.read_text())
    process.send(process.Process(*record["collector"]), signal.SIGKILL)
    until(lambda: [v.code for v in bench.observe().verdicts] == ["not_recorded"])
    assert bench.observe().state == "RUNNING"


def test_a_job_that_was_started_by_hand_has_no_metrics_of_ours(bench: Bench) -> None:
    bench.start(R1, "echo step 1 loss=1.0")
    until(bench.run(R1).exit.exists)
    until(lambda: bench.observe().session is None)
    assert bench.observe().metrics is not None
    bench.tmux("new-session", "-d", "-s", "dflash", "sleep 60")
    seen = bench.observe()
    assert (seen.state, seen.metrics, seen.verdicts) == ("ADOPTED", None, ())
