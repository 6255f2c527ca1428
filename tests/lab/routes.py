"""One target named ``box``, reached in each of the ways that dflashctl knows."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import yaml

from tests.lab.container import Container
from tests.lab.machine import Here, Machine, end_processes
from tests.lab.need import need
from tests.lab.stand_in import Behaviour, put_nvidia_smi
from tests.sshd import Sshd, known_hosts_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A way to the target ``box``, and a folder on it for one test.

    Attributes:
        name: how it is reached.
        machine: the target itself, past dflashctl.
        tmp: an empty folder on the target; it goes after the test, with every process
            that has its name in its environment, command line or working directory.
        bin: a folder in ``tmp`` that comes first in the PATH of the target's agent.
        home: what ``~`` is for the agent. Tests of `local` and `ssh` write nothing there.
        state_dir: where the agent keeps its records.
        tmux_socket: the path of the socket; None: the target user's default server.
        python: the interpreter for the agent, and for what tests run there.
        inventory: the text of an inventory with this one target, which is the default.
        sshd: the server on the way; None when there is none.
    """

    name: Literal["local", "ssh", "pct"]
    machine: Machine
    tmp: str
    bin: str
    home: str
    state_dir: str
    tmux_socket: str | None
    python: str
    inventory: str
    sshd: Sshd | None

    def run(
        self, words: Sequence[str], *, stdin: str = "", timeout_s: float = 30
    ) -> subprocess.CompletedProcess[str]:
        """Run a program on the target, past dflashctl."""
        return self.machine.run(words, stdin=stdin, timeout_s=timeout_s)

    def tmux(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run tmux on the target, on the server that dflashctl uses there."""
        where = () if self.tmux_socket is None else ("-S", self.tmux_socket)
        return self.run(("tmux", *where, *words))

    def put_nvidia_smi(self, behaviour: Behaviour) -> None:
        """Give the target's agent an ``nvidia-smi``, or change how it behaves."""
        put_nvidia_smi(self.machine, self.bin, behaviour, self.python)

    def inventory_through(self, port: int) -> str:
        """The inventory, with the server reached by another port: that of a `Proxy`."""
        if self.sshd is None:
            raise ValueError("there is no connection on this way")
        line = known_hosts_line(f"[{self.sshd.host}]:{port}", self.sshd.host_key)
        with self.sshd.known_hosts.open("a") as known:
            known.write(line)
        return self.inventory.replace(f"port: {self.sshd.port}\n", f"port: {port}\n")


@contextmanager
def local_route(home: Path) -> Iterator[Route]:
    """This machine, without a connection."""
    yield from _on(Here(home=home), "local", {"connection": "local"}, None)


@contextmanager
def ssh_route(home: Path, sshd: Sshd, **host: str) -> Iterator[Route]:
    """This machine, by ssh. ``host``: further fields of it in the inventory."""
    yield from _on(Here(home=home), "ssh", {**_address(sshd), **host}, sshd)


@contextmanager
def pct_route(container: Container, sshd: Sshd, **host: str) -> Iterator[Route]:
    """A container, by ssh to its host and ``pct`` there. ``host``: as with `ssh_route`."""
    yield from _on(container, "pct", {**_address(sshd), **host}, sshd)


def _on(
    machine: Here | Container,
    name: Literal["local", "ssh", "pct"],
    host: dict[str, Any],
    sshd: Sshd | None,
) -> Iterator[Route]:
    inside = isinstance(machine, Container)
    if not inside:
        need("tmux")
    tmp = machine.make_folder()
    target: dict[str, Any] = {
        "python": "/usr/bin/python3" if inside else sys.executable,
        "path": [f"{tmp}/bin"],
        "state_dir": f"{tmp}/state",
    }
    if isinstance(machine, Container):
        target |= {"vmid": machine.vmid, "route": "pct"}
        hosts = {"kpro6": {**host, "containers": {"box": target}}}
    else:
        target["tmux_socket"] = f"{tmp}/tmux"
        hosts = {"box": {**host, **target}}
    inventory = {"version": 1, "default_target": "box", "hosts": hosts}
    route = Route(
        name=name,
        machine=machine,
        tmp=tmp,
        bin=f"{tmp}/bin",
        home="/root" if inside else pwd.getpwuid(os.getuid()).pw_dir,
        state_dir=target["state_dir"],
        tmux_socket=target.get("tmux_socket"),
        python=target["python"],
        inventory=yaml.safe_dump(inventory, sort_keys=False),
        sshd=sshd,
    )
    route.run(("mkdir", route.bin)).check_returncode()
    try:
        yield route
    finally:
        _clean(route, inside)


def _clean(route: Route, inside: bool) -> None:
    if route.tmux_socket is None:
        listed = route.tmux("list-sessions", "-F", "#{session_name}").stdout.splitlines()
        for session in listed:
            if session.startswith("dflash"):
                route.tmux("kill-session", "-t", f"={session}")
    else:
        route.tmux("kill-server")
    # A container is the session's own, so whatever still runs in it may go.
    end_processes(route.machine, "" if inside else route.tmp, route.python)
    route.machine.remove_folder(route.tmp)


def _address(sshd: Sshd) -> dict[str, Any]:
    return {
        "address": sshd.host,
        "port": sshd.port,
        "user": sshd.user,
        "identity_file": str(sshd.client_key),
        "known_hosts_file": str(sshd.known_hosts),
        "proxy_jump": "none",
    }
