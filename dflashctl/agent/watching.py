"""What the watchdog is told and tells: the part of the protocol that is about it."""

from __future__ import annotations

from typing import Literal

from dflashctl.agent.lean import dataclass, field

Kind = Literal["webhook", "slack", "ntfy", "email", "command"]
Event = Literal["verdict", "cleared", "ended", "restart", "test"]
# What has become of a restart; ``unwatched``: it waits, and nobody is left to do it.
Came = Literal["waits", "started", "cancelled", "given_up", "unwatched"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """A way to tell somebody: one address, or addresses, or a command's words."""

    kind: Kind
    to: tuple[str, ...] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """A run that fails is started again: how often, and how long after the first failure.

    Each time it waits twice as long as before.
    """

    limit: int
    after_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A run that the watchdog started: because which run failed, and the how-manyth it is."""

    of: str
    number: int
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartSeen:
    """What the watchdog does about a run that failed.

    Attributes:
        number, limit: which attempt of how many.
        due_at: when it is, or was, to be made.
        came: what has become of it.
        why: the new run's id, who cancelled it, or why it was given up.
    """

    number: int
    limit: int
    due_at: float
    came: Came
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """How a run is watched on its target.

    Attributes:
        every_s: between two looks.
        channels: who is told.
        textfile: a file for node_exporter's textfile collector, if one is wanted.
        restart: whether a run that fails is started again.
    """

    every_s: float
    channels: tuple[Channel, ...]
    textfile: str | None
    restart: Restart | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """What is told.

    ``code``: a verdict's code, the state that a run ended in, or what became of a restart;
    ``progress``: how far the run was, in words; ``at``: seconds since the epoch.
    """

    event: Event
    code: str
    evidence: str
    job: str
    run: str | None
    host: str
    progress: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Notify:
    """Send a test over these channels, from the target."""

    job: str
    channels: tuple[Channel, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Notified:
    """For each channel why it could not be sent; empty text: it was."""

    problems: tuple[str, ...]
