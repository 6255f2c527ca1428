"""A host's key, as ``inventory trust`` shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from dflashctl.link.hostkeys import fingerprint
from dflashctl.view.keywords import own_fingerprint

if TYPE_CHECKING:
    from pathlib import Path

    from dflashctl.link.hostkeys import Recorded
    from dflashctl.view.console import Screen

Fate = Literal["known", "recorded", "declined"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyShown:
    """A key, whose it is, and what became of it. ``path``: the file that vouches for it."""

    place: str
    key_type: str
    fingerprint: str
    path: Path | None
    fate: Fate

    @classmethod
    def of(cls, place: str, key_type: str, blob: bytes, path: Path | None, fate: Fate) -> KeyShown:
        """The key in ssh's wire format, by its fingerprint."""
        return cls(
            place=place, key_type=key_type, fingerprint=fingerprint(blob), path=path, fate=fate
        )


def key_object(key: KeyShown) -> dict[str, Any]:
    """One key of ``inventory trust --json``."""
    return {
        "address": key.place,
        "key_type": key.key_type,
        "fingerprint": key.fingerprint,
        "file": None if key.path is None else str(key.path),
        "state": key.fate,
    }


def say_unknown(screen: Screen, key: KeyShown) -> None:
    """What is to be compared before anybody says yes."""
    screen.say(f"{key.place} shows a key that is not known here:")
    screen.say(f"{key.key_type} {key.fingerprint}", lead="  ", style="bold")
    screen.say(f"on its own console: {own_fingerprint(key.key_type)}", lead="  ", style="dim")


def say_known(screen: Screen, key: KeyShown, line: int) -> None:
    """Nothing to do."""
    screen.say(f"{key.place} is known already: {key.key_type} {key.fingerprint}")
    screen.say(f"{key.path}:{line}", lead="  ", style="dim")


def say_recorded(screen: Screen, key: KeyShown) -> None:
    """It is in the file now."""
    screen.say(f"recorded in {key.path}")


def say_taken(screen: Screen, key: Recorded) -> None:
    """An unknown key was taken, as the inventory says."""
    screen.say(
        f"{key.place} showed a key that was not known, {key.key_type} {key.fingerprint}; it is "
        f"recorded in {key.path} (host_key: accept-new)",
        style="yellow",
    )


def say_declined(screen: Screen) -> None:
    """The answer was no."""
    screen.say("nothing was recorded")


def say_no_key(screen: Screen, name: str) -> None:
    """The target is this machine."""
    screen.say(f"{name} is this very machine: there is no key to trust")
