"""How long each wait for a target may take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """All in seconds. What a person types in between does not count.

    Attributes:
        crowded_s: for a server that hangs up before its first line to take us at last.
        banner_s: until a server's first line.
        handshake_s: until the keys are agreed on.
        answer_s: for a server's answer to a login, a new channel, a program's start.
        stall_s: for data that nobody takes.
        copy_stall_s: the same for a file's, which a full disk may hold up.
        greeting_s: until a target's first words; ``install_s``: after it was sent the agent.
        silence_s: for the next sign of life of an agent at work.
        reply_s: for its answer where nothing but looking is to be done, alive or not.
        farewell_s: for a connection's end.
    """

    crowded_s: float = 20.0
    banner_s: float = 10.0
    handshake_s: float = 30.0
    answer_s: float = 30.0
    stall_s: float = 30.0
    copy_stall_s: float = 60.0
    greeting_s: float = 20.0
    install_s: float = 60.0
    silence_s: float = 30.0
    reply_s: float = 600.0
    farewell_s: float = 5.0
