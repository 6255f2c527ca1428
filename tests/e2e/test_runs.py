"""Runs, rollback and playbooks with steps, typed as a person types them, in a container."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from .conftest import Job, until

pytestmark = pytest.mark.parametrize(
    "route", [pytest.param("pct", marks=pytest.mark.lab)], indirect=True
)
PLAYBOOKS = Path(__file__).parents[2] / "playbooks"
# What it has learnt is a hash over all its steps: going on from another one shows.
TRAINER = """\
import hashlib, json, os, pathlib, signal, sys, time
folder, stop = pathlib.Path(os.environ["CHECKPOINTS"]), []
signal.signal(signal.SIGINT, lambda *_: stop.append(1))
step, learnt = 0, SEED
found = sorted(folder.glob("step-*/state.json"))
if "--resume" in sys.argv and found:
    step, learnt = json.loads(found[-1].read_text())
print("begins after step", step, flush=True)
while not stop:
    step, learnt = step + 1, hashlib.sha256(f"{learnt} {step + 1}".encode()).hexdigest()
    print(f"step {step} loss {9 / step:.4f} learnt {learnt[:16]}", flush=True)
    if step % 10 == 0:
        new = folder / f"step-{step:08d}"
        new.mkdir(parents=True)
        (new / "state.json").write_text(json.dumps([step, learnt]))
        (new / "COMPLETE").touch()
    time.sleep(0.02)
