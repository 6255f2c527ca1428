"""What the settings give on the data set that the figures are for."""

from dataclasses import replace

import numpy as np
import pytest

from dflashctl.buckets import batching, histogram
from dflashctl.buckets.batching import epoch_batches
from dflashctl.buckets.diversity import padded_tokens
from dflashctl.buckets.expected import Packing
from dflashctl.buckets.optimize import optimize
from dflashctl.buckets.simulate import samples_of, simulate

SIX = batching.Settings(
    boundaries=(0, 784, 1248, 1840, 2864, 4608, 8192),
    token_budget=49_152,
    max_batch_size=64,
    ranks=8,
)


def test_the_six_best_buckets_are_as_good_as_was_said_and_stratified_order_is_free(p1):
    shuffled, stratified = (
        simulate(p1, replace(SIX, order=order), [0]).mean for order in ("random", "stratified")
    )
    assert shuffled.efficiency == stratified.efficiency
    assert stratified.efficiency == pytest.approx(0.8781, abs=0.0005)
    assert shuffled.deff == pytest.approx(31, abs=2)
    assert stratified.deff <= 1.5
    assert stratified.rank_balance == pytest.approx(0.96, abs=0.01)


def test_what_is_expected_of_buckets_is_what_their_batches_give(any_p):
    counted, packing = histogram.of(any_p), Packing(token_budget=49_152, max_batch_size=64)
    plan = optimize(counted, [6], packing)[6]
    settings = replace(SIX, boundaries=plan.boundaries)
    batches = epoch_batches(any_p, settings, 0)
    given = any_p.sum() / padded_tokens(any_p, batches).sum()
    assert given == pytest.approx(plan.expected.efficiency, abs=0.0005)
    assert len(batches) == pytest.approx(plan.expected.batches, rel=0.002)


def test_a_sort_window_of_128_samples_saves_half_the_padding_and_leaves_many_partners(p1):
    windowed = simulate(p1, replace(SIX, window=128), [0]).mean
    assert windowed.efficiency >= 0.935
    assert windowed.pool >= 80_000
    assert windowed.deff <= 1.5


def test_several_seeds_give_a_mean_and_a_spread_and_tell_how_far_they_are():
    lengths = np.arange(3000) % 500 + 1
    how = batching.Settings(boundaries=(0, 200, 501), token_budget=5000, max_batch_size=16)
    told: list[float] = []
    several = simulate(lengths, how, range(4), progress=told.append)
    singles = [simulate(lengths, how, [seed]) for seed in range(4)]
    efficiencies = [single.mean.efficiency for single in singles]
    assert several.mean.efficiency == pytest.approx(np.mean(efficiencies))
    assert several.spread.efficiency == pytest.approx(np.std(efficiencies, ddof=1))
    assert {single.spread.efficiency for single in singles} == {0.0}
    assert told == [0.25, 0.5, 0.75, 1.0]


def test_a_histogram_stands_for_its_samples():
    counted = histogram.of(np.array([5, 3, 5, 9]))
    assert samples_of(counted).tolist() == [3, 5, 5, 9]


def test_a_large_dataset_is_simulated_with_a_few_of_its_lengths() -> None:
    whole = histogram.of(np.repeat(np.arange(10, 500), 40))
    few = samples_of(whole, 490)
    assert few.tolist() == list(range(10, 500))
    assert samples_of(whole).tolist() == np.repeat(whole.lengths, whole.counts).tolist()
