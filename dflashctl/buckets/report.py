"""All that there is to tell of one dataset's buckets, as what JSON can say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dflashctl.buckets.batching import Settings
from dflashctl.buckets.expected import Expected, Packing, expected
from dflashctl.buckets.failures import BadBoundaries
from dflashctl.buckets.optimize import Rules, optimize
from dflashctl.buckets.simulate import samples_of, simulate

if TYPE_CHECKING:
    from dflashctl.buckets.histogram import Histogram

    Tell = Callable[[str, float], None]

_COLUMNS = 64
_SEEDS = range(2)
# Beside the window that is asked for, windows that show where the frontier lies.
_WINDOWS = (128, 256)


def report(histogram: Histogram, task: dict[str, Any], tell: Tell) -> dict[str, Any]:
    """The best boundaries and what they give, beside those in use now.

    ``expected_efficiency`` is the closed form's, for batches without a sort window; with one
    it is a simulation's.

    Raises:
        NoSuchPlan, BadLengths, BadSettings: the task cannot be done with these lengths.
    """
    settings = Settings(strategy="shuffle", **task["settings"])
    packing = Packing(token_budget=settings.token_budget, max_batch_size=settings.max_batch_size)
    rules = Rules(align=task["align"], last=task["max_length"])
    stage = "proving" if task["prove"] else "optimising"
    plan = optimize(
        histogram,
        [task["count"]],
        packing,
        rules,
        prove=task["prove"],
        progress=lambda share: tell(stage, share),
    )[task["count"]]
    settings = replace(settings, strategy="bucketed", boundaries=plan.boundaries)
    found = _buckets(plan.boundaries, plan.expected)
    current = _current(histogram, task["current"], packing)
    strategies = _strategies(histogram, settings, current, tell) if task["compare"] else None
    if settings.window > 1:
        given = simulate(samples_of(histogram), settings, _SEEDS[:1]).mean
        found |= {
            "expected_efficiency": given.efficiency,
            "budget_fill": given.budget_fill,
            "mean_batch_size": given.mean_batch_size,
        }
    return {
        **found,
        "current": current,
        "proved": plan.proved,
        "gap": plan.gap,
        "strategies": strategies,
        "samples": histogram.samples,
        "tokens": histogram.tokens,
        "shortest": int(histogram.lengths[0]),
        "longest": histogram.longest,
        "histogram": _drawn(histogram),
        "histogram_sha256": histogram.sha256,
        "settings": settings.to_json()["settings"],
        "rules": {key: task[key] for key in ("count", "align", "max_length")},
    }


def _buckets(boundaries: tuple[int, ...], what: Expected) -> dict[str, Any]:
    return {
        "boundaries": list(boundaries),
        "expected_efficiency": what.efficiency,
        "budget_fill": what.budget_fill,
        "mean_batch_size": what.mean_batch_size,
        "per_bucket": [asdict(bucket) for bucket in what.per_bucket],
    }


def _current(
    histogram: Histogram, boundaries: list[int] | None, packing: Packing
) -> dict[str, Any] | None:
    """What the boundaries in use now give; only their names where they do not fit the data."""
    if boundaries is None:
        return None
    try:
        return _buckets(tuple(boundaries), expected(histogram, boundaries, packing))
    except BadBoundaries:
        return {
            "boundaries": boundaries,
            "expected_efficiency": None,
            "budget_fill": None,
            "mean_batch_size": None,
            "per_bucket": [],
        }


def _strategies(
    histogram: Histogram, settings: Settings, current: dict[str, Any] | None, tell: Tell
) -> list[dict[str, Any]]:
    """Every way to batch these samples, simulated, from the most padding to the least."""
    plain = replace(settings, window=0)
    tried = [
        ("full shuffle", replace(plain, strategy="shuffle", order="random")),
        ("buckets, random order", replace(plain, order="random")),
        ("buckets, stratified", replace(plain, order="stratified")),
    ]
    if current is not None and current["per_bucket"]:
        now = replace(plain, boundaries=tuple(current["boundaries"]), order="random")
        tried.insert(1, ("buckets in use now", now))
    for window in sorted({*_WINDOWS, settings.window} - {0, 1}):
        stratified = replace(plain, window=window, order="stratified")
        tried.append((f"stratified, window {window}", stratified))
    tried.append(("sorted", replace(plain, strategy="sorted", order="random")))
    lengths, found = samples_of(histogram), []
    for number, (name, each) in enumerate(tried):
        tell(f"simulating {name}", number / len(tried))
        given = simulate(lengths, each, _SEEDS)
        found.append(
            {
                "name": name,
                "chosen": replace(each, seed=settings.seed) == settings,
                **{key: _finite(value) for key, value in asdict(given.mean).items()},
                "spread": {key: _finite(value) for key, value in asdict(given.spread).items()},
                "seeds": given.seeds,
                "samples": lengths.size,
            }
        )
    return found


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _drawn(histogram: Histogram) -> dict[str, list[int]]:
    """Samples in columns whose widths grow with the length, as one draws them."""
    low, high = int(histogram.lengths[0]), histogram.longest + 1
    edges = np.unique(np.rint(np.geomspace(low, high, _COLUMNS + 1)).astype(np.int64))
    places = np.searchsorted(edges, histogram.lengths, side="right") - 1
    samples = np.bincount(places, weights=histogram.counts, minlength=edges.size - 1)
    return {"edges": edges.tolist(), "samples": samples.astype(np.int64).tolist()}
