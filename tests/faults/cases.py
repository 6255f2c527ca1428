"""Which cuts are tried: a list that a seed determines, so that each can be had again."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Place = Literal["local", "lab"]
Moment = tuple[Literal["fact", "call", "time"], float]
SEED = os.environ.get("DFLASHCTL_FAULTS_SEED", "20261201")
LOCAL, LAB = (int(part) for part in os.environ.get("DFLASHCTL_FAULTS", "400,100").split(","))

# What each verb writes into its journal, and about how often its agent changes something.
FACTS = {"restart": 12, "clear": 14, "archive": 14, "deploy": 10, "stop": 4, "start": 6}
CALLS = {"restart": 110, "clear": 125, "archive": 150, "deploy": 95, "stop": 32, "start": 60}
WORDS = {
    "restart": ("deploy", "--restart"),
    "clear": ("deploy", "--restart", "--clear-checkpoints"),
    "archive": ("deploy", "--restart", "--archive-checkpoints"),
    "deploy": ("deploy",),
    "stop": ("stop",),
    "start": ("start",),
}
# The state that each begins in.
RUNNING = ("restart", "clear", "archive", "stop")
_VERBS = ("restart",) * 6 + ("clear",) * 4 + ("archive",) * 4 + ("deploy", "stop", "start") * 2

# Those of a whole command, and those that come at a moment.
LASTING = ("clock-ahead", "clock-behind", "gpu-hangs")
MOMENTARY = {
    "local": (
        "cli-int", "cli-term", "cli-kill", "agent-kill", "agent-kill", "tmux-killed",
        "supervisor-killed", "socket-gone", "disk-full", "disk-full", "read-only", "twice",
    ),
    "lab": (
        "reset", "reset", "away", "stopped", "rebooted", "cli-int", "cli-kill", "agent-kill",
        "tmux-killed", "socket-gone", "twice",
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One cut.

    ``moment``: before the journal's fact of that number, before the agent's change of that
    number, or so many seconds after the start of the command; None: all the time.
    """

    place: Place
    number: int
    verb: str
    fault: str
    moment: Moment | None

    @property
    def id(self) -> str:
        """Its name, which holds all of it."""
        at = "whole" if self.moment is None else f"{self.moment[0]}-{self.moment[1]:g}"
        return f"{self.place}-{self.number:04}-{self.verb}-{self.fault}-{at}"


def cases() -> list[Case]:
    """Every cut of this seed; those of the lab are spread among the others."""
    local, lab = list(_made("local", LOCAL)), list(_made("lab", LAB))
    share = len(local) / max(1, len(lab))
    found: list[Case] = []
    for number, one in enumerate(lab):
        found += [one, *local[round(number * share) : round((number + 1) * share)]]
    return found if lab else local


def _made(place: Place, count: int) -> Iterator[Case]:
    chance = random.Random(f"{SEED} {place}")
    for number, (verb, fault, moment) in enumerate(_chosen(place, chance)):
        if number == count:
            return
        yield Case(place=place, number=number, verb=verb, fault=fault, moment=moment)


Choice = tuple[str, str, Moment | None]


def _chosen(place: Place, chance: random.Random) -> Iterator[Choice]:
    """Every step boundary first, in a mixed order; then whatever comes, without an end."""
    first = list(_boundaries(place, chance))
    chance.shuffle(first)
    yield from first
    while True:
        verb = chance.choice(_VERBS)
        fault = chance.choice(MOMENTARY[place])
        yield verb, fault, _moment(verb, place, chance)


def _boundaries(place: Place, chance: random.Random) -> Iterator[Choice]:
    """Every boundary of every verb, and the faults that need no moment."""
    verbs = FACTS if place == "local" else ("restart",)
    faults = ("agent-kill", "cli-kill") if place == "local" else ("reset", "stopped")
    for verb in verbs:
        for fact in range(FACTS[verb]):
            yield from ((verb, fault, ("fact", fact)) for fault in faults)
    if place == "local":
        yield from ((chance.choice(_VERBS), fault, None) for fault in LASTING * 6)
    else:
        yield from ((chance.choice(_VERBS), "slow-link", None) for _ in range(4))
        for _ in range(6):
            yield chance.choice(RUNNING), "black-hole", ("fact", chance.randrange(4))


def _moment(verb: str, place: Place, chance: random.Random) -> Moment:
    match chance.choice(("fact", "fact", "call", "call", "time")):
        case "fact":
            return "fact", chance.randrange(FACTS[verb])
        case "call":
            return "call", chance.randrange(CALLS[verb])
        case _:
            return "time", round(chance.uniform(0, 1.5 if place == "local" else 3.0), 2)
