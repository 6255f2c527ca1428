"""From a dataset in a container to boundaries, and to a training that batches with them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.lab.numeric import numeric_python
from tests.lab.routes import pct_route

from .conftest import made, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Lab

    from .conftest import Job

P1 = Path(__file__).parents[1] / "data" / "lengths_P1.csv"
LIMITS = {"token_budget": 49152, "max_batch_size": 64, "max_length": 8192}
IN_USE = "0,770,1216,1728,2432,3296,8192"
DEMO = Path(__file__).parents[2] / "playbooks" / "demo" / "train.py"


@dataclass(frozen=True, kw_only=True)
class Case:
    """The job, and its dataset in the container in two forms."""

    job: Job
    python: str
    npy: str
    parquet: str

    def write(
        self,
        *,
        dataset: str,
        python: str | None,
        command: list[str] | None = None,
        **batching: Any,
    ) -> None:
        """The playbook with this dataset, and the trainer or another command."""
        script = f"{self.job.route.tmp}/train.py"
        trainer = [self.python, script, "--dataset", self.npy, "--out", self.job.checkpoints]
        said = {"path": dataset, "python": python}
        self.job.write(
            files=[{"source": str(DEMO), "dest": script}],
            run={
                "command": command or trainer,
                "env_base": "minimal",
            },
            dataset={name: value for name, value in said.items() if value},
            batching=LIMITS | batching,
            preflight={"gpus": 0},
        )

    def optimize(self, *words: str) -> dict[str, Any]:
        """What the verb finds."""
        answer = self.job.ok("optimize-buckets", "--json", *words)
        (target,) = json.loads(answer)["targets"].values()
        assert isinstance(target, dict)
        return target

    def at_work(self) -> list[str]:
        """The optimisers' processes in the container."""
        listed = self.job.route.run(("ps", "-eo", "pid=,args=")).stdout.splitlines()
        return [line for line in listed if "-m dflashctl.buckets" in line]


@pytest.fixture
def case(lab: Lab, work: Path) -> Iterator[Case]:
    python = numeric_python(lab.container)
    with lab.host.pct.restored(), pct_route(lab.container, lab.host.sshd) as route:
        table = np.loadtxt(P1, delimiter=",", skiprows=1, dtype=np.int64)
        lengths = np.repeat(table[:, 0], table[:, 1]).astype(np.int32)
        np.random.default_rng(0).shuffle(lengths)
        assert lengths.size == 902_087
        # The container's files are seen from here, too.
        there = lab.container.rootfs / route.tmp.removeprefix("/")
        np.save(there / "lengths.npy", lengths)
        pq.write_table(pa.table({"length": lengths}), there / "lengths.parquet")
        folder = route.tmp
        yield Case(
            job=made(route, work),
            python=python,
            npy=f"{folder}/lengths.npy",
            parquet=f"{folder}/lengths.parquet",
        )


def test_a_training_batches_as_was_foretold(case: Case) -> None:
    case.write(dataset=case.parquet, python=case.python)
    table = case.job.ok("optimize-buckets", "--current", IN_USE, "--apply")
    assert re.search(r"^boundaries +\[0, \d+, \d+, \d+, \d+, \d+, 8192\]$", table, re.MULTILINE)
    assert re.search(r"^in total +902,087 +100.0% .* 87\.8\d%", table, re.MULTILINE)
    assert re.search(r"^in use now .* 86\.\d\d%", table, re.MULTILINE)
    written = json.loads((case.job.folder / "buckets.json").read_text())
    assert written["expected_efficiency"] >= 0.8780

    playbook = case.job.folder / "deploy.yml"
    playbook.write_text(playbook.read_text() + "buckets: buckets.json\n")
    plan = case.job.dflashctl("deploy", "--dry-run")
    assert "put 6 buckets (87.8" in plan.stdout
    assert "stale" not in plan.stdout
    case.job.ok("deploy", "--restart")

    said: list[str] = []

    def told() -> bool:
        logged = r"bucketed batches of 902087 samples.*padding efficiency ([0-9.]+)"
        said[:] = re.findall(logged, case.job.ok("logs"))
        return bool(said)

    until(told, 60)
    assert abs(float(said[0]) - written["expected_efficiency"]) < 0.002
    status = case.job.status()
    assert status["state"] == "RUNNING"
    assert status["buckets"]["boundaries"] == written["boundaries"]

    # Neither other settings nor other data pass unnoticed.
    case.job.sh('touch -d "2001-01-01" "$1"', case.parquet)
    playbook.write_text(playbook.read_text().replace("token_budget: 49152", "token_budget: 65536"))
    notes = case.job.dflashctl("deploy", "--dry-run").stdout
    assert "token_budget 49152, now 65536" in " ".join(notes.split())
    assert f"its dataset {case.parquet} has changed since" in " ".join(notes.split())


def test_without_numpy_there_the_lengths_are_counted_there_and_optimised_here(case: Case) -> None:
    case.write(dataset=case.npy, python=None)
    counted = case.optimize()
    case.write(dataset=case.npy, python=case.python)
    assert case.optimize() == counted
    case.write(dataset=case.parquet, python=None)
    done = case.job.dflashctl("optimize-buckets")
    assert done.returncode == 78
    assert "python3 -m pip install numpy" in " ".join(done.stderr.split())


def test_ctrl_c_leaves_nothing_running(case: Case) -> None:
    case.write(dataset=case.npy, python=case.python)
    with subprocess.Popen(
        case.job.command("optimize-buckets", "--prove"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=case.job.environment,
        cwd=case.job.folder,
    ) as typed:
        until(case.at_work)
        os.kill(typed.pid, signal.SIGINT)
        assert typed.wait(20) == 130
    until(lambda: not case.at_work(), 5)


def test_a_detached_one_works_beside_a_training_and_is_fetched_later(case: Case) -> None:
    case.write(dataset=case.npy, python=case.python, command=["sleep", "600"], count=4)
    case.job.ok("deploy")
    assert "dflash-buckets" in case.job.ok("optimize-buckets", "--detach")
    found = case.optimize("--fetch")
    assert len(found["boundaries"]) == 5
    status = case.job.status()
    assert (status["state"], status["optimizer"]["state"]) == ("RUNNING", "done")
    assert "dflash-buckets" not in case.job.route.tmux("list-sessions").stdout
