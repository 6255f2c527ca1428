"""From an empty folder and an installed wheel to a running deploy, no file edited by hand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Lab
from tests.sshd import fingerprint

ROOT = Path(__file__).parents[2]
TRAINER = """\
import pathlib, signal, sys, time
stop = []
signal.signal(signal.SIGINT, lambda *_: stop.append(1))
step = 0
while not stop:
    step += 1
    print(f"step {step} | loss {9 / step:.4f}", flush=True)
    time.sleep(0.05)
pathlib.Path("/workspace/checkpoints", f"step-{step}").mkdir(parents=True)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh virtual environment with the wheel in it, and nothing of the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(*words: str | Path) -> None:
        done = subprocess.run(
            words, cwd=ROOT, env=environ, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr

    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder)
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "venv", symlinks=True)
    python = folder / "venv" / "bin" / "python"
    offline = ("--no-index", "--no-deps", "--quiet")
    run(sys.executable, "-m", "pip", "--python", python, "install", *offline, wheel)
    # Its dependencies are those of the environment that runs the tests. (A folder that a .pth
    # file names is only searched: what .pth files stand in it, the checkout's, do not count.)
    (packages,) = (folder / "venv" / "lib").glob("python3*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "venv" / "bin"


@dataclass(frozen=True, kw_only=True)
class Stranger:
    """Somebody at a shell in an empty folder."""

    bin: Path
    folder: Path

    def run(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(
            (self.bin / "dflashctl", *words),
            cwd=self.folder,
            env={**environ, "COLUMNS": "80"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    def json(self, *words: str, code: int = 0) -> dict[str, Any]:
        answer = json.loads(self.run(*words, "--json", code=code).stdout)
        assert isinstance(answer, dict)
        return answer


@pytest.fixture
def stranger(installed: Path, lab: Lab, tmp_path: Path) -> Iterator[Stranger]:
    yield Stranger(bin=installed, folder=tmp_path)
    left = ("/workspace", "/root/train_dflash_pipeline.py", "/root/.local/state/dflashctl")
    lab.container.run(("tmux", "kill-session", "-t", "=dflash"))
    lab.container.run(("rm", "-rf", "--", *left)).check_returncode()


def test_the_first_day(stranger: Stranger, lab: Lab) -> None:
    sshd = lab.host.sshd
    host = f"{sshd.user}@{sshd.host}:{sshd.port}"
    way = ("--host", host, "--identity-file", str(sshd.client_key), "--known-hosts-file", "known")
    (stranger.folder / "train_dflash_pipeline.py").write_text(TRAINER)

    refused = stranger.run("init", *way, code=76).stderr
    assert fingerprint(sshd.host_key) in refused
    assert f"dflashctl inventory trust {host} --known-hosts-file known" in " ".join(refused.split())
    shown = ("--fingerprint", fingerprint(sshd.host_key))
    stranger.run("inventory", "trust", host, "--known-hosts-file", "known", *shown)

    begun = stranger.json("init", *way, "--script", "train_dflash_pipeline.py")
    assert {file["state"] for file in begun["files"]} == {"written"}
    (name,) = (name for name, one in begun["targets"].items() if one["vmid"] == 200)
    checked = stranger.json("inventory", "check", "-t", name)["targets"][name]
    assert {one["verdict"] for one in checked["findings"]} <= {"ok", "unchecked"}

    stranger.run("deploy", "--restart", "--clear-checkpoints")
    status = stranger.json("status")["targets"][name]
    assert (status["state"], status["session"]["name"]) == ("RUNNING", "dflash")
    assert "loss" in stranger.run("logs", "-n", "3").stdout
    stranger.run("stop")
    stranger.run("status", code=3)


def test_the_wheel_is_what_runs(installed: Path, tmp_path: Path) -> None:
    told = subprocess.run(
        (installed / "python", "-c", "import dflashctl; print(dflashctl.__file__)"),
        cwd=tmp_path, capture_output=True, text=True, check=True,
        env={"PATH": os.environ["PATH"]},
    )  # fmt: skip
    assert Path(told.stdout).is_relative_to(installed.parent)
    Stranger(bin=installed, folder=tmp_path).run("init")
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} == {
        "hosts.yml", "deploy.yml", "optimize-buckets.yml", "train.py", "start_training.sh",
        "inventory.json", "playbook.json",
    }  # fmt: skip
    for name in ("playbooks/deploy.yml", "schemas/playbook.json", "inventory/hosts.yml"):
        assert (tmp_path / name).read_bytes() == (ROOT / name).read_bytes()
