"""One run over two containers on a bridge of their own: torch, gloo, a real torchrun on each.

Torch is that of `make torch-venv`, shown in the containers; `make test-distributed` runs this.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.lab.container import Container, containers, why_no_lab
from tests.lab.machine import end_processes
from tests.lab.need import do_without
from tests.lab.network import INTERFACE, Bridge, bridged
from tests.lab.numeric import torch_path
from tests.lab.proxmox import proxmox
from tests.lab.rootfs import LabUnavailable
from tests.sshd import Sshd

from .conftest import until

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
DFLASH = ROOT / "playbooks" / "dflash"
GRACE_S = 60
# How long the trainer's ranks wait for each other.
PATIENCE_S = 40
# Only a machine that is busy otherwise takes so long.
LONG_S = 240
PORT = 29400
NODES = ("kpro6/left", "kpro6/right")
TRAINER = "train_dflash_pipeline.py"

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.timeout(900)]


@dataclass(frozen=True, kw_only=True)
class Two:
    """Two containers that have /shared together, and the operator's folder with the job.

    ``shared`` and ``folder`` are on this machine; the run has /shared/work for its own.
    """

    folder: Path
    shared: Path
    sshd: Sshd
    machines: tuple[Container, Container]
    bridge: Bridge
    torch: str

    def write(
        self,
        *,
        nodes: int = 2,
        processes: int = 2,
        out: str = "checkpoints",
        words: str = "",
        **distributed: Any,
    ) -> None:
        """Inventory and playbook."""
        config = json.loads((DFLASH / "smoke.json").read_text())
        # None ends by itself; small batches, of which there are enough.
        config |= {"epochs": 1000, "print_every": 1, "save_every": 10_000}
        (self.folder / "config.json").write_text(json.dumps(config))
        address = {
            "address": self.sshd.host,
            "port": self.sshd.port,
            "user": self.sshd.user,
            "identity_file": str(self.sshd.client_key),
            "known_hosts_file": str(self.sshd.known_hosts),
            "proxy_jump": "none",
        }
        inside = {
            name.partition("/")[2]: {"vmid": machine.vmid, "python": "/usr/bin/python3"}
            for name, machine in zip(NODES, self.machines, strict=True)
        }
        inventory = {
            "version": 1,
            "hosts": {"kpro6": {**address, "containers": inside}},
            "groups": {"run": list(NODES[:nodes])},
        }
        (self.folder / "inventory.yml").write_text(yaml.safe_dump(inventory, sort_keys=False))
        there = "/root/dflash"
        trainer = ["python3", f"{there}/{TRAINER}", "--config", f"{there}/config.json"]
        playbook: dict[str, Any] = {
            "version": 1,
            "name": "dflash",
            "files": [
                {"source": f"{DFLASH}/*.py", "dest": there},
                {"source": "config.json", "dest": f"{there}/config.json"},
            ],
            "run": {
                "command": [*trainer, "--timeout", str(PATIENCE_S), "--resume", "latest",
                            *words.split()],
                "cwd": "/root",
                "env_base": "minimal",
                "env": {"PYTHONPATH": self.torch, "OMP_NUM_THREADS": "1"},
            },
            "stop": {"signal": "INT", "grace": f"{GRACE_S}s"},
            "ready": {"alive_for": "1s"},
            "preflight": {"gpus": 0, "imports": ["torch", "numpy", "safetensors"]},
            "checkpoints": {
                "path": f"/shared/work/{out}",
                "pattern": "step-*",
                "step_from": r"step-(\d+)",
                "complete_when": {"file": "COMPLETE"},
            },
            "metrics": {"jsonl": f"/shared/work/{out}/metrics.jsonl"},
            "dataset": {"path": "/shared/data/lengths.npy"},
            "batching": {"count": 2, "token_budget": 1536, "max_batch_size": 32,
                         "max_length": 520, "ranks": 4},
            "distributed": {"launcher": "torchrun", "nproc_per_node": processes, "port": PORT,
                            **distributed},
        }  # fmt: skip
        playbook["run"]["command"] += ["--data", "/shared/data"]
        playbook["run"]["command"] += ["--checkpoints", f"/shared/work/{out}"]
        if (self.folder / "buckets.json").exists():
            playbook["buckets"] = "buckets.json"
        (self.folder / "deploy.yml").write_text(yaml.safe_dump(playbook, sort_keys=False))

    def dflashctl(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            (sys.executable, "-m", "dflashctl", *words, "-t", "run"),
            capture_output=True,
            text=True,
            timeout=180,
            stdin=subprocess.DEVNULL,
            env={
                **os.environ,
                "DFLASHCTL_INVENTORY": str(self.folder / "inventory.yml"),
                "DFLASHCTL_PLAYBOOK": str(self.folder / "deploy.yml"),
                "COLUMNS": "100",
                "PYTHONPATH": str(ROOT),
            },
            cwd=self.folder,
            check=False,
        )

    def ok(self, *words: str) -> str:
        done = self.dflashctl(*words)
        assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def status(self) -> dict[str, Any]:
        done = self.dflashctl("status", "--json")
        assert done.stdout, done.stderr
        told = json.loads(done.stdout)
        assert isinstance(told, dict)
        return told

    def states(self) -> list[str]:
        return [one["state"] for one in self.status()["targets"].values()]

    def steps(self, out: str = "checkpoints") -> list[dict[str, Any]]:
        path = self.shared / "work" / out / "metrics.jsonl"
        whole = path.read_text().rpartition("\n")[0] if path.exists() else ""
        told = [json.loads(line) for line in whole.splitlines()]
        return [one for one in told if one["event"] == "step"]

    def await_step(self, number: int, out: str = "checkpoints") -> None:
        until(lambda: (steps := self.steps(out)) and steps[-1]["step"] >= number, LONG_S)

    def processes(self, number: int) -> dict[int, str]:
        """What runs of it in a container: pids, command lines."""
        listed = self.machines[number].run(("ps", "-eo", "pid=,args=")).stdout.splitlines()
        ours = [line.split(None, 1) for line in listed if TRAINER in line]
        return {int(pid): words for pid, words in ours}

    def kill_one(self, number: int) -> int:
        """End one of a container's processes, not its torchrun."""
        found = self.processes(number)
        pid = min(pid for pid, words in found.items() if "distributed.run" not in words)
        self.machines[number].run(("kill", "-KILL", str(pid))).check_returncode()
        return pid


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    if reason := why_no_lab():
        do_without(reason)
    folder = Path(tempfile.mkdtemp(prefix="dflash-two-", dir="/tmp"))
    shared = folder / "shared"
    for made in (shared, shared / "work", folder / "host", folder / "job"):
        made.mkdir()
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        try:
            left, right = stack.enter_context(containers(210, 211, shared=shared))
        except LabUnavailable as unavailable:
            do_without(str(unavailable))
        torch = torch_path(left)
        bridge = stack.enter_context(bridged((left, right)))
        host = stack.enter_context(proxmox(folder / "host", (left, right)))
        subprocess.run(
            [ROOT / ".venv-torch/bin/python", DFLASH / "dflash_data.py", "synthetic",
             shared / "data"],
            env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
            check=True,
            capture_output=True,
            timeout=120,
        )  # fmt: skip
        both = Two(folder=folder / "job", shared=shared, sshd=host.sshd, machines=(left, right),
                   bridge=bridge, torch=torch)  # fmt: skip
        both.write(nodes=1)
        both.ok("optimize-buckets", "--apply")
        yield both


