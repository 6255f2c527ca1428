"""Weeks of a target's life in minutes: nothing grows, on neither side.

``make soak``; DFLASHCTL_SOAK_MINUTES says how long, 60 if nothing. Runs are deployed, crash,
are stopped and cleared, with a `status --watch` on all the time and a collector whose log
turns and turns; of every part memory, open files, threads and bytes on disk are sampled, and
the last quarter is set beside the one before.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import yaml

from tests.faults.cases import SEED
from tests.faults.conftest import local_world
from tests.faults.preloaded import ROOT, Preloaded
from tests.faults.world import World

MINUTES = float(os.environ.get("DFLASHCTL_SOAK_MINUTES", "60"))
# What may differ between two quarters although nothing grows: the noise of each measure.
NOISE = {
    "kB": 1500, "files open": 2, "threads": 1, "processes": 3, "bytes": 150_000, "entries": 40,
    "turning bytes": 1 << 20,
}  # fmt: skip
TURNING = """\
import sys
from dflashctl.agent.collect import collect
collect(sys.argv[1], 1 << 20)
"""

pytestmark = [pytest.mark.soak, pytest.mark.timeout(int(MINUTES * 60) + 300)]


class Samples:
    """Each measure's values in their order."""

    def __init__(self) -> None:
        self.of: dict[str, list[float]] = defaultdict(list)

    def process(self, name: str, pid: int) -> None:
        """A process's memory, open files and threads."""
        with suppress(OSError):
            status = Path(f"/proc/{pid}/status").read_text()
            values = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
            self.of[f"{name}: kB"].append(float(values["VmRSS"].split()[0]))
            self.of[f"{name}: threads"].append(float(values["Threads"]))
            self.of[f"{name}: files open"].append(len(os.listdir(f"/proc/{pid}/fd")))

    def folder(self, name: str, folder: Path) -> None:
        """A folder's size and the number of entries in it."""
        size = count = 0
        for path in folder.rglob("*"):
            with suppress(OSError):
                count, size = count + 1, size + path.lstat().st_size
        self.of[f"{name}: bytes"].append(size)
        self.of[f"{name}: entries"].append(count)

    def pieces(self, name: str, folder: Path) -> None:
        """The size of a log in pieces, which grow and go."""
        size = 0
        for path in folder.glob("log*"):
            with suppress(OSError):  # it has turned meanwhile
                size += path.stat().st_size
        self.of[f"{name}: turning bytes"].append(size)

    def grown(self) -> list[str]:
        """The measures whose last quarter is above the one before, and a table of all."""
        found = []
        print(f"\n{'measure':<34}{'samples':>8}{'3rd quarter':>14}{'4th quarter':>14}")
        for name, values in sorted(self.of.items()):
            quarter = max(1, len(values) // 4)
            third = statistics.median(values[-2 * quarter : -quarter] or values)
            last = statistics.median(values[-quarter:])
            print(f"{name:<34}{len(values):>8}{third:>14,.0f}{last:>14,.0f}")
            noise = NOISE[name.partition(": ")[2]]
            if last > third * 1.05 + noise:
                found.append(f"{name}: {third:,.0f}, then {last:,.0f}")
        return found


@contextmanager
def watching(world: World) -> Iterator[subprocess.Popen[bytes]]:
    """A `status --watch` as a process of its own, whose answers nobody keeps."""
    env = {
        **{name: os.environ[name] for name in ("PATH", "HOME")},
        "DFLASHCTL_INVENTORY": str(world.desk / "inventory.yml"),
        "DFLASHCTL_PLAYBOOK": str(world.desk / "watched.yml"),
        "PYTHONPATH": str(ROOT),
    }
    shutil.copy(world.desk / "deploy.yml", world.desk / "watched.yml")
    words = (sys.executable, "-m", "dflashctl", "status", "--watch", "--json")
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, env=env, cwd=world.desk) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)


@contextmanager
def turning(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A collector of a talkative run."""
    folder.mkdir()
    words = (sys.executable, "-c", TURNING, str(folder))
    with subprocess.Popen(words, stdin=subprocess.PIPE, cwd=ROOT) as process:
        yield process


def test_nothing_grows(preloaded: Preloaded, tmp_path: Path) -> None:
    chance, samples = random.Random(SEED), Samples()
    with local_world(preloaded) as world:
        keep_little(world)
        world.ok("deploy")
        fill_the_journal(world)
        log = tmp_path / "talkative"
        with watching(world) as watch, turning(log) as collector:
            end, turns, step = time.monotonic() + MINUTES * 60, 0, 0
            while time.monotonic() < end:
                live_on(world, chance, turns)
                turns += 1
                step = talk(collector, step)
                samples.process("status --watch", watch.pid)
                samples.process("a talkative run's collector", collector.pid)
                for one in world.processes():
                    if one.kind == "agent" and parent(one.pid) == watch.pid:
                        samples.process("its agent", one.pid)
                    elif one.kind in ("tmux", "supervise", "collect"):
                        samples.process(one.kind, one.pid)
                samples.of["the target: processes"].append(len(world.processes()))
                samples.folder("records", world.here(world.state))
                samples.folder("checkpoints", world.here(f"{world.target}/work"))
                samples.pieces("a talkative run's log", log)
                samples.folder("the operator's home", Path(os.environ["HOME"]))
                assert watch.poll() is None, "the watching has ended"
            assert collector.stdin is not None
            collector.stdin.close()
    grown = samples.grown()
    print(f"{turns} turns, seed {SEED}")
    assert not grown, grown


def keep_little(world: World) -> None:
    """Whatever is kept for days in life is kept for no time here."""
    path = world.desk / "deploy.yml"
    playbook = yaml.safe_load(path.read_text())
    playbook["checkpoints"] |= {"trash": {"keep": 1, "for": "0s"}, "keep": {"last": 3}}
    path.write_text(yaml.safe_dump(playbook, sort_keys=False))


def fill_the_journal(world: World) -> None:
    """As after some weeks: so many journals that old ones go."""
    folder = world.here(f"{world.state}/journal")
    (one,) = folder.glob("*.jsonl")
    for number in range(250):
        shutil.copy(one, folder / f"t-2026-01-01T0000Z-dflash-{number:04}.jsonl")


def live_on(world: World, chance: random.Random, turn: int) -> None:
    """One event of a life; whatever it is, the next one finds a target that works."""
    if not world.those("trainer"):
        world.ok("deploy")
    match chance.choice(("restart", "clear", "crash", "stop", "killed", "prune")):
        case "restart":
            world.write(1 + turn % 7)
            keep_little(world)
            world.ok("deploy", "--restart")
        case "clear":
            world.ok("deploy", "--restart", "--clear-checkpoints")
        case "crash":
            for trainer in world.those("trainer"):
                trainer.kill()
            world.run("status")
        case "killed":
            for server in world.those("tmux"):
                server.kill()
        case "prune":
            world.ok("checkpoints", "prune", "--yes")
        case "stop":
            world.ok("stop")
    for command in world.commands:
        command.forget()
    world.commands.clear()


def talk(collector: subprocess.Popen[bytes], step: int) -> int:
    """Half a megabyte of output, with metrics."""
    assert collector.stdin is not None
    for number in range(step, step + 5000):
        line = b"step %d loss=%.4f %s\n" % (number, 1 + 1 / (1 + number), b"x" * 80)
        collector.stdin.write(line)
    collector.stdin.flush()
    return step + 5000


def parent(pid: int) -> int:
    with suppress(OSError, IndexError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0
