"""``status --all`` of targets that are simulated in this process: ``stand_ins.py COUNT``.

Each answers like a real agent, after the round trips that a real status takes. What is real
is all that happens on this side.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from dflashctl.agent import wire
from dflashctl.agent.observe import observe
from dflashctl.agent.protocol import GREETING, VERSION, Look
from dflashctl.agent.records import StateFolder
from dflashctl.cli.call import Call
from dflashctl.cli.main import main
from dflashctl.cli.reach import Reach
from dflashctl.link.connect import Connections

if TYPE_CHECKING:
    from dflashctl.errors import DflashError
    from dflashctl.inventory.model import Target
    from dflashctl.link.transport import Progress, Words
    from dflashctl.view.console import Screen

ROUND_TRIP_S = 0.1
# Of a status: to connect, and to start the agent.
ROUND_TRIPS = 7


class _Channel:
    """What the agent says: the greeting, and then one look to each question."""

    def __init__(self, look: bytes, *, asked: bool) -> None:
        self._look = look
        self._due = time.monotonic() + ROUND_TRIPS * ROUND_TRIP_S
        greeting = b"%s %d ready\n" % (GREETING.encode(), VERSION)
        self._said = greeting + look if asked else greeting

    def read(self, timeout_s: float) -> bytes:
        wait = self._due - time.monotonic()
        if wait > timeout_s or not self._said:
            time.sleep(timeout_s)
            raise TimeoutError
        time.sleep(max(0.0, wait))
        said, self._said = self._said, b""
        return said

    def write(self, data: bytes) -> None:
        assert data.endswith(b"\n"), "one question"
        self._said, self._due = self._look, time.monotonic() + ROUND_TRIP_S

    def close_input(self) -> None: ...

    def stderr_tail(self) -> str:
        return ""

    def exit_code(self, timeout_s: float) -> int | None:
        return None

    def close(self) -> None: ...


class _Way:
    """A transport to a target that is not there."""

    def __init__(self, look: bytes) -> None:
        self._look = look

    def start(self, words: Words) -> _Channel:
        return _Channel(self._look, asked=bool(words[-1]))

    def send_file(self, source: Path, folder: str, name: str, progress: Progress) -> None:
        raise NotImplementedError

    def terminal_words(self, words: Words) -> Words:
        raise NotImplementedError

    def explain_silence(self, exit_code: int | None, stderr: str) -> DflashError | None:
        raise NotImplementedError

    def close(self) -> None: ...


class _Connections(Connections):
    def __init__(self, look: bytes) -> None:
        super().__init__()
        self._look = look

    def transport(self, target: Target) -> _Way:
        return _Way(self._look)


class _Reach(Reach):
    def __init__(self, screen: Screen, look: bytes) -> None:
        super().__init__(screen)
        self._connections = _Connections(look)


def status(count: int) -> int:
    """The exit code of a look at so many."""
    with tempfile.TemporaryDirectory(prefix="dflash-", dir="/tmp") as name:
        folder = Path(name)
        hosts = {f"host{number:02}": {"address": "192.0.2.1"} for number in range(count)}
        inventory = folder / "inventory.yml"
        inventory.write_text(yaml.safe_dump({"version": 1, "hosts": hosts}))
        playbook = folder / "deploy.yml"
        playbook.write_text("version: 1\nname: dflash\n")
        look = Look(job="dflash", session="dflash", tmux_socket=f"{folder}/tmux", gpus=False)
        seen = wire.dump(observe(look, StateFolder(path=folder / "state")))
        said = {"DFLASHCTL_INVENTORY": str(inventory), "DFLASHCTL_PLAYBOOK": str(playbook)}
        call = Call(
            environ={**os.environ, **said},
            cwd=folder,
            way=lambda screen: _Reach(screen, seen),
        )
        return main(["status", "--all"], call)


if __name__ == "__main__":
    sys.exit(status(int(sys.argv[1])))
