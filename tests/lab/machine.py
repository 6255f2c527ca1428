"""A machine that tests set up and inspect: this very one, or a container."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

# Kills, by pid, every process that has the text in its environment, command line or working
# directory; without a text every one. Spared are the first process with its sleeper, the
# script itself and what started it (under lxc-attach that is outside, and reads as 0).
_END_PROCESSES = r"""
import os, signal, sys, time
needle = os.fsencode(sys.argv[1])

def read(pid, part):
    with open(f"/proc/{pid}/{part}", "rb") as text:
        return text.read()

def parent_and_state(pid):
    state, parent = read(pid, "stat").rpartition(b")")[2].split()[:2]
    return int(parent), state

spared, pid = set(), os.getpid()
while pid > 1:
    spared.add(pid)
    pid = parent_and_state(pid)[0]
until = time.monotonic() + 10
found = True
while found and time.monotonic() < until:
    found = False
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            parent, state = parent_and_state(pid)
            if pid == 1 or pid in spared or state == b"Z":
                continue
            command = read(pid, "cmdline")
            if not command or (parent == 1 and command == b"/bin/sleep\0infinity\0"):
                continue
            where = os.fsencode(os.readlink(f"/proc/{pid}/cwd"))
            if needle in b"\0".join((command, read(pid, "environ"), where)):
                found = True
                os.kill(pid, signal.SIGKILL)
        except OSError:
            continue
    time.sleep(0.01 if found else 0)
sys.exit(found)
"""


class Machine(Protocol):
    """What tests do on a machine, besides what dflashctl does there."""

    def run(
        self, words: Sequence[str], *, stdin: str = "", timeout_s: float = 30
    ) -> subprocess.CompletedProcess[str]:
        """Run a program there as root (here: as who runs the tests); its output is kept."""

    def put(self, path: str, data: bytes, mode: int = 0o644) -> None:
        """Write a file there."""

    def make_folder(self) -> str:
        """A new, empty folder there, with a unique and short name."""

    def remove_folder(self, folder: str) -> None:
        """Remove a folder that ``make_folder`` made, and all that is in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """This machine, with another home for what tests run on it."""

    home: Path

    def run(
        self, words: Sequence[str], *, stdin: str = "", timeout_s: float = 30
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words,
            input=stdin,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            check=False,
            timeout=timeout_s,
            cwd=self.home,
            env={"HOME": str(self.home), "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
        )

    def put(self, path: str, data: bytes, mode: int = 0o644) -> None:
        place = Path(path)
        place.write_bytes(data)
        place.chmod(mode)

    def make_folder(self) -> str:
        # tmux sockets are made in it, and their paths may have 107 bytes at most.
        return tempfile.mkdtemp(prefix="dflash-", dir="/tmp")

    def remove_folder(self, folder: str) -> None:
        shutil.rmtree(folder, ignore_errors=True)


def end_processes(machine: Machine, text: str, python: str) -> None:
    """Kill every process on the machine that has the text about it.

    The text is a test's folder. In a container of our own it may be empty: all go.
    """
    if not text and isinstance(machine, Here):
        raise ValueError("that would end every process of this machine")
    machine.run((python, "-c", _END_PROCESSES, text)).check_returncode()
