"""A bench for the agent in process: real tmux on a private socket, in a throw-away folder."""

from __future__ import annotations

import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dflashctl.agent import process
from dflashctl.agent.apply import perform
from dflashctl.agent.keeping import StoreSpec
from dflashctl.agent.observe import observe
from dflashctl.agent.protocol import (
    Action,
    Commit,
    Event,
    Look,
    Outcome,
    StartRun,
    StopRun,
    VerifyRun,
    Who,
)
from dflashctl.agent.records import RunFolder, StateFolder, read_json
from dflashctl.agent.seen import Observed
from tests.lab.need import need

WHO = Who(user="ada", host="desk", version="0")
# As in life, no two runs have the same id: several test sessions may go on at once, and who
# bears a run's id is ended with it.
R1, R2, R3 = (f"r{number}-{secrets.token_hex(4)}" for number in (1, 2, 3))


@dataclass
class Bench:
    """One target that is this machine: a state folder, a tmux socket, a place for files."""

    folder: Path
    state_name: str = "state"
    events: list[Event] = field(default_factory=list)
    transactions: int = 0

    @property
    def state(self) -> StateFolder:
        return StateFolder(path=self.folder / self.state_name)

    @property
    def socket(self) -> str:
        return str(self.folder / "tmux")

    @property
    def checkpoints(self) -> Path:
        return self.folder / "work" / "checkpoints"

    def tmux(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ("tmux", "-S", self.socket, *words),
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )

    def sessions(self) -> list[str]:
        return self.tmux("list-sessions", "-F", "#{session_name}").stdout.splitlines()

    def look(self, **more: object) -> Look:
        settings: dict[str, object] = {
            "job": "dflash",
            "session": "dflash",
            "tmux_socket": self.socket,
            "checkpoints": StoreSpec(path=str(self.checkpoints)),
            "gpus": False,
        }
        return Look(**{**settings, **more})  # type: ignore[arg-type] # any field, by its name

    def observe(self, **more: object) -> Observed:
        return observe(self.look(**more), self.state)

    def commit(self, *actions: Action, may_fail: tuple[int, ...] = (), **more: object) -> Outcome:
        self.transactions += 1
        seen = self.observe(**more)
        return perform(
            Commit(
                transaction=f"t-{self.transactions}",
                look=self.look(**more),
                fingerprint=seen.fingerprint,
                actions=actions,
                who=WHO,
                may_fail=may_fail,
            ),
            self.state,
            self.events.append,
        )

    def start(self, run_id: str, script: str, *, alive_for: float = 0.0, **more: object) -> Outcome:
        """Start a bash script as the trainer."""
        wanted = trainer(run_id, ("bash", "-c", script), **more)
        return self.commit(wanted, VerifyRun(run_id=run_id, alive_for_s=alive_for))

    def stop(self, run_id: str | None, *, grace: float = 5.0, signal: str = "INT") -> Outcome:
        return self.commit(StopRun(session="dflash", run_id=run_id, signal=signal, grace_s=grace))

    def run(self, run_id: str) -> RunFolder:
        return self.state.run("dflash", run_id)

    def log(self, run_id: str) -> str:
        return read(self.run(run_id).log).replace("\r\n", "\n")


def read(path: Path) -> str:
    """A file that somebody else writes: empty as long as it is not there."""
    return path.read_text(encoding="utf-8") if path.exists() else ""


def trainer(run_id: str, command: tuple[str, ...], **more: object) -> StartRun:
    settings: dict[str, object] = {
        "run_id": run_id,
        "session": "dflash",
        "command": command,
        "cwd": None,
        "user": None,
        "env_base": "minimal",
        "env": {},
        "secrets": {},
        "release": (),
        "signal": "INT",
        "grace_s": 5.0,
        "exit_codes": {"75": "interrupted"},
        "free_gpus": True,
    }
    return StartRun(**{**settings, **more})  # type: ignore[arg-type] # any field, by its name


def until(condition: Callable[[], object], seconds: float = 10.0) -> None:
    """Wait for something that must come true soon."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.02)


def _end_all(bench: Bench) -> None:
    """End every run of a bench, its supervisor last.

    Tests share a few run ids: a supervisor that outlived its test would end the processes
    of the next one's run by that id.
    """
    # First, so that no supervisor waits for its last line to get through.
    bench.tmux("kill-server")
    runs = [RunFolder(path=path) for path in bench.state.job("dflash").glob("runs/*")]
    rows = process.table()
    for run in runs:
        left = process.marked(rows, run.id)
        assert len(left) < 20, "that cannot all be ours"
        for member in left:
            process.send(member, signal.SIGKILL)
    records = [read_json(run.process) for run in runs]
    supervisors = [process.Process(*r["supervisor"]) for r in records if r and r.get("supervisor")]
    deadline = time.monotonic() + 10
    while (
        alive := [p for p in supervisors if process.is_alive(p)]
    ) and time.monotonic() < deadline:
        time.sleep(0.02)
    for supervisor in alive:
        process.send(supervisor, signal.SIGKILL)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    need("tmux")
    for name in ("TMUX", "TMUX_PANE", "TMUX_TMPDIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    # A socket's path is limited to about a hundred bytes: not pytest's long folders.
    folder = Path(tempfile.mkdtemp(prefix="bench-"))
    # No ~/.tmux.conf of whoever runs the tests, and a login shell that does nothing odd.
    monkeypatch.setenv("HOME", str(folder))
    bench = Bench(folder=folder)
    bench.checkpoints.mkdir(parents=True)
    try:
        yield bench
    finally:
        _end_all(bench)
        shutil.rmtree(folder, ignore_errors=True)
