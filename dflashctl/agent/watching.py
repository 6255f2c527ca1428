"""What the watchdog is told and tells: the part of the protocol that is about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["webhook", "slack", "ntfy", "email", "command"]
Event = Literal["verdict", "cleared", "ended", "test"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """A way to tell somebody: one address, or addresses, or a command's words."""

    kind: Kind
    to: tuple[str, ...] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """How a run is watched on its target.

    Attributes:
        every_s: between two looks.
        channels: who is told.
        textfile: a file for node_exporter's textfile collector, if one is wanted.
    """

    every_s: float
    channels: tuple[Channel, ...]
    textfile: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """What is told. ``code``: a verdict's code, or the state that a run ended in.

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
