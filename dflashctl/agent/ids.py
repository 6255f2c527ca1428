"""Names for runs and transactions: a time that sorts, the job, and a little chance."""

from __future__ import annotations

from datetime import timezone
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

# Base32 without capitals: no letter of it is taken for another one when read aloud.
ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"


def run_id(job: str, now: datetime, choose: Callable[[str], str]) -> str:
    """``2026-11-29T1206Z-dflash-k3f9``: the minute in UTC, the job, four characters.

    ``now`` knows its time zone; ``choose`` picks one character of a text, as
    ``secrets.choice`` does.
    """
    chance = "".join(choose(ALPHABET) for _ in range(4))
    return f"{now.astimezone(timezone.utc):%Y-%m-%dT%H%MZ}-{job}-{chance}"


def transaction_id(job: str, now: datetime, choose: Callable[[str], str]) -> str:
    """``t-2026-11-29T1206Z-dflash-k3f9``: formed like a run's id."""
    return f"t-{run_id(job, now, choose)}"


def archive_name(now: datetime) -> str:
    """``2026-11-29T120603Z``: the moment in UTC, for an archive that is given no name."""
    return f"{now.astimezone(timezone.utc):%Y-%m-%dT%H%M%SZ}"
