"""The real program, agent and tmux on this machine, in a folder and on a socket of their own."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TRAINER = """\
trap 'exit 0' INT
i=0
while :; do i=$((i+1)); printf 'step %d loss 2.5\\n' $i; sleep 0.1; done
"""

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="there is no tmux here")


@dataclass(frozen=True)
class Place:
    """A folder with an inventory, a playbook and a trainer."""

    path: Path
    socket: Path

    def words(self, *arguments: str) -> tuple[str, ...]:
        return (sys.executable, "-m", "dflashctl", *arguments)

    @property
    def environ(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "HOME": str(self.path),
            "TERM": "xterm-256color",
        }

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.words(*arguments),
            cwd=self.path,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def on_terminal(self, *arguments: str) -> Terminal:
        """The program on a terminal of its own, as its session's leader."""
        pid, handle = pty.fork()
        if pid == 0:
            os.chdir(self.path)
            os.execve(sys.executable, self.words(*arguments), self.environ)
        return Terminal(pid, handle)


class Terminal:
    """What a person at a terminal sees and types."""

    def __init__(self, pid: int, handle: int) -> None:
        self._pid, self._handle = pid, handle
        self.shown = ""

    def wait_for(self, words: str, seconds: float = 30.0) -> None:
        deadline = time.monotonic() + seconds
        while not re.search(words, self.shown):
            assert self._read(deadline - time.monotonic()), f"no {words!r} in {self.shown!r}"

    def type(self, keys: str) -> None:
        os.write(self._handle, keys.encode())

    def detach(self) -> None:
        """Ctrl-b d, typed and not pasted: tmux tells them apart by the time between keys."""
        for key in ("\x02", "d"):
            time.sleep(0.3)
            self.type(key)

    def end(self, seconds: float = 30.0) -> int:
        """Read on to the end; the exit code."""
        deadline = time.monotonic() + seconds
        while self._read(deadline - time.monotonic()):
            pass
        os.close(self._handle)
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])

    def _read(self, seconds: float) -> bool:
        if seconds <= 0 or not select.select([self._handle], [], [], seconds)[0]:
            return False
        piece = b""
        with suppress(OSError):  # the other end is closed
            piece = os.read(self._handle, 65536)
        self.shown += piece.decode("utf-8", "replace")
        return bool(piece)


@pytest.fixture
def place(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    (tmp_path / "inventory").mkdir()
    (tmp_path / "playbooks").mkdir()
    (tmp_path / "checkpoints").mkdir()
    socket = tmp_path / "s"
    (tmp_path / "inventory" / "hosts.yml").write_text(
        f"""\
version: 1
hosts:
  here: {{connection: local, tmux_socket: {socket}, state_dir: {tmp_path}/state}}
""",
        encoding="utf-8",
    )
    (tmp_path / "playbooks" / "train.sh").write_text(TRAINER, encoding="utf-8")
    (tmp_path / "playbooks" / "deploy.yml").write_text(
        f"""\
version: 1
name: dflash
files: [{{source: train.sh, dest: {tmp_path}/train.sh}}]
run:
  command: [sh, {tmp_path}/train.sh]
  cwd: {tmp_path}
  env_base: minimal
  env: {{GREETING: "hello world"}}
stop: {{signal: INT, grace: 5s}}
ready: {{alive_for: 1s}}
preflight: {{gpus: 0}}
checkpoints: {{path: {tmp_path}/checkpoints}}
""",
        encoding="utf-8",
    )
    place = Place(path=tmp_path, socket=socket)
    try:
        yield place
    finally:
        place.run("stop")
        subprocess.run(("tmux", "-S", str(socket), "kill-server"), capture_output=True, check=False)


def test_a_job_s_whole_life(place: Place) -> None:
    (place.path / "checkpoints" / ".hidden").write_text("x", encoding="utf-8")
    assert place.run("status").returncode == 3
    assert place.run("deploy", "--dry-run").returncode == 10
    first = place.run("deploy")
    assert first.returncode == 0, first.stderr
    assert place.run("status").returncode == 0
    again = place.run("deploy")
    assert (again.returncode, "keeps running" in again.stdout) == (0, True)
    assert place.run("deploy", "--clear-checkpoints").returncode == 65
    second = place.run("deploy", "--restart", "--clear-checkpoints")
    assert second.returncode == 0, second.stderr
    assert "1 entry of" in second.stdout
    assert "step 3 loss 2.5" in place.run("logs").stdout
    assert place.run("stop").returncode == 0
    assert place.run("status").returncode == 3
    followed = place.run("logs", "-f", "-n", "1")
    assert followed.returncode == 0
    assert "stopped (exit code 0)" in followed.stderr


def test_the_way_back_brings_the_cleared_checkpoints_back(place: Place) -> None:
    store = place.path / "checkpoints"
    (store / ".hidden").write_text("x", encoding="utf-8")
    (store / "step-1").mkdir()
    done = place.run("deploy", "--clear-checkpoints")
    assert list(store.iterdir()) == []
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("undo"))
    place.run("stop")
    words = line.partition("then: dflashctl ")[2].split()
    assert place.run(*words).returncode == 0
    assert sorted(path.name for path in store.iterdir()) == [".hidden", "step-1"]