@pytest.fixture(autouse=True)
def nothing_left(two: Two) -> Iterator[None]:
    yield
    for number, machine in enumerate(two.machines):
        two.bridge.mend(number)
        end_processes(machine, "", "/usr/bin/python3")
    shutil.rmtree(two.shared / "work")
    (two.shared / "work").mkdir()


def test_two_nodes_of_two_ranks_learn_what_one_node_of_four_does(two: Two) -> None:
    two.write()
    two.ok("deploy")
    two.await_step(5)
    told = two.status()
    (run,) = told["runs"]
    assert [(one["target"], one["rank"], one["state"]) for one in run["nodes"]] == [
        (NODES[0], 0, "RUNNING"),
        (NODES[1], 1, "RUNNING"),
    ]
    left, right = (told["targets"][name]["run"] for name in NODES)
    assert left["id"] == right["id"] == run["id"]
    assert right["node"] == {
        "rank": 1, "names": list(NODES), "port": PORT, "master": two.bridge.addresses[0],
        "address": two.bridge.addresses[1], "interface": INTERFACE,
    }  # fmt: skip
    shown = two.dflashctl("status").stdout
    assert f"0  {NODES[0]}" in shown
    assert f"1  {NODES[1]}" in shown
    first, _, second = two.ok("logs").partition(NODES[1])
    assert first.startswith(NODES[0])
    assert " loss " in first
    assert " work_s " in second
    begun = time.monotonic()
    two.ok("stop")
    assert time.monotonic() - begun < GRACE_S
    assert two.states() == ["STOPPED", "STOPPED"]
    assert not two.processes(0)
    assert not two.processes(1)
    saved = max((two.shared / "work" / "checkpoints").glob("step-*"))
    assert (saved / "COMPLETE").exists()

    two.write(nodes=1, processes=4, out="alone")
    two.ok("deploy")
    two.await_step(5, "alone")
    two.ok("stop")
    both, alone = ([one["loss"] for one in two.steps(out)][:5] for out in ("checkpoints", "alone"))
    assert both == pytest.approx(alone, rel=1e-4)


