"""What is asked about the network and the folders that the targets of one run share.

A run over several targets is one run on each of them, with the same id; `Node` says which
part of the whole a target has.
"""

from __future__ import annotations

from dflashctl.agent.lean import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A target's place in a run over several.

    Attributes:
        rank: from 0; node 0 is where the others meet.
        names: all targets of the run, by rank, as the operator's inventory calls them.
        port: where node 0 listens.
        master: the address of node 0; None: there is no other node.
        address: this target's own, on ``interface``.
    """

    rank: int
    names: tuple[str, ...]
    port: int
    master: str | None = None
    address: str | None = None
    interface: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstFailure:
    """The process of a run that torchrun saw fail first on this target.

    ``exit_code`` is negative when a signal ended it; ``at``: when, to the second.
    """

    rank: int
    exit_code: int
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    """An address of the target, on a network interface that is up and is no loopback.

    ``prefix``: how many bits of the address its network has; ``mbit_per_s``: the link's speed
    as the kernel tells it, None where it does not.
    """

    name: str
    address: str
    prefix: int
    mbit_per_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Listen:
    """Preflight, on node 0: listen at a port until so many others have come with the token.

    Answered by `Listening` at once and by `Heard` in the end, after ``wait_s`` at most. While
    the job itself has the port, another one is listened at: what runs is stopped first.

    Attributes:
        job, session, tmux_socket: the job, as in a `Look`.
        address: this target's own, which says of what kind the others' are.
        others: how many others are to come.
        token: what they must say; good for this once.
    """

    job: str
    session: str
    tmux_socket: str | None
    address: str
    port: int
    token: str
    others: int
    wait_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """From now on the others may come, to this port."""

    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """How many have come with the token."""

    others: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Connect:
    """Preflight, on any other node: go to node 0 from this target's own address."""

    address: str
    port: int
    token: str
    source: str
    wait_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Connected:
    """It let us in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayMark:
    """Lay a small file into a folder, by which others know that it is the same folder.

    It goes with `TakeMark`, or else when the agent ends. Where the folder is not there or may
    not be written, nothing is laid.
    """

    folder: str
    token: str
    rank: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeMark:
    """Whose marks are in the folder? After that, take one's own away."""

    folder: str
    token: str
    rank: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """The ranks whose marks are in the folder, one's own among them."""

    ranks: tuple[int, ...]


Together = Listen | Connect | LayMark | TakeMark
