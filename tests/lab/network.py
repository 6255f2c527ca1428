"""A network of containers' own: a bridge in a namespace that nothing else is in."""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.lab.container import Container

NETWORK = "10.77.0"
INTERFACE = "eth0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bridge:
    """The bridge between some containers. ``addresses``: theirs, in their order."""

    namespace: int
    addresses: tuple[str, ...]

    def cut(self, number: int) -> None:
        """Pull a container's cable; packets to it go nowhere, as when a switch dies."""
        self._ip("link", "set", f"port{number}", "down")

    def mend(self, number: int) -> None:
        """Put it back."""
        self._ip("link", "set", f"port{number}", "up")

    def _ip(self, *words: str) -> None:
        _in_network_of(self.namespace, *words)


@contextmanager
def bridged(containers: Sequence[Container]) -> Iterator[Bridge]:
    """Give running containers an address each, by which they reach one another and nobody else."""
    namespace = subprocess.Popen(["unshare", "--net", "--kill-child", "sleep", "infinity"])
    try:
        _until_apart(namespace.pid)
        addresses = tuple(f"{NETWORK}.{number + 1}" for number in range(len(containers)))
        _in_network_of(namespace.pid, "link", "add", "bridge0", "type", "bridge")
        _in_network_of(namespace.pid, "link", "set", "bridge0", "up")
        for number, container in enumerate(containers):
            inside = container.init_pid()
            peer = ("peer", "name", INTERFACE, "netns", str(inside))
            port = f"port{number}"
            _in_network_of(namespace.pid, "link", "add", port, "type", "veth", *peer)
            _in_network_of(namespace.pid, "link", "set", port, "master", "bridge0", "up")
            address = f"{addresses[number]}/24"
            _in_network_of(inside, "addr", "add", address, "dev", INTERFACE)
            _in_network_of(inside, "link", "set", INTERFACE, "up")
        yield Bridge(namespace=namespace.pid, addresses=addresses)
    finally:
        namespace.kill()
        namespace.wait()


def _until_apart(pid: int) -> None:
    """`unshare` has its own network a moment after it was started."""
    ours, deadline = os.readlink("/proc/self/ns/net"), time.monotonic() + 10
    while os.readlink(f"/proc/{pid}/ns/net") == ours:
        assert time.monotonic() < deadline, "no network of its own"
        time.sleep(0.01)


def _in_network_of(pid: int, *words: str) -> None:
    """Run ``ip`` in the network namespace of a process."""
    subprocess.run(
        ["nsenter", "--target", str(pid), "--net", "ip", *words],
        check=True,
        capture_output=True,
        timeout=30,
    )