def test_attach_shows_the_session_and_detaching_leaves_it_running(place: Place) -> None:
    assert place.run("deploy").returncode == 0
    terminal = place.on_terminal("attach")
    terminal.wait_for(r"step \d+ loss")
    terminal.detach()
    assert terminal.end() == 0
    assert "detached; dflash keeps running" in terminal.shown
    assert place.run("status").returncode == 0


def test_looking_on_read_only_ctrl_c_does_not_reach_the_trainer(place: Place) -> None:
    assert place.run("deploy").returncode == 0
    terminal = place.on_terminal("attach", "--read-only")
    terminal.wait_for(r"step \d+ loss")
    terminal.type("\x03")
    time.sleep(0.5)
    terminal.detach()
    assert terminal.end() == 0
    assert place.run("status").returncode == 0


def test_ctrl_c_on_the_terminal_does_not_stop_a_begun_transaction(place: Place) -> None:
    terminal = place.on_terminal("deploy")
    terminal.wait_for(r"done\S* .*start run")
    terminal.type("\x03")
    terminal.wait_for("goes on over there")
    assert terminal.end() == 0
    assert place.run("status").returncode == 0


def test_a_second_ctrl_c_leaves_and_the_transaction_ends_without_us(place: Place) -> None:
    terminal = place.on_terminal("deploy")
    terminal.wait_for(r"done\S* .*start run")
    terminal.type("\x03")
    terminal.wait_for("goes on over there")
    terminal.type("\x03")
    assert terminal.end() == 130
    assert "stopped watching" in terminal.shown
    deadline = time.monotonic() + 20
    while "at work" in (status := place.run("status")).stdout and time.monotonic() < deadline:
        time.sleep(0.2)
    assert status.returncode == 0
    assert "RUNNING" in status.stdout


def test_ctrl_c_ends_following_and_never_the_trainer(place: Place) -> None:
    assert place.run("deploy").returncode == 0
    terminal = place.on_terminal("logs", "-f")
    terminal.wait_for(r"step \d+ loss")
    terminal.type("\x03")
    assert terminal.end() == 130
    assert "error" not in terminal.shown
    assert place.run("status").returncode == 0


def test_a_reader_of_followed_logs_may_leave(place: Place) -> None:
    assert place.run("deploy").returncode == 0
    words = " ".join(place.words("logs", "-f"))
    done = subprocess.run(
        ("bash", "-c", f'{{ {words}; echo "code $?" >&2; }} | head -n 1'),
        cwd=place.path,
        env=place.environ,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.stdout.startswith("step ")
    assert done.stderr == "code 0\n"


def test_a_killed_client_leaves_a_begun_transaction_to_its_end(place: Place) -> None:
    child = subprocess.Popen(
        place.words("deploy"),
        cwd=place.path,
        env=place.environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stderr is not None
    for line in child.stderr:
        if "done  put" in line:
            break
    child.send_signal(signal.SIGKILL)
    child.wait(10)
    child.stderr.close()
    deadline = time.monotonic() + 20
    while (status := place.run("status")).returncode != 0 and time.monotonic() < deadline:
        time.sleep(0.2)
    assert "RUNNING" in status.stdout


def test_a_terminated_client_leaves_in_order_and_the_trainer_alone(place: Place) -> None:
    assert place.run("deploy").returncode == 0
    child = subprocess.Popen(
        place.words("logs", "-f"),
        cwd=place.path,
        env=place.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline().startswith("step ")
    child.terminate()
    _, err = child.communicate(timeout=20)
    assert (child.returncode, err) == (143, "")
    assert place.run("status").returncode == 0
