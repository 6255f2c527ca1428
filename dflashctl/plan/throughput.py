"""What a batching strategy would make of a training's speed, from one that was measured."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dflashctl.agent.seen import Observed


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """A measured run: real tokens a second in thousands, at a padding efficiency (0 to 1)."""

    ktok_s: float
    efficiency: float


def calibration(text: str) -> Calibration:
    """``25.1@0.868`` or ``25.1@86.8%``.

    Raises:
        ValueError: it is neither.
    """
    form = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)@([0-9]+(?:\.[0-9]+)?)(%?)", text)
    if form:
        speed, efficiency = float(form[1]), float(form[2]) / (100 if form[3] else 1)
        if speed > 0 and 0 < efficiency <= 1:
            return Calibration(ktok_s=speed, efficiency=efficiency)
    raise ValueError(f"must be Ktok/s@efficiency, as in 25.1@0.868, not {text}")


def of_the_run(seen: Observed) -> tuple[Calibration, ...]:
    """What the newest run measures, where it tells its speed and has buckets of ours."""
    buckets = seen.run.buckets if seen.run else None
    usual = seen.metrics.tokens_per_s_usual if seen.metrics else None
    if buckets is None or not buckets.expected_efficiency or not usual:
        return ()
    return (Calibration(ktok_s=usual / 1000, efficiency=buckets.expected_efficiency),)


def predicted(
    efficiency: float,
    balance: float | None,
    measured: tuple[Calibration, ...],
    balance_then: float | None,
) -> tuple[float, float]:
    """The least and the most Ktok/s to expect: the speed without padding times the efficiency.

    The speed without padding comes from each measured run. Whether the slowest rank sets the
    pace cannot be told from it: the one bound says that it does, the other that it does not.

    Args:
        efficiency: of the strategy, 0 to 1.
        balance: its rank balance; None: not known.
        measured: at least one run.
        balance_then: the rank balance that the measured runs are taken to have had.
    """
    speeds = [run.ktok_s / run.efficiency * efficiency for run in measured]
    if balance is not None and balance_then:
        speeds += [speed * balance / balance_then for speed in speeds]
    return min(speeds), max(speeds)


def promised(efficiency: float, measured: tuple[Calibration, ...]) -> float | None:
    """Tokens a second to measure a later run by; None where no run was measured."""
    if not measured:
        return None
    low, high = predicted(efficiency, None, measured, None)
    return round(500 * (low + high), 1)
