"""The DFlash trainer in a container: three ways to batch, stop and resume, a death.

Torch is that of `make torch-venv`, shown in the container; `make test-dflash` runs this.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.lab.numeric import torch_path
from tests.lab.routes import pct_route

from .conftest import made, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Lab

    from .conftest import Job

ROOT = Path(__file__).parents[2]
DFLASH = ROOT / "playbooks" / "dflash"
GRACE_S = 60

pytestmark = [pytest.mark.torch, pytest.mark.slow]


@dataclass(frozen=True, kw_only=True)
class Training:
    """The job, and the container's files as this machine sees them."""

    job: Job
    rootfs: Path
    torch: str

    def write(
        self, strategy: str, *, out: str = "work/checkpoints", processes: int = 1, words: str = ""
    ) -> None:
        """Playbook and configuration: how to batch, where to save, more words for the trainer."""
        tmp = self.job.route.tmp
        config = json.loads((DFLASH / "smoke.json").read_text())
        config |= {"strategy": strategy, "epochs": 1000}  # none ends by itself
        (self.job.folder / "config.json").write_text(json.dumps(config))
        start = ["bash", f"{tmp}/there/start_training.sh", *words.split()]
        self.job.write(
            files=[
                {"source": f"{DFLASH}/*.py", "dest": f"{tmp}/there"},
                {"source": f"{DFLASH}/start_training.sh", "dest": f"{tmp}/there/start_training.sh"},
                {"source": "config.json", "dest": f"{tmp}/there/config.json"},
            ],
            run={
                "command": start,
                "resume": [*start, "--resume", "latest"],
                "cwd": tmp,
                "env_base": "minimal",
                "env": {
                    "PYTHON": "/usr/bin/python3",
                    "PYTHONPATH": self.torch,
                    "OMP_NUM_THREADS": "1",
                    "PROCESSES": str(processes),
                    "DATA": f"{tmp}/data",
                    "CHECKPOINTS": f"{tmp}/{out}",
                },
                "exit_codes": {75: "interrupted", 78: "refused"},
            },
            stop={"signal": "INT", "grace": f"{GRACE_S}s"},
            preflight={"gpus": 0, "imports": ["torch", "numpy", "safetensors"]},
            checkpoints={
                "path": f"{tmp}/{out}",
                "pattern": "step-*",
                "step_from": r"step-(\d+)",
                "complete_when": {"file": "COMPLETE"},
            },
            metrics={"jsonl": f"{tmp}/{out}/metrics.jsonl"},
            dataset={"path": f"{tmp}/data/lengths.npy"},
            batching={"count": 6, "token_budget": 1536, "max_batch_size": 32, "max_length": 520},
            buckets="buckets.json" if (self.job.folder / "buckets.json").exists() else None,
        )

    def optimize(self) -> float:
        """Write buckets.json; returns the efficiency that it foretells."""
        self.write("bucketed")
        self.job.ok("optimize-buckets", "--apply")
        found = json.loads((self.job.folder / "buckets.json").read_text())
        assert len(found["boundaries"]) == 7
        efficiency = found["expected_efficiency"]
        assert isinstance(efficiency, float)
        return efficiency

    def folder(self, out: str = "work/checkpoints") -> Path:
        return self.rootfs / self.job.route.tmp.removeprefix("/") / out

    def steps(self, out: str = "work/checkpoints") -> list[dict[str, Any]]:
        path = self.folder(out) / "metrics.jsonl"
        whole = path.read_text().rpartition("\n")[0] if path.exists() else ""
        told = [json.loads(line) for line in whole.splitlines()]
        return [one for one in told if one["event"] == "step"]

    def await_step(self, number: int) -> None:
        until(lambda: (steps := self.steps()) and steps[-1]["step"] >= number, 60)

    def processes(self) -> dict[int, str]:
        """What runs of it in the container: pids, command lines."""
        listed = self.job.route.run(("ps", "-eo", "pid=,args=")).stdout.splitlines()
        ours = [line.split(None, 1) for line in listed if f"{self.job.route.tmp}/there/" in line]
        return {int(pid): words for pid, words in ours}

    def workers(self) -> list[int]:
        return [
            pid
            for pid, words in self.processes().items()
            if "train_dflash_pipeline.py" in words and "distributed.run" not in words
        ]

    def reading(self) -> tuple[float, int]:
        """Seconds of a processor that the worker has used, and its steps until then."""
        told = 'cut -d" " -f14,15 "/proc/$1/stat"; grep -c padded "$2"'
        (worker,) = self.workers()
        path = f"{self.job.checkpoints}/metrics.jsonl"
        user, system, steps = map(int, self.job.sh(told, str(worker), path).split())
        return (user + system) / os.sysconf("SC_CLK_TCK"), steps

    def measured(self, strategy: str) -> tuple[float, float]:
        """Of a run that begins anew: its efficiency, its real tokens a second of a processor.

        Others disturb: of four epochs the quickest counts.
        """
        self.write(strategy)
        self.job.ok("deploy", "--restart", "--clear-checkpoints")
        self.await_step(10)
        readings = [self.reading()]
        for _ in range(4):
            self.await_step(readings[-1][1] + self.steps()[-1]["batches"])
            readings.append(self.reading())
        steps, speeds = self.steps(), []
        for (cpu, begin), (later, end) in pairwise(readings):
            speeds.append(sum(one["tokens"] for one in steps[begin:end]) / (later - cpu))
        whole = steps[readings[0][1] : readings[-1][1]]
        padded = sum(one["padded"] for one in whole)
        return sum(one["tokens"] for one in whole) / padded, max(speeds)

    def saved(self, out: str = "work/checkpoints") -> tuple[str, str]:
        """The newest checkpoint, of which every file is what its marker says; its weights."""
        newest = max(self.folder(out).glob("step-*"))
        mark = json.loads((newest / "COMPLETE").read_text())
        assert {"drafter.safetensors", "training.pt", "state.json"} <= set(mark)
        for name, said in mark.items():
            assert hashlib.sha256((newest / name).read_bytes()).hexdigest() == said["sha256"]
        return newest.name, mark["drafter.safetensors"]["sha256"]

    def stop(self) -> None:
        """Demands that it ended as interrupted, in time, and has saved its last step."""
        begun = time.monotonic()
        self.job.ok("stop")
        assert time.monotonic() - begun < GRACE_S
        over = self.job.status()
        assert (over["state"], over["run"]["exit_code"]) == ("STOPPED", 75)
        assert over["run"]["exit_name"] == "interrupted"
        assert self.saved()[0] == f"step-{self.steps()[-1]['step']:08d}"
        assert not self.processes()


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory, lab: Lab) -> tuple[Path, str]:
    """400 samples, made with torch; and the way to torch in the container."""
    torch = torch_path(lab.container)
    folder = tmp_path_factory.mktemp("dflash") / "data"
    subprocess.run(
        [ROOT / ".venv-torch/bin/python", DFLASH / "dflash_data.py", "synthetic", folder],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        check=True,
        capture_output=True,
        timeout=120,
    )
    return folder, torch


