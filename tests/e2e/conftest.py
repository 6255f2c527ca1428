"""A job on the target ``box``, driven by the command as a person would type it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.lab.routes import Route

TRAINER = """\
import os, pathlib, signal, sys, time
folder = pathlib.Path(sys.argv[1])
stop = []
signal.signal(signal.SIGINT, lambda *_: stop.append(1))
print("training", VERSION, os.environ["PYTORCH_CUDA_ALLOC_CONF"], flush=True)
step = 0
while not stop:
    step += 1
    print(f"step {step} loss={9 / step:.4f} 25.1 Ktok/s", flush=True)
    time.sleep(0.05)
(folder / f"step-{step:08d}").mkdir(parents=True)
print("saved", flush=True)
sys.exit(75)
"""
START = """\
#!/bin/bash
set -eu
cd "$(dirname "$0")"
exec "$TRAINER_PYTHON" train.py "$1"
"""


@dataclass(frozen=True, kw_only=True)
class Job:
    """The operator's folder with inventory, playbook and payload, and the target."""

    route: Route
    folder: Path

    @property
    def checkpoints(self) -> str:
        return f"{self.route.tmp}/work/checkpoints"

    @property
    def train_py(self) -> str:
        return f"{self.route.tmp}/train.py"

    def write(self, *, version: int = 1, **changes: Any) -> None:
        """Write payload and playbook; ``changes`` replace fields of the playbook."""
        payload = self.folder / "payload"
        payload.mkdir(exist_ok=True)
        (payload / "train.py").write_text(f"VERSION = {version}\n" + TRAINER)
        (payload / "start_training.sh").write_text(START)
        playbook: dict[str, Any] = {
            "version": 1,
            "name": "dflash",
            "files": [
                {"source": "payload/train.py", "dest": self.train_py},
                {
                    "source": "payload/start_training.sh",
                    "dest": f"{self.route.tmp}/start_training.sh",
                    "mode": "0755",
                },
            ],
            "run": {
                "command": ["bash", f"{self.route.tmp}/start_training.sh", self.checkpoints],
                "cwd": self.route.tmp,
                "env_base": "minimal",
                "env": {
                    "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
                    "TRAINER_PYTHON": self.route.python,
                },
                "exit_codes": {75: "interrupted"},
            },
            "stop": {"signal": "INT", "grace": "5s"},
            "ready": {"alive_for": "1s"},
            "checkpoints": {"path": self.checkpoints},
        }
        playbook.update(changes)
        (self.folder / "deploy.yml").write_text(
            yaml.safe_dump({k: v for k, v in playbook.items() if v is not None}, sort_keys=False)
        )

    def command(self, *words: str) -> tuple[str, ...]:
        """The words to run; the options before the verb come first."""
        return (sys.executable, "-m", "dflashctl", *words)

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "DFLASHCTL_INVENTORY": str(self.folder / "inventory.yml"),
            "DFLASHCTL_PLAYBOOK": str(self.folder / "deploy.yml"),
            "COLUMNS": "80",
            "PYTHONPATH": str(Path(__file__).parents[2]),
        }

    def dflashctl(self, *words: str, timeout_s: float = 90) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*words),
            capture_output=True,
            text=True,
            timeout=timeout_s,
            stdin=subprocess.DEVNULL,
            env=self.environment,
            cwd=self.folder,
            check=False,
        )

    def ok(self, *words: str) -> str:
        """Run it, demand exit code 0, and give what it answered."""
        done = self.dflashctl(*words)
        assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def status(self) -> dict[str, Any]:
        done = self.dflashctl("status", "--json")
        assert done.stdout, done.stderr
        (target,) = json.loads(done.stdout)["targets"].values()
        assert isinstance(target, dict)
        return target

    def pid(self) -> int:
        pid = self.status()["run"]["pid"]
        assert isinstance(pid, int)
        return pid

    def sh(self, script: str, *words: str) -> str:
        """Run a shell script on the target, past dflashctl."""
        done = self.route.run(("sh", "-c", script, "sh", *words))
        assert done.returncode == 0, done.stderr
        return done.stdout

    def alive(self, pid: int) -> bool:
        state = self.sh('cut -d" " -f3 "/proc/$1/stat" 2>/dev/null || echo gone', str(pid)).strip()
        return state not in ("gone", "Z")


def until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.05)


def made(route: Route, folder: Path) -> Job:
    """A job on that target, written out."""
    job = Job(route=route, folder=folder)
    (folder / "inventory.yml").write_text(route.inventory)
    job.write()
    return job


@pytest.fixture
def job(route: Route, work: Path) -> Job:
    return made(route, work)
