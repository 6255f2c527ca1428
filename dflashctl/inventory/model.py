"""An inventory as values: hosts, the containers on them, and groups of targets.

None means "not said here": ~/.ssh/config, or the default, decides.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

Become = Literal["sudo"]
HostKey = Literal["strict", "accept-new"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SshAddress:
    """How to reach an sshd. ``address`` may be an alias of ~/.ssh/config.

    ``jump``: the way in between: another `SshAddress` (a host of the inventory),
    ``[user@]host[:port]`` as text, ``"none"`` to go straight, or None: ssh's own config.
    ``host_key``: what becomes of a key that is not known: it is refused, or taken and recorded.
    ``become``: how to be root there; None: whoever we log in as.
    """

    address: str
    port: int | None = None
    user: str | None = None
    identity_file: Path | None = None
    known_hosts_file: Path | None = None
    jump: SshAddress | str | None = None
    host_key: HostKey = "strict"
    become: Become | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Local:
    """This very machine. ``become``: how to be root on it; None: whoever we are."""

    become: Become | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InContainer:
    """A container entered through its host's ``pct exec``."""

    host: SshAddress | Local
    host_name: str
    vmid: int


Route = SshAddress | Local | InContainer


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A host, or a container on a host.

    Attributes:
        name: unique in the inventory: ``kpro6`` or ``kpro6/dflash``.
        route: how it is reached.
        gpus: how many GPUs it is declared to have.
        python: the interpreter for the agent (3.10 or newer).
        path: further PATH entries on the target, searched first.
        state_dir: where dflashctl keeps its records there; None: the default.
        tmux_socket: a socket name, or a path if it holds a slash; None: the default.
        fabric_address: the IP address at which other targets reach it for a run over several;
            None: found on the target.
    """

    name: str
    route: Route
    gpus: int | None = None
    python: str = "python3"
    path: tuple[str, ...] = ()
    state_dir: str | None = None
    tmux_socket: str | None = None
    fabric_address: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """Targets in the file's order. Groups hold full target names.

    Attributes:
        foreign: it is Ansible's: a file, or a program that prints it.
        said: the file's values, in the words of our own format if it is foreign.
        left_out: the hosts of a foreign one that are no targets, and why.
    """

    path: Path
    targets: tuple[Target, ...]
    groups: dict[str, tuple[str, ...]]
    default_target: str | None
    foreign: bool = False
    said: Mapping[str | int, Any] = field(default_factory=dict, compare=False, repr=False)
    left_out: Mapping[str, str] = field(default_factory=dict)