@pytest.fixture
def training(lab: Lab, dataset: tuple[Path, str], work: Path) -> Iterator[Training]:
    folder, torch = dataset
    with lab.host.pct.restored(), pct_route(lab.container, lab.host.sshd) as route:
        for file in folder.iterdir():
            lab.container.put(f"{route.tmp}/{file.name}", file.read_bytes())
        there = ("sh", "-c", 'cd "$1" && mkdir data && mv *.npy *.bin meta.json data', "sh")
        route.run((*there, route.tmp)).check_returncode()
        yield Training(job=made(route, work), rootfs=lab.container.rootfs, torch=torch)


def test_throughput_follows_efficiency_whatever_makes_the_batches(training: Training) -> None:
    foretold = training.optimize()
    efficiency: dict[str, float] = {}
    speed: dict[str, float] = dict.fromkeys(("sorted", "shuffle", "bucketed"), 0.0)
    apart: dict[str, float] = {}
    for _ in range(3):  # once more where others disturbed one of them and not the other
        for strategy, best in speed.items():
            efficiency[strategy], fast = training.measured(strategy)
            speed[strategy] = max(best, fast)
        per_padded = {name: speed[name] / efficiency[name] for name in speed}
        apart = {name: value / per_padded["bucketed"] for name, value in per_padded.items()}
        if apart == pytest.approx(dict.fromkeys(speed, 1.0), rel=0.15):
            break
    assert apart == pytest.approx(dict.fromkeys(speed, 1.0), rel=0.15), (efficiency, speed)
    assert efficiency["bucketed"] == pytest.approx(foretold, abs=0.01)
    assert efficiency["sorted"] > efficiency["bucketed"] > 1.3 * efficiency["shuffle"]


def test_stopped_and_deployed_again_it_learns_what_an_unbroken_run_does(training: Training) -> None:
    training.optimize()
    training.write("bucketed")
    training.job.ok("deploy")
    training.await_step(15)
    training.stop()
    first = training.steps()[-1]["step"]
    training.job.ok("deploy", "--restart")
    training.await_step(first + 15)
    training.stop()
    steps = training.steps()
    last = steps[-1]["step"]
    assert [one["step"] for one in steps] == list(range(1, last + 1)), "it went on where it was"

    training.write("bucketed", out="work/unbroken", words=f"--stop-after-step {last}")
    training.job.ok("deploy", "--restart")
    until(lambda: training.job.status()["state"] == "STOPPED", 90)
    unbroken = training.steps("work/unbroken")
    assert [one["loss"] for one in steps] == [one["loss"] for one in unbroken]
    assert training.saved() == training.saved("work/unbroken")


def test_when_torchrun_is_killed_nothing_of_the_run_is_left(training: Training) -> None:
    training.optimize()
    training.write("bucketed", processes=2)
    training.job.ok("deploy")
    training.await_step(3)
    assert len(training.workers()) == 2
    (torchrun,) = [p for p, words in training.processes().items() if "distributed.run" in words]
    training.job.sh('kill -KILL "$1"', str(torchrun))
    until(lambda: training.job.status()["state"] == "FAILED")
    until(lambda: not training.processes(), 10)
