"""The measures, on batches small enough to count by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflashctl.buckets import diversity
from dflashctl.buckets.batching import EpochBatches, Settings, epoch_batches


def epoch(*batches, ranks=1, accumulation=1):
    counts = [len(batch) for batch in batches]
    return EpochBatches(
        samples=np.array([sample for batch in batches for sample in batch], dtype=np.int64),
        offsets=np.cumsum([0, *counts]),
        ranks=ranks,
        accumulation=accumulation,
    )


def test_padding_is_the_longest_sample_times_the_samples():
    lengths = np.array([10, 20, 30])
    assert diversity.padded_tokens(lengths, epoch([0, 2], [], [1])).tolist() == [60, 0, 20]


def test_the_measures_of_an_epoch_are_real_over_padded_tokens_and_over_the_budget():
    lengths = np.array([10, 20, 30, 30])
    first = epoch([0, 2], [1, 3])
    measures = diversity.measure(lengths, first, epoch([0, 1], [2, 3]), 100)
    assert measures.efficiency == 90 / 120
    assert measures.budget_fill == 90 / 200
    assert (measures.batches, measures.mean_batch_size) == (2, 2)


def test_deff_compares_the_steps_with_samples_drawn_at_random():
    lengths = np.array([1, 1, 3, 3])
    # Two steps of two: as far apart as they can be, which is twice the variance at random.
    assert diversity.deff(lengths, epoch([0, 1], [2, 3])) == pytest.approx(2)
    assert diversity.deff(lengths, epoch([0, 2], [1, 3])) == pytest.approx(0)
    assert diversity.deff(lengths, epoch([0, 1], [2, 3], ranks=2)) == pytest.approx(0)


def test_deff_weighs_a_step_by_its_samples():
    lengths = np.array([1, 1, 1, 4])
    logs = np.log(lengths)
    between = (3 * (0 - logs.mean()) ** 2 + (logs[3] - logs.mean()) ** 2) / 4
    expected = between / (logs.var() * 2 / 4)
    assert diversity.deff(lengths, epoch([0, 1, 2], [3])) == pytest.approx(expected)


def test_deff_of_samples_drawn_at_random_is_about_one():
    rng = np.random.default_rng(1)
    lengths = rng.integers(1, 5000, 20_000)
    order = rng.permutation(20_000).reshape(-1, 20)
    assert diversity.deff(lengths, epoch(*order)) == pytest.approx(1, abs=0.15)


def test_tv16_is_nothing_where_each_step_is_like_the_whole_and_large_where_it_is_one_bin():
    lengths = np.tile(np.arange(1, 17), 4)
    like_all = epoch(*(range(at, at + 16) for at in range(0, 64, 16)))
    assert diversity.tv16(lengths, like_all) == pytest.approx(0)
    of_one_bin = epoch(*(range(at, 64, 16) for at in range(16)))
    assert diversity.tv16(lengths, of_one_bin) == pytest.approx(15 / 16)


def test_the_pool_of_batches_that_never_change_is_their_size():
    same = epoch([0, 1, 2], [3, 4, 5])
    assert diversity.pool(same, same) == pytest.approx(2)


def test_the_pool_is_the_partners_over_the_chance_to_meet_again():
    first, second = epoch([0, 1], [2, 3]), epoch([0, 1], [2], [3])
    assert diversity.pool(first, second) == pytest.approx(1 / 0.5)
    assert diversity.pool(first, epoch([0, 2], [1, 3])) == float("inf")
    assert diversity.pool(epoch([0], [1]), epoch([0, 1])) == 0


def test_the_icc_is_one_where_batches_are_of_one_length_and_below_zero_where_they_are_mixed():
    lengths = np.array([2, 2, 9, 9])
    assert diversity.icc(lengths, epoch([0, 1], [2, 3])) == pytest.approx(1)
    assert diversity.icc(lengths, epoch([0, 2], [1, 3])) == pytest.approx(-1)


def test_ranks_are_balanced_by_the_padded_tokens_of_their_step():
    lengths = np.array([10, 30, 20, 20])
    batches = epoch([0], [1], [2], [3], ranks=2)
    assert diversity.rank_balance(lengths, batches) == pytest.approx((20 + 20) / (30 + 20))
    # Of two batches in a step, a rank's first and second count together.
    batches = epoch([0], [1], [1], [0], ranks=2, accumulation=2)
    assert diversity.rank_balance(lengths, batches) == pytest.approx(1)


def test_where_all_lengths_are_equal_what_compares_them_is_unknown():
    lengths = np.array([5, 5, 5, 5])
    batches = epoch([0, 1], [2, 3])
    assert np.isnan(diversity.deff(lengths, batches))
    assert np.isnan(diversity.icc(lengths, batches))
    assert np.isnan(diversity.icc(lengths, epoch([0, 1, 2, 3])))


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=60), st.integers(1, 4))
def test_whatever_the_lengths_shares_lie_between_nothing_and_all(lengths, ranks):
    sizes = np.array(lengths)
    how = Settings(boundaries=(0, 50, 1001), token_budget=2000, max_batch_size=9, ranks=ranks)
    made = [epoch_batches(sizes, how, number) for number in (0, 1)]
    measures = diversity.measure(sizes, made[0], made[1], 2000)
    assert 0 < measures.efficiency <= 1
    assert 0 < measures.budget_fill <= measures.efficiency
    assert 0 < measures.rank_balance <= 1
    assert 0 <= measures.tv16 <= 1
    assert measures.pool >= 0
    assert not measures.icc > 1.000001
