"""What any settings give, tried: the batches are made as training makes them, and measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import numpy as np

from dflashctl.buckets.batching import Settings, epoch_batches
from dflashctl.buckets.diversity import Measures, measure

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from dflashctl.buckets.histogram import Histogram

MOST = 1 << 21
"""So many samples are simulated with: beyond that nothing changes but the pool, which grows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """The measures over several seeds.

    Attributes:
        mean: of each measure.
        spread: its standard deviation from seed to seed; 0 with one seed.
        seeds: how many there were.
    """

    mean: Measures
    spread: Measures
    seeds: int


def simulate(
    lengths: ArrayLike,
    settings: Settings,
    seeds: Sequence[int] = range(3),
    *,
    progress: Callable[[float], None] | None = None,
) -> Simulated:
    """Make and measure an epoch for each seed, and the one after it for the pool.

    Args:
        lengths: of every sample, in tokens.
        settings: as training has them; their own seed does not matter.
        seeds: at least one.
        progress: called now and then with the share that is done, 0 to 1.

    Raises:
        BadLengths: as ``epoch_batches``.
    """
    sizes = np.asarray(lengths, dtype=np.int64)
    measured = []
    for done, seed in enumerate(seeds, 1):
        seeded = replace(settings, seed=seed)
        epochs = [epoch_batches(sizes, seeded, epoch) for epoch in (0, 1)]
        measured.append(measure(sizes, epochs[0], epochs[1], settings.token_budget))
        if progress is not None:
            progress(done / len(seeds))
    mean, spread = {}, {}
    for name in (field.name for field in fields(Measures)):
        values = np.array([getattr(each, name) for each in measured])
        mean[name] = float(values.mean())
        finite = len(values) > 1 and np.isfinite(values).all()
        spread[name] = float(values.std(ddof=1)) if finite else 0.0
    return Simulated(mean=Measures(**mean), spread=Measures(**spread), seeds=len(seeds))


def samples_of(histogram: Histogram, most: int = MOST) -> NDArray[np.int64]:
    """Lengths with this histogram, ascending: a dataset to simulate with.

    Of more than ``most`` samples, so many of them at equal distances: the mix of lengths and
    with it the padding stay the same, but memory does not grow with the dataset.
    """
    upto = np.cumsum(histogram.counts)
    taken = min(histogram.samples, most)
    places = np.arange(taken) * histogram.samples // taken
    return histogram.lengths[np.searchsorted(upto, places, side="right")]
