"""The whole demo, as `make demo` runs it: it ends well, and leaves nothing behind."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[2] / "playbooks" / "demo" / "run-demo.sh"
BIN = Path(sys.executable).parent
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="there is no tmux here"),
    pytest.mark.skipif(not (BIN / "dflashctl").exists(), reason="dflashctl is not installed"),
]


def start() -> subprocess.Popen[str]:
    environment = {
        **os.environ,
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "PYTHON": sys.executable,
        # Of a person who has an inventory and a session of their own.
        "DFLASHCTL_INVENTORY": "/nowhere/hosts.yml",
        "TMUX": "/nowhere/tmux,1,0",
    }
    return subprocess.Popen(
        [str(DEMO)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        start_new_session=True,
    )


def room_of(text: str) -> Path:
    found = re.search(r"/tmp/dflashctl-demo\.\w+", text)
    assert found, text
    return Path(found[0])


def processes_of(room: Path) -> list[str]:
    """The command lines and environments that name the demo's folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            about = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
            if str(room).encode() in about:
                found.append(about.decode("utf-8", "replace"))
    return found


def assert_nothing_is_left(room: Path) -> None:
    assert not room.exists()
    deadline = time.monotonic() + 10
    while processes_of(room) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert processes_of(room) == []


def test_the_demo_does_the_main_job_and_leaves_nothing_behind() -> None:
    process = start()
    text, _ = process.communicate(timeout=110)
    assert process.returncode == 0, text
    commands = [line for line in text.splitlines() if line.startswith("$ ")]
    assert commands[0] == "$ dflashctl deploy"
    assert "$ dflashctl deploy --restart --clear-checkpoints" in commands
    assert commands[-2:] == ["$ dflashctl stop", "$ dflashctl status"]
    loss = [float(value) for value in re.findall(r"\| loss (\d\.\d{4}) \|", text)]
    assert min(loss) < 2
    assert "STOPPED" in text
    assert "\x1b" not in text
    assert_nothing_is_left(room_of(text))


@pytest.mark.parametrize("after", ["$ dflashctl deploy", "  done  put", "It runs."])
def test_an_interrupted_demo_leaves_nothing_behind(after: str) -> None:
    process = start()
    assert process.stdout
    read = ""
    for line in process.stdout:
        read += line
        if line.startswith(after):
            break
    # As Ctrl-C does: to everything in the foreground.
    os.killpg(process.pid, signal.SIGINT)
    read += process.stdout.read()
    assert process.wait(timeout=60) == 130, read
    assert_nothing_is_left(room_of(read))
