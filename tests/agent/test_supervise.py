"""The supervisor alone, on a pseudo-terminal whose other end is the test."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from dflashctl.agent import cgroup, process
from dflashctl.agent.collect import collect
from dflashctl.agent.records import RunFolder
from dflashctl.agent.supervise import supervise

from .conftest import until


class Pane:
    """What tmux is to a supervisor: a terminal, and a pipe to the collector."""

    def __init__(self, folder: RunFolder, script: str, *, before: str = "", **more: Any) -> None:
        folder.path.mkdir(parents=True)
        launch = {
            "command": ["bash", "-c", script],
            "cwd": "/",
            "user": None,
            "env": {"PATH": os.environ["PATH"], process.RUN_MARKER: folder.id},
            "signal": "INT",
            "grace_s": 1.0,
            **more,
        }
        folder.launch.write_text(json.dumps(launch))
        folder.log.touch()
        subprocess.run(("bash", "-c", before), check=False)
        self.folder = folder
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            supervise(folder)
            os._exit(0)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        with self.folder.log.open("ab", buffering=0) as log:
            try:
                while piece := os.read(self.fd, 1 << 16):
                    with suppress(OSError):  # as the collector does
                        log.write(piece)
            except OSError:
                pass

    def end(self, seconds: float = 20) -> dict[str, Any]:
        """Wait for the record of the end."""
        until(self.folder.exit.exists, seconds)
        os.waitpid(self.pid, 0)
        self._reader.join(5)
        os.close(self.fd)
        record: dict[str, Any] = json.loads(self.folder.exit.read_text())
        return record


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(path=tmp_path / "runs" / f"run-{os.getpid()}-{time.monotonic_ns()}")


def test_the_end_of_the_trainer_is_recorded_and_said_last(folder: RunFolder) -> None:
    end = Pane(folder, "echo hello; exit 3").end()
    assert (end["exit_code"], end["signal"], end["closed"], end["leftover"]) == (3, None, False, 0)
    lines = folder.log.read_text().split("\n")
    assert lines[0] == "hello"
    assert lines[-2] == f"[dflashctl] {folder.id} ended: exit 3"
    assert not folder.launch.exists()


def test_a_trainer_that_a_signal_ended_has_no_exit_code(folder: RunFolder) -> None:
    end = Pane(folder, "kill -SEGV $$").end()
    assert (end["exit_code"], end["signal"], end["oom"]) == (None, signal.SIGSEGV, False)


def test_a_terminal_that_is_closed_ends_the_trainer_as_the_playbook_says(folder: RunFolder) -> None:
    pane = Pane(folder, "trap 'exit 75' INT; while :; do sleep 0.1; done")
    until(folder.process.exists)
    time.sleep(0.3)
    os.kill(pane.pid, signal.SIGHUP)
    end = pane.end()
    assert (end["exit_code"], end["closed"]) == (75, True)
    assert json.loads(folder.stop.read_text())["by"] == "session closed"


def test_what_a_trainer_leaves_behind_is_ended(folder: RunFolder) -> None:
    end = Pane(folder, "setsid sleep 1000 & setsid sleep 1001 & sleep 0.3; exit 0").end()
    assert (end["exit_code"], end["leftover"]) == (0, 2)
    assert process.marked(process.table(), folder.id) == set()


def test_what_is_left_behind_after_a_stop_has_the_grace_first(folder: RunFolder) -> None:
    saving = "bash -c 'sleep 0.5; touch saved' &"
    pane = Pane(folder, f"cd {folder.path}; {saving} sleep 0.1; exit 0", grace_s=5.0)
    folder.stop.write_text('{"by": "ada@desk", "at": 0}')
    end = pane.end()
    assert end["leftover"] >= 1
    assert (folder.path / "saved").exists()


def test_a_command_that_cannot_be_run_is_told_with_its_reason(folder: RunFolder) -> None:
    end = Pane(folder, "", command=["/no/such/trainer"]).end()
    assert (end["exit_code"], end["error"]) == (127, "No such file or directory")
    assert "cannot run '/no/such/trainer'" in folder.log.read_text()


def test_without_a_launch_record_there_is_an_end_all_the_same(folder: RunFolder) -> None:
    folder.path.mkdir(parents=True)
    child = os.fork()
    if child == 0:
        os.close(1)
        supervise(folder)
        os._exit(0)
    os.waitpid(child, 0)
    assert json.loads(folder.exit.read_text())["error"] == "no launch record"


def collector(folder: Path, data: bytes) -> int:
    """What a collector makes of this data; its exit code, 0 when it got to the end."""
    source, sink = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(source, 0)
        os.close(sink)
        collect(str(folder))
        os._exit(0)
    os.close(source)
    with os.fdopen(sink, "wb") as pipe:
        pipe.write(data)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_the_collector_appends_all_that_comes(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"before\n")
    data = bytes(range(256)) * 2000
    assert collector(tmp_path, data) == 0
    assert (tmp_path / "log").read_bytes() == b"before\n" + data


def test_a_full_disk_does_not_stop_the_collector(tmp_path: Path) -> None:
    (tmp_path / "log").symlink_to("/dev/full")
    assert collector(tmp_path, b"x" * 300_000) == 0


def test_kills_are_counted_from_shortly_before_the_end(tmp_path: Path) -> None:
    file = tmp_path / "memory.events"
    file.write_text("oom 3\noom_kill 3\n")
    counts = [cgroup.Kills(str(file), 2), cgroup.Kills(str(file), 3), None]
    assert [cgroup.killed_since(before) for before in counts] == [True, False, None]
    assert cgroup.killed_since(cgroup.Kills(str(tmp_path / "gone"), 0)) is None


def test_a_terminal_that_somebody_froze_does_not_keep_the_end_from_the_record(
    folder: RunFolder,
) -> None:
    pane = Pane(folder, "sleep 0.5; exit 4")
    until(folder.process.exists)
    os.write(pane.fd, b"\x13")  # Ctrl-S
    assert pane.end()["exit_code"] == 4
    assert "ended: exit 4" in folder.log.read_text()


def test_ctrl_z_does_not_stop_the_trainer(folder: RunFolder) -> None:
    pane = Pane(folder, "for i in 1 2 3 4 5 6 7 8; do sleep 0.1; done; exit 5")
    until(folder.process.exists)
    os.write(pane.fd, b"\x1a")
    assert pane.end()["exit_code"] == 5


@pytest.mark.skipif(os.getuid() != 0, reason="only root can mount")
@pytest.mark.parametrize("full", ["at the start", "at the end"])
def test_a_full_disk_does_not_hide_how_a_run_ended(folder: RunFolder, full: str) -> None:
    """At the start nothing runs that cannot be recorded; at the end there is room for the end."""
    folder.path.parent.mkdir(parents=True)
    subprocess.run(
        ("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder.path.parent), check=True
    )
    try:
        filler = folder.path.parent / "filler"
        fill = f"cat /dev/zero > {filler} 2>/dev/null"
        if full == "at the start":
            pane = Pane(folder, "trap '' INT TERM HUP; sleep 60", before=fill)
            os.waitpid(pane.pid, 0)
            assert not process.marked(process.table(), folder.id)
            assert not folder.process.exists()
            pane._reader.join(5)
            os.close(pane.fd)
        else:
            end = Pane(folder, f"{fill}; exit 7").end()
            assert end["exit_code"] == 7
            assert not list(folder.path.glob(".exit*"))
    finally:
        subprocess.run(("umount", "-l", folder.path.parent), check=True)