def test_when_a_nodes_trainer_is_killed_the_run_ends_and_the_node_is_named(two: Two) -> None:
    two.write()
    two.ok("deploy")
    two.await_step(2)
    two.kill_one(1)
    until(lambda: two.states() == ["FAILED", "FAILED"], LONG_S)
    told = two.status()
    assert told["exit_code"] == 4
    (verdict,) = told["runs"][0]["verdicts"]
    assert (verdict["target"], verdict["code"]) == (NODES[1], "node_failed_first")
    assert "signal KILL" in verdict["evidence"]
    assert not two.processes(0)
    assert not two.processes(1)


def test_with_max_restarts_it_goes_on_with_new_processes(two: Two) -> None:
    two.write(rendezvous="c10d", max_restarts=1)
    two.ok("deploy")
    two.await_step(2)
    killed = two.kill_one(1)
    before = len(two.steps())
    until(lambda: len(two.steps()) > before + 2 and two.steps()[-1]["step"] >= 2, LONG_S)
    assert [one["step"] for one in two.steps()].count(1) == 2, "it began once more"
    assert two.states() == ["RUNNING", "RUNNING"]
    assert killed not in two.processes(1)
    two.ok("stop")


def test_when_the_network_is_cut_that_is_told_at_once_and_the_run_ends(two: Two) -> None:
    two.write()
    two.ok("deploy")
    two.await_step(2)
    two.bridge.cut(1)
    told = two.status()
    assert told["exit_code"] == 5
    (verdict,) = [
        one for one in told["targets"][NODES[1]]["verdicts"] if one["code"] != "straggler"
    ]
    assert verdict["code"] == "node_apart"
    for word in (*NODES, *two.bridge.addresses, str(PORT)):
        assert word in verdict["evidence"]
    until(lambda: two.states() == ["FAILED", "FAILED"], PATIENCE_S + LONG_S)
    assert not two.processes(0)
    assert not two.processes(1)


def test_targets_that_do_not_reach_each_other_are_left_untouched(two: Two) -> None:
    two.write()
    two.bridge.cut(1)
    refused = two.dflashctl("deploy", "--json")
    assert refused.returncode == 65
    targets = json.loads(refused.stdout)["targets"]
    (refusal,) = targets[NODES[1]]["error"]["detail"]["refusals"]
    assert refusal["code"] == "no_way_between"
    for word in (*NODES, *two.bridge.addresses, str(PORT)):
        assert word in refusal["message"]
    assert targets[NODES[0]]["error"]["code"] == "held_back"
    assert not two.processes(0)
    assert not two.processes(1)

    two.bridge.mend(1)
    taker = f"import socket, time; s = socket.create_server(('', {PORT})); time.sleep(120)"
    two.machines[0].run(("sh", "-c", 'python3 -c "$1" >/dev/null 2>&1 &', "sh", taker))
    until(lambda: "create_server" in two.machines[0].run(("ps", "-eo", "args=")).stdout)
    refused = two.dflashctl("deploy", "--json")
    (refusal,) = json.loads(refused.stdout)["targets"][NODES[0]]["error"]["detail"]["refusals"]
    assert refusal["code"] == "port_taken"
    assert "python3 (pid " in refusal["message"]


def test_a_folder_that_both_have_is_cleared_once(two: Two) -> None:
    two.write()
    checkpoints = two.shared / "work" / "checkpoints"
    (checkpoints / "step-00000007").mkdir(parents=True)
    (checkpoints / "step-00000007" / "COMPLETE").touch()
    shown = two.dflashctl("deploy", "--clear-checkpoints", "--dry-run", "--json")
    assert shown.returncode == 10, shown.stderr
    plans = [one["plan"] for one in json.loads(shown.stdout)["targets"].values()]
    cleared = [[step["action"] for step in plan["steps"]].count("clear_checkpoints")
               for plan in plans]  # fmt: skip
    assert cleared == [1, 0]
    assert any(NODES[0] in note for note in plans[1]["notes"])
    assert sorted(path.name for path in checkpoints.iterdir()) == ["step-00000007"]
    two.ok("checkpoints", "clear")
    assert not list(checkpoints.iterdir())
    two.ok("checkpoints", "restore", "--last-cleared")
    assert (checkpoints / "step-00000007" / "COMPLETE").exists()
