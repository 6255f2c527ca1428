"""A checkpoint is whole or is not there."""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from .conftest import DFLASH

torch: Any = pytest.importorskip("torch", reason="torch is not here: make torch-venv")
checkpoints: Any = pytest.importorskip("dflash_checkpoints")

SAVES = """
import os, sys
from pathlib import Path
import torch
from dflash_checkpoints import *
torch.set_num_threads(1)
out = Path(sys.argv[1])
assert take_folder(out) is not None
found = newest(out)
step = int(found.name[5:]) if found else 0
print(os.getpid(), flush=True)
while True:
    step += 1
    weights = {"w": torch.full((400, 400), float(step))}
    moments = {"m": torch.full((400, 400), -float(step))}
    save(out, step, Content(weights, {}, moments, {"step": step}))
"""


def content(step: int = 1) -> Any:
    return checkpoints.Content(
        {"w": torch.ones(9)}, {"a": 1}, {"m": torch.zeros(9)}, {"step": step}
    )


def names(out: Path) -> set[str]:
    return {path.name for path in out.iterdir()}


def test_a_checkpoint_is_read_as_it_was_saved_and_latest_leads_to_it(tmp_path: Path) -> None:
    checkpoints.save(tmp_path, 7, content(7))
    folder = checkpoints.save(tmp_path, 120, content(120))
    assert names(tmp_path) == {"step-00000007", "step-00000120", "latest"}
    assert checkpoints.newest(tmp_path) == folder
    assert (tmp_path / "latest").resolve() == folder.resolve()
    loaded = checkpoints.load(folder)
    assert (loaded.config, loaded.state) == ({"a": 1}, {"step": 120})
    assert torch.equal(loaded.weights["w"], torch.ones(9))
    mark = json.loads((folder / "COMPLETE").read_text())
    assert {name: each["size"] for name, each in mark.items()} == {
        path.name: path.stat().st_size for path in folder.iterdir() if path.name != "COMPLETE"
    }


def test_the_newest_complete_one_loads_after_each_of_20_kills_in_mid_save(tmp_path: Path) -> None:
    chance = random.Random(11)
    cut, steps, pid = 0, [], 0
    environment = {**os.environ, "PYTHONPATH": f"{DFLASH}:{DFLASH.parents[1]}"}
    server = subprocess.Popen(
        [sys.executable, "-c", FORKS, SAVES, str(tmp_path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip
    assert server.stdin
    assert server.stdout
    try:
        for _ in range(20):
            server.stdin.write("go\n")
            server.stdin.flush()
            pid = int(server.stdout.readline())
            time.sleep(chance.uniform(0.02, 0.2))
            os.kill(pid, signal.SIGKILL)
            assert server.stdout.readline() == "gone\n"
            cut += any(name.startswith(".partial-step") for name in names(tmp_path))
            newest = checkpoints.newest(tmp_path)
            if newest is not None:
                loaded = checkpoints.load(newest)
                steps.append(loaded.state["step"])
                assert loaded.weights["w"][0, 0] == steps[-1] == -loaded.training["m"][0, 0]
            pid = 0
    finally:
        server.kill()
        if pid:
            os.kill(pid, signal.SIGKILL)
        server.communicate()
    assert steps == sorted(steps)
    assert steps[-1] > 20
    assert cut >= 8, "most kills were in mid-save"


FORKS = """
import os, sys
import torch, dflash_checkpoints
sys.argv = ["saves", sys.argv[2], sys.argv[1]]
for _ in sys.stdin:
    pid = os.fork()
    if pid == 0:
        exec(compile(sys.argv[2], "saves", "exec"), {"__name__": "saves"})
    os.waitpid(pid, 0)
    print("gone", flush=True)
"""


def test_what_a_kill_left_is_swept_and_a_whole_one_that_it_hid_comes_back(tmp_path: Path) -> None:
    checkpoints.save(tmp_path, 7, content(7))
    (tmp_path / "step-00000007").rename(tmp_path / ".partial-old-step-00000007")
    (tmp_path / ".partial-step-00000008").mkdir()
    lock = checkpoints.take_folder(tmp_path)
    assert names(tmp_path) == {"step-00000007", "latest", ".lock"}
    assert checkpoints.load(tmp_path / "step-00000007").state == {"step": 7}
    assert checkpoints.take_folder(tmp_path) is None, "one trainer at a time"
    os.close(lock)


def test_a_step_that_is_saved_again_replaces_the_one_before(tmp_path: Path) -> None:
    checkpoints.save(tmp_path, 7, content(1))
    checkpoints.save(tmp_path, 7, content(2))
    assert names(tmp_path) == {"step-00000007", "latest"}
    assert checkpoints.load(tmp_path / "step-00000007").state == {"step": 2}


@pytest.mark.parametrize("when", ["before", "while"])
def test_without_room_nothing_is_left_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    if when == "before":
        usage = checkpoints.shutil.disk_usage(tmp_path)
        monkeypatch.setattr(checkpoints.shutil, "disk_usage", lambda _: usage._replace(free=9))
    else:
        monkeypatch.setattr(checkpoints.torch, "save", full)
    with pytest.raises(OSError, match=r"bytes are needed|No space") as raised:
        checkpoints.save(tmp_path, 7, content())
    assert raised.value.errno == errno.ENOSPC
    assert names(tmp_path) == set()


@pytest.mark.parametrize("file", ["drafter.safetensors", "training.pt", "state.json"])
def test_a_damaged_file_is_found(tmp_path: Path, file: str) -> None:
    folder = checkpoints.save(tmp_path, 7, content())
    found = bytearray((folder / file).read_bytes())
    found[-1] ^= 1
    (folder / file).write_bytes(found)
    with pytest.raises(checkpoints.Damaged, match=file):
        checkpoints.load(folder)
    (folder / file).unlink()
    with pytest.raises(checkpoints.Damaged):
        checkpoints.load(folder)
