"""The faults themselves: how each strikes, how it is lifted, and what the command may say."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.cases import WORDS, Case
from tests.faults.preloaded import Command
from tests.faults.world import World
from tests.lab.container import Container
from tests.lab.machine import Here
from tests.lab.proxy import Proxy
from tests.lab.stand_in import hanging, put_nvidia_smi

SILENCE_S = 30.0
SIGNALS = {"cli-int": signal.SIGINT, "cli-term": signal.SIGTERM, "cli-kill": signal.SIGKILL}

# What the cut command may end with. 0: it was through, or came through all the same.
CODES = {
    "cli-int": {0, 130},
    "cli-term": {0, 143, -15},
    "cli-kill": {0, -9},
    # It never began, or it was cut and is told as such.
    "agent-kill": {0, 66, 69},
    # A session that is gone: the look is stale, or the step that needs it fails.
    "tmux-killed": {0, 66, 75},
    "supervisor-killed": {0, 66, 75},
    "socket-gone": {0},
    "disk-full": {0, 65, 66},
    "read-only": {0, 65, 66},
    "twice": {0, 75},
    "clock-ahead": {0},
    "clock-behind": {0},
    "gpu-hangs": {0},
    "reset": {0, 69},
    "away": {0, 69},
    "black-hole": {0, 69},
    "slow-link": {0},
    # The container is stopped, or the connection ends with it; what was begun was cut.
    "stopped": {0, 66, 69, 78},
    "rebooted": {0, 66, 69, 78},
}


@dataclass
class Strike:
    """One fault, on one command.

    ``struck``: it came while the command was at work. ``second``: the other attempt.
    """

    case: Case
    world: World
    proxy: Proxy | None = None
    container: Container | None = None
    struck: bool = False
    second: Command | None = None
    at: float = 0.0
    _lift: list[Callable[[], None]] = field(default_factory=list)

    def begin(self) -> None:
        """What must be there before the command starts."""
        match self.case.fault:
            case "clock-ahead" | "clock-behind":
                clock = self.world.beside("clock")
                clock.write_text("3600" if self.case.fault == "clock-ahead" else "-3600")
                self._lift.append(clock.unlink)
            case "gpu-hangs":
                put_nvidia_smi(
                    Here(home=Path("/")), f"{self.world.base}/bin", hanging(), self.world.python
                )
                self._lift.append(lambda: shutil.rmtree(self.world.beside("bin")))
                self._lift.append(self.world.beside("bin").mkdir)
            case "slow-link":
                assert self.proxy is not None
                for way in (self.proxy.up, self.proxy.down):
                    way.bytes_per_s = 8000.0
            case _:
                return
        self.struck = True

    def await_moment(self, command: Command) -> int | None:
        """The pid of the agent that halts at the moment; None when the command ends before."""
        assert self.case.moment is not None
        kind, value = self.case.moment
        if kind == "time":
            deadline = time.monotonic() + value
            while time.monotonic() < deadline and command.poll() is None:
                time.sleep(0.005)
            return None
        while command.poll() is None:
            if (pid := self.world.halted()) is not None:
                return pid
            time.sleep(0.005)
        return self.world.halted()

    def come(self, command: Command, halted: int | None) -> None:
        """Strike. ``halted``: the agent that is halted for it, as the target counts."""
        self.at = time.monotonic()
        self.struck = command.poll() is None
        match self.case.fault:
            case "cli-int" | "cli-term" | "cli-kill" as kind:
                self.struck = command.send(SIGNALS[kind])
            case "agent-kill":
                self._kill("agent", halted)
            case "tmux-killed":
                self._kill("tmux", None)
            case "supervisor-killed":
                self._kill("supervise", None)
            case "socket-gone":
                self.world.here(self.world.socket).unlink(missing_ok=True)
            case "disk-full":
                self._fill()
            case "read-only":
                self._close()
            case "twice":
                self.second = self.world.start(*WORDS[self.case.verb])
                if halted is not None:
                    self.second.wait(60)
            case _:
                self._from_outside()
        self.world.go_on()

    def _from_outside(self) -> None:
        assert self.proxy is not None
        assert self.container is not None
        match self.case.fault:
            case "reset":
                self.proxy.cut()
            case "away":
                self.proxy.refuse()
            case "black-hole":
                self.proxy.fall_silent()
            case "stopped":
                self.container.stop()
                self._lift.append(self.container.start)
            case "rebooted":
                self.container.stop()
                self._boot()
            case _:
                raise AssertionError(f"what is {self.case.fault}?")

    def while_it_goes_on(self, command: Command) -> None:
        """What comes later, while the command still waits."""
        assert self.proxy is not None
        if self.case.fault == "black-hole" and self.struck:
            # The transaction needs no network; who watches it gives the link up, and calls.
            while command.poll() is None and time.monotonic() < self.at + SILENCE_S + 2:
                time.sleep(0.1)
            self.proxy.recover()

    def lift(self) -> None:
        """Mend what was broken: what a person would mend who lets the host run again."""
        self.world.go_on()
        if self.proxy is not None:
            self.proxy.recover()
            if self.case.fault == "black-hole":
                self.proxy.cut()  # else the host would not know yet that nobody listens
            self.proxy.up.bytes_per_s = self.proxy.down.bytes_per_s = None
        for undo in self._lift:
            undo()
        self._lift.clear()

    def _kill(self, kind: str, inner: int | None) -> None:
        doomed = self.world.those(kind)
        if inner is not None:
            doomed = [one for one in doomed if one.inner == inner]
        self.struck = self.struck and bool(doomed)
        for one in doomed:
            one.kill()

    def _fill(self) -> None:
        filler = self.world.here(f"{self.world.target}/filler")
        self._lift.append(lambda: filler.unlink(missing_ok=True))
        with filler.open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(b"\0" * (1 << 20))
        with filler.open("ab", buffering=0) as file, suppress(OSError):
            while True:
                file.write(b"\0" * 512)

    def _close(self) -> None:
        """Whatever is opened from now on is on a filesystem that takes nothing."""
        folder = str(self.world.here(self.world.target))
        subprocess.run(("mount", "--bind", folder, folder), check=True)
        subprocess.run(("mount", "-o", "remount,bind,ro", folder), check=True)

        def open_again() -> None:
            subprocess.run(("umount", "-l", folder), check=True)

        self._lift.append(open_again)

    def _boot(self) -> None:
        """The host starts anew: its containers, too, under another boot id of the kernel."""
        assert self.container is not None
        self.container.start()
        new = self.world.beside("boot_id")
        new.write_text(f"{os.urandom(16).hex()}\n")
        path = "/proc/sys/kernel/random/boot_id"
        words = ("mount", "--bind", f"{self.world.base}/boot_id", path)
        self.container.run(words).check_returncode()


def may_end_with(case: Case) -> set[int]:
    """The exit codes that the contract allows the command that is cut."""
    return CODES[case.fault]
