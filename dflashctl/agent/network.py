"""The target's network, as the kernel tells it: addresses, and who has a port."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from dflashctl.agent import process
from dflashctl.agent.fabric import Interface
from dflashctl.agent.process import Process

_GET_FLAGS, _GET_ADDRESS, _GET_MASK = 0x8913, 0x8915, 0x891B
_UP, _LOOPBACK = 0x1, 0x8
_GLOBAL = "00"
_LISTEN = "0A"


def interfaces() -> tuple[Interface, ...]:
    """Every address that others could reach, in the kernel's order of its interfaces."""
    six = list(_six())
    found: list[Interface] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            flags = struct.unpack_from("H", _ask(asked, _GET_FLAGS, name) or bytes(32), 16)[0]
            if not flags & _UP or flags & _LOOPBACK:
                continue
            speed = _speed(name)
            address, mask = _ask(asked, _GET_ADDRESS, name), _ask(asked, _GET_MASK, name)
            if address and mask:
                found.append(
                    Interface(
                        name=name,
                        address=socket.inet_ntoa(address[20:24]),
                        prefix=int.from_bytes(mask[20:24], "big").bit_count(),
                        mbit_per_s=speed,
                    )
                )
            found += [
                Interface(name=name, address=six_address, prefix=prefix, mbit_per_s=speed)
                for where, six_address, prefix in six
                if where == name
            ]
    return tuple(found)


def _ask(asked: socket.socket, what: int, name: str) -> bytes | None:
    request = struct.pack("16s16x", name.encode()[:15])
    with suppress(OSError):
        return fcntl.ioctl(asked.fileno(), what, request)
    return None


def _six() -> Iterator[tuple[str, str, int]]:
    """Interface, address and prefix of each IPv6 address that is good beyond its link."""
    with suppress(OSError):
        for line in Path("/proc/net/if_inet6").read_text().splitlines():
            digits, _, prefix, scope, _, name = line.split()
            if scope == _GLOBAL:
                address = socket.inet_ntop(socket.AF_INET6, bytes.fromhex(digits))
                yield name, address, int(prefix, 16)


def _speed(name: str) -> int | None:
    with suppress(OSError, ValueError):
        told = int(Path(f"/sys/class/net/{name}/speed").read_text())
        return told if told > 0 else None
    return None


def reach(address: str, port: int, source: str, wait_s: float) -> OSError | None:
    """Why nobody answers at a port, asked from an address of ours; None: somebody does."""
    try:
        with socket.create_connection((address, port), timeout=wait_s, source_address=(source, 0)):
            return None
    except OSError as error:
        return error


def words(error: OSError) -> str:
    """What the network said, in short."""
    return "no answer" if isinstance(error, TimeoutError) else error.strerror or str(error)


def listeners(port: int) -> set[Process] | None:
    """The processes that listen at a TCP port, as far as we may see; None: nobody does."""
    sockets = {f"socket:[{inode}]" for inode in _listening(port)}
    if not sockets:
        return None
    return {row.process for row in process.table().values() if _holds(row.process.pid, sockets)}


def _listening(port: int) -> Iterator[str]:
    for table in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
                words = line.split()
                if words[3] == _LISTEN and int(words[1].rpartition(":")[2], 16) == port:
                    yield words[9]


def _holds(pid: int, sockets: set[str]) -> bool:
    with suppress(OSError):
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                if os.readlink(entry.path) in sockets:
                    return True
    return False
