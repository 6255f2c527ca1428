"""A target with a job that is cut again and again, and what is true of it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.faults.preloaded import Command, Preloaded

FOLDER = Path(__file__).parent
PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process of the job, as this machine sees it. ``inner``: its pid on the target."""

    kind: str
    pid: int
    inner: int
    run_id: str | None

    def kill(self, number: int = signal.SIGKILL) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)


@dataclass
class World:
    """One target. ``base``: its folder there; ``root``: what stands before it here.

    Below ``base`` lie what a test tells the agent's interpreter (`brake`) and what the
    trainer tells the test; the job itself is all below ``base``/target.
    """

    base: str
    root: str
    desk: Path
    python: str
    host: dict[str, Any]
    source: Preloaded
    socket: str
    version: int = 0
    broken: bool = False
    commands: list[Command] = field(default_factory=list)

    @property
    def target(self) -> str:
        return f"{self.base}/target"

    @property
    def checkpoints(self) -> str:
        return f"{self.target}/work/checkpoints"

    @property
    def state(self) -> str:
        return f"{self.target}/state"

    def here(self, path: str) -> Path:
        """A path of the target, on this machine."""
        return Path(f"{self.root}{path}")

    def beside(self, name: str) -> Path:
        """A file in its own folder."""
        return self.here(f"{self.base}/{name}")

    def furnish(self) -> None:
        """Inventory, playbook, the interpreter that can be halted."""
        shutil.copy(FOLDER / "brake.py", self.beside("brake.py"))
        script = f'#!/bin/sh\nexec {self.python} -I -S -X utf8 {self.base}/brake.py "$@"\n'
        self.beside("python").write_text(script)
        self.beside("python").chmod(0o755)
        self.beside("bin").mkdir(exist_ok=True)
        for folder in (self.target, f"{self.target}/work", self.checkpoints):
            self.here(folder).mkdir(exist_ok=True)
        (self.desk / "payload").mkdir(parents=True)
        (self.desk / "inventory.yml").write_text(yaml.safe_dump(self.host, sort_keys=False))
        self.write(1)

    def write(self, version: int) -> None:
        """The job's next version: other files, the same playbook."""
        self.version = version
        for name, content in self.contents(version).items():
            (self.desk / "payload" / name).write_bytes(content)
        playbook = {
            "version": 1,
            "name": "dflash",
            "files": [
                {"source": f"payload/{name}", "dest": f"{self.target}/{name}"}
                for name in self.contents(version)
            ],
            "run": {
                "command": [
                    *(self.python, "-I", "-S"),
                    *(f"{self.target}/train.py", self.checkpoints),
                ],
                "cwd": self.target,
                "env_base": "minimal",
                "env": {"FAULT_WORLD": self.base},
                "exit_codes": {75: "interrupted"},
            },
            "stop": {"grace": "5s"},
            "ready": {"alive_for": "0.2s"},
            "checkpoints": {
                "path": self.checkpoints,
                "complete_when": {"file": "COMPLETE"},
                "archive_to": f"{self.target}/work/archive",
            },
        }
        (self.desk / "deploy.yml").write_text(yaml.safe_dump(playbook, sort_keys=False))

    def contents(self, version: int) -> dict[str, bytes]:
        """What that version pushes."""
        digest = hashlib.sha256(b"%d" % version).hexdigest()
        trainer = (FOLDER / "train.py").read_bytes()
        return {
            "train.py": trainer + b"# version %d\n" % version,
            "data.txt": f"{digest}\n".encode() * 1000,
        }

    def pushed(self) -> dict[str, bytes | None]:
        """What is in the places of the pushed files."""
        found: dict[str, bytes | None] = {}
        for name in self.contents(0):
            place = self.here(f"{self.target}/{name}")
            found[name] = place.read_bytes() if place.exists() else None
        return found

    # --- the command ---------------------------------------------------------------------

    def start(self, *words: str) -> Command:
        """dflashctl, begun."""
        env = {
            "PATH": os.environ["PATH"],
            "HOME": os.environ["HOME"],
            "LC_ALL": "C.UTF-8",
            "COLUMNS": "80",
            "DFLASHCTL_INVENTORY": str(self.desk / "inventory.yml"),
            "DFLASHCTL_PLAYBOOK": str(self.desk / "deploy.yml"),
        }
        command = self.source.run(words, env, self.desk)
        self.commands.append(command)
        return command

    def run(self, *words: str) -> Command:
        """dflashctl, to its end."""
        command = self.start(*words)
        command.wait(PATIENCE_S)
        return command

    def ok(self, *words: str) -> Command:
        """The same; it must succeed."""
        command = self.run(*words)
        assert command.poll() == 0, f"{words}: exit {command.poll()}\n{command.out}{command.err}"
        return command

    # --- what is true --------------------------------------------------------------------

    def processes(self) -> list[Process]:
        """The job's trainers, supervisors and agents, from the process table."""
        found = []
        for entry in os.scandir("/proc"):
            if not entry.name.isdigit():
                continue
            with suppress(OSError):
                words = Path(entry.path, "cmdline").read_bytes().decode(errors="replace")
                kind = self._kind(words.split("\0"))
                if kind is not None:
                    found.append(_process(kind, int(entry.name)))
        return found

    def _kind(self, words: list[str]) -> str | None:
        if f"{self.base}/brake.py" in words:
            return "agent"
        if any(word.startswith(f"{self.state}/jobs/") for word in words):
            if Path(words[0]).name.startswith("tmux"):
                return "tmux"  # a server has the words that it was started with
            programs = ("supervise", "collect", "watchdog")
            return next((p for p in programs if any(w.endswith(f"/{p}.py") for w in words)), None)
        if f"{self.target}/train.py" in words:
            return "trainer"
        return None

    def those(self, kind: str) -> list[Process]:
        """Its processes of one kind."""
        return [one for one in self.processes() if one.kind == kind]

    def journals(self) -> dict[str, list[dict[str, Any]]]:
        """What each transaction wrote down."""
        found = {}
        for path in self.here(f"{self.state}/journal").glob("*.jsonl"):
            facts = []
            for line in path.read_text(errors="replace").splitlines():
                with suppress(ValueError):
                    facts.append(json.loads(line))
            found[path.stem] = facts
        return found

    def ledger(self) -> set[str]:
        """The checkpoints that were ever complete."""
        path = self.beside("ledger")
        return set(path.read_text().split()) if path.exists() else set()

    def saved(self) -> set[str]:
        """The complete ones that are there: in their place, in the trash, in an archive."""
        found = set()
        for weights in self.here(f"{self.target}/work").rglob("weights"):
            if any(part.startswith(".purging-") for part in weights.parts):
                continue
            lines = weights.read_text().split()
            if (weights.parent / "COMPLETE").exists() and len(lines) == 100:
                assert len(set(lines)) == 1, f"{weights} is half of one and half of another"
                found.add(lines[0])
        return found

    def in_place(self, *, complete: bool = False) -> list[int]:
        """The steps of the checkpoints in their folder: all of them, or the complete ones."""
        end = "/COMPLETE" if complete else ""
        found = self.here(self.checkpoints).glob(f"step-*{end}")
        return sorted(int(path.parts[-2 if complete else -1][5:]) for path in found)

    def forget_old(self) -> None:
        """What earlier cases moved away is of no more interest."""
        work = self.here(f"{self.target}/work")
        for old in (work / "archive", *work.glob(".checkpoints.*")):
            shutil.rmtree(old, ignore_errors=True)
        for step in self.in_place()[:-4]:
            shutil.rmtree(self.here(f"{self.checkpoints}/step-{step:06}"))

    # --- halting the agent ---------------------------------------------------------------

    def halt_at(self, moment: dict[str, Any]) -> None:
        """Have the next agent halt there."""
        self.go_on()
        for name in ("reached", "go", "count", "moment.spent"):
            self.beside(name).unlink(missing_ok=True)
        fresh = self.beside("moment.new")
        fresh.write_text(json.dumps(moment))
        fresh.rename(self.beside("moment.json"))

    def halted(self) -> int | None:
        """The pid of the agent that has come there, as the target counts."""
        path = self.beside("reached")
        return int(path.read_text()) if path.exists() else None

    def go_on(self) -> None:
        """Halt nobody, and let go of whoever halts."""
        self.beside("moment.json").unlink(missing_ok=True)
        self.beside("go").touch()

    def quiet(self, seconds: float = 60.0) -> None:
        """Wait until no agent is at work any more."""
        until(lambda: not self.those("agent"), seconds, "an agent is still at work")


def _process(kind: str, pid: int) -> Process:
    status = Path(f"/proc/{pid}/status").read_text()
    inner = next(line for line in status.splitlines() if line.startswith("NSpid:")).split()[-1]
    run_id = None
    with suppress(OSError):
        for entry in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            if entry.startswith(b"DFLASHCTL_RUN_ID="):
                run_id = entry.partition(b"=")[2].decode()
    return Process(kind=kind, pid=pid, inner=int(inner), run_id=run_id)


def until(condition: Callable[[], object], seconds: float, otherwise: str) -> None:
    """Wait for something that must come true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.02)


def mounted(folder: Path, size: str) -> Iterator[None]:
    """A small filesystem of our own in a folder."""
    words = ("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder))
    subprocess.run(words, check=True)
    try:
        yield
    finally:
        subprocess.run(("umount", "-l", str(folder)), check=False)