sys.exit(75)
"""


@pytest.fixture
def job(job: Job) -> Job:
    write(job, "first")
    return job


def write(job: Job, seed: str, **changes: Any) -> None:
    """The job with a trainer that begins with ``seed``, and can go on from a checkpoint."""
    command = [job.route.python, job.train_py]
    run = {
        "command": command,
        "resume": [*command, "--resume"],
        "cwd": job.route.tmp,
        "env_base": "minimal",
        "env": {"CHECKPOINTS": job.checkpoints, "SEED": seed},
        "exit_codes": {75: "interrupted"},
    }
    files = [{"source": "payload/train.py", "dest": job.train_py}]
    job.write(files=files, run=run, **changes)
    (job.folder / "payload" / "train.py").write_text(f'SEED = "{seed}"\n{TRAINER}')


def target(answer: str) -> dict[str, Any]:
    (only,) = json.loads(answer)["targets"].values()
    assert isinstance(only, dict)
    return only


def test_steps_of_a_playbook_are_done_once_and_left_out_when_they_are_done(job: Job) -> None:
    text = (PLAYBOOKS / "provision.yml").read_text().replace("/root/venv", f"{job.route.tmp}/venv")
    steps = yaml.safe_load(text)["steps"]
    assert [step["when"]["missing"] for step in steps[:2]] == [
        ["tmux"], [f"{job.route.tmp}/venv/bin/python"],
    ]  # fmt: skip
    # The container has no network; and its Python no ensurepip.
    steps[1]["command"] += ["--without-pip"]
    steps[1]["command"][0] = job.route.python
    path = job.folder / "provision.yml"
    path.write_text(yaml.safe_dump({"version": 1, "name": "dflash", "steps": steps}))
    done = job.dflashctl("play", str(path))
    assert done.returncode == 66, done.stderr
    assert "no torch for this Python" in done.stderr
    assert "step 1 (run) is left out: tmux is there" in done.stderr

    again = job.dflashctl("play", str(path), "--dry-run", "--json")
    assert again.returncode == 10
    plan = target(again.stdout)["plan"]
    assert ([step["action"] for step in plan["steps"]], len(plan["notes"])) == (
        ["execute_command"], 2,
    )  # fmt: skip


def learnt(job: Job, step: int) -> str:
    """What the current run had learnt after a step, as it printed it."""
    lines = job.ok("logs", "-n", "100000").splitlines()
    (line,) = [line for line in lines if line.startswith(f"step {step} ")]
    return line.split()[-1]


def steps(job: Job) -> list[int]:
    names = job.sh('ls "$1"', job.checkpoints).split()
    return sorted(int(name.removeprefix("step-")) for name in names)


def hashes(job: Job, folder: str) -> str:
    return job.sh('cd "$1" && find . -type f | sort | xargs -r sha256sum', folder)


STORE = {
    "pattern": "step-*",
    "complete_when": {"file": "COMPLETE"},
    "keep": {"last": 2},
}


def test_a_training_goes_on_from_the_very_step_that_a_rollback_brings_back(job: Job) -> None:
    store = {**STORE, "path": job.checkpoints, "archive_to": f"{job.route.tmp}/archive"}
    write(job, "first", checkpoints=store)
    job.ok("deploy")
    until(lambda: job.sh('mkdir -p "$1"; ls "$1"', job.checkpoints) and steps(job)[-1] >= 30)
    job.ok("stop")
    first = target(job.ok("runs", "show", "--json"))
    assert first["facts"]["python"]
    kept, last = hashes(job, job.checkpoints), steps(job)[-1]
    known = learnt(job, 10)
    job.ok("checkpoints", "archive", "--name", "first-run")

    # A new strategy: from nothing, and with other results.
    write(job, "second", checkpoints=store)
    done = job.dflashctl("deploy", "--clear-checkpoints")
    assert done.returncode == 0, done.stderr
    assert '-SEED = "first"' in done.stderr
    until(lambda: job.sh('mkdir -p "$1"; ls "$1"', job.checkpoints) and steps(job)[-1] >= 20)
    assert learnt(job, 10) != known
    diff = target(job.ok("runs", "diff", "--json"))
    assert '+SEED = "second"' in diff["files"][0]["diff"]
    assert diff["env"] == [{"name": "SEED", "first": "first", "second": "second"}]

    # Nothing of this machine is needed but the playbook itself.
    (job.folder / "payload" / "train.py").unlink()
    job.ok("rollback", "--with-checkpoints", "first-run")
    third = target(job.ok("runs", "show", "--json"))
    assert (third["repeats"], third["release"], third["files"], third["env"]) == (
        first["id"], first["release"], first["files"], first["env"],
    )  # fmt: skip
    assert third["resumed_from"] == f"step-{last:08d}"
    assert job.sh('head -n 1 "$1"', job.train_py) == 'SEED = "first"\n'
    until(lambda: f"step {last + 1} " in job.ok("logs", "-n", "100000"))
    assert job.ok("logs", "-n", "100000").splitlines()[0] == f"begins after step {last}"
    now = hashes(job, job.checkpoints).splitlines()
    assert all(line in now for line in kept.splitlines())

    # The same from what the second deploy had cleared.
    job.ok("rollback", first["id"], "--with-checkpoints", "cleared")
    until(lambda: f"begins after step {last}\n" in job.ok("logs", "-n", "100000"))
    listed = target(job.ok("runs", "--json"))["runs"]
    assert [run["state"] for run in listed[:2]] == ["STOPPED", "STOPPED"]


def test_rotating_archives_and_prunes_while_the_job_runs(job: Job) -> None:
    rotate = yaml.safe_load((PLAYBOOKS / "rotate.yml").read_text())
    rotate["checkpoints"] |= {
        "path": job.checkpoints, "archive_to": f"{job.route.tmp}/archive", "keep": {"last": 2},
    }  # fmt: skip
    for step in rotate["steps"]:
        step["when"]["checkpoints"]["at_least"] = 4
    path = job.folder / "rotate.yml"
    path.write_text(yaml.safe_dump(rotate))
    assert "left out" in job.dflashctl("play", str(path), "--dry-run").stdout
    job.ok("deploy")
    until(lambda: job.sh('mkdir -p "$1"; ls "$1"', job.checkpoints) and len(steps(job)) >= 5)
    assert job.dflashctl("play", str(path)).returncode == 2, "what is deleted needs a yes"
    before = steps(job)
    done = target(job.ok("play", str(path), "--yes", "--json"))
    assert [step["action"] for step in done["plan"]["steps"]] == [
        "archive_checkpoints", "prune_checkpoints",
    ]  # fmt: skip
    assert before[0] not in steps(job)
    assert job.status()["state"] == "RUNNING"
    (archive,) = job.sh('ls "$1"', f"{job.route.tmp}/archive").split()
    job.ok("checkpoints", "verify", archive, "-p", str(path))
