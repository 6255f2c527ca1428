"""The closed form against what it stands for: a Markov chain solved exactly, and packing."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dflashctl.buckets.batching import Settings, pack
from dflashctl.buckets.expected import Packing, expected
from dflashctl.buckets.failures import BadBoundaries, BadLengths
from dflashctl.buckets.histogram import Histogram

RUN = Packing(token_budget=49_152, max_batch_size=64)
OWNERS = (0, 770, 1216, 1728, 2432, 3296, 8192)


def solved(lengths, counts, packing):
    """Samples and padded tokens of a mean batch, from the packer's Markov chain."""
    states = [(n, m) for n in range(1, packing.max_batch_size + 1) for m in lengths]
    number = {state: i for i, state in enumerate(states)}
    step = np.zeros((len(states), len(states)))
    closes, padded = np.zeros(len(states)), np.zeros(len(states))
    for (n, longest), i in number.items():
        for length, chance in zip(lengths, counts / counts.sum(), strict=True):
            most = max(longest, length)
            if n < packing.max_batch_size and (n + 1) * most <= packing.token_budget:
                step[i, number[n + 1, most]] += chance
            else:
                step[i, number[1, length]] += chance
                closes[i] += chance
                padded[i] += chance * n * longest
    stays = np.vstack([step.T - np.eye(len(states)), np.ones(len(states))])
    share = np.linalg.lstsq(stays, np.append(np.zeros(len(states)), 1.0), rcond=None)[0]
    return 1 / (share @ closes), (share @ padded) / (share @ closes)


@settings(max_examples=60)
@given(
    st.dictionaries(st.integers(1, 40), st.integers(1, 100), min_size=1, max_size=5),
    st.integers(1, 200),
    st.integers(1, 7),
)
def test_the_closed_form_solves_the_packers_markov_chain(counted, budget, most):
    assume(max(counted) <= budget)
    lengths = np.array(sorted(counted))
    counts = np.array([counted[length] for length in sorted(counted)])
    packing = Packing(token_budget=budget, max_batch_size=most)
    what = expected(Histogram(lengths=lengths, counts=counts), (0, int(lengths[-1]) + 1), packing)
    size, padded = solved(lengths.tolist(), counts, packing)
    assert what.mean_batch_size == pytest.approx(size, rel=1e-9)
    assert what.padded_tokens == pytest.approx(padded * what.samples / size, rel=1e-9)


@pytest.mark.parametrize(
    ("low", "high"), [(0, 770), (770, 1216), (3296, 8192), (0, 8192), (500, 520)]
)
def test_packing_real_lengths_gives_what_is_expected(p1, counted, low, high):
    inside = p1[(p1 >= low) & (p1 < high)]
    whole = counted("P1")
    chosen = (whole.lengths >= low) & (whole.lengths < high)
    part = Histogram(lengths=whole.lengths[chosen], counts=whole.counts[chosen])
    how = Settings(boundaries=(0, 8192), token_budget=49_152, max_batch_size=64)
    random = np.random.Generator(np.random.PCG64(1))
    found = []
    for _ in range(2):
        order = np.argsort(random.bit_generator.random_raw(inside.size), kind="stable")
        sizes = pack(inside[order], how)
        longest = np.maximum.reduceat(inside[order], np.cumsum(sizes) - sizes)
        found.append(inside.sum() / (sizes @ longest))
    efficiency = expected(part, (0, 8192), RUN).efficiency
    assert np.mean(found) == pytest.approx(efficiency, abs=5e-4)


@pytest.mark.parametrize(("name", "percent"), [("P1", 86.69), ("P2", 83.11), ("P3", 86.80)])
def test_the_boundaries_of_a_real_run_are_as_efficient_as_it_found(counted, name, percent):
    assert 100 * expected(counted(name), OWNERS, RUN).efficiency == pytest.approx(percent, abs=0.01)


def test_totals_are_those_of_the_buckets(counted):
    what = expected(counted("P1"), OWNERS, RUN)
    assert [(bucket.low, bucket.high) for bucket in what.per_bucket] == list(pairwise(OWNERS))
    assert what.samples == 902_087 == sum(bucket.samples for bucket in what.per_bucket)
    assert what.tokens == 1_696_995_188 == sum(bucket.tokens for bucket in what.per_bucket)
    everything: list[Any] = [what, *what.per_bucket]
    for one in everything:
        assert one.efficiency == pytest.approx(one.tokens / one.padded_tokens)
        assert one.budget_fill == pytest.approx(one.tokens / one.batches / 49_152)
        assert one.mean_batch_size == pytest.approx(one.samples / one.batches)


def test_an_empty_bucket_counts_nothing(counted):
    with_empty = expected(counted("P1"), (0, 10, *OWNERS[1:]), RUN)
    without = expected(counted("P1"), OWNERS, RUN)
    assert with_empty.per_bucket[0].samples == 0
    assert with_empty.per_bucket[0].efficiency == 0
    assert replace(with_empty, per_bucket=()) == replace(without, per_bucket=())


def test_equal_lengths_need_no_padding_and_fill_what_they_can():
    counted = Histogram(lengths=np.array([100]), counts=np.array([1000]))
    what = expected(counted, (0, 101), Packing(token_budget=1050, max_batch_size=64))
    assert (what.efficiency, what.mean_batch_size) == pytest.approx((1, 10))
    assert what.budget_fill == pytest.approx(1000 / 1050)


@pytest.mark.parametrize(
    "boundaries", [(), (0,), (1, 9000), (0, 8191), (0, 500, 500, 8192), (0, 900, 800, 8192)]
)
def test_boundaries_that_leave_samples_out_or_turn_back_are_refused(counted, boundaries):
    with pytest.raises(BadBoundaries):
        expected(counted("P1"), boundaries, RUN)


def test_a_sample_above_the_budget_is_refused_with_how_many_there_are():
    counted = Histogram(lengths=np.array([10, 101, 130]), counts=np.array([5, 2, 1]))
    with pytest.raises(BadLengths, match="3 samples are longer") as refused:
        expected(counted, (0, 131), Packing(token_budget=100, max_batch_size=4))
    assert (refused.value.problem, refused.value.count) == ("above-budget", 3)


@pytest.mark.parametrize(("budget", "most"), [(0, 1), (1, 0)])
def test_a_batch_that_holds_nothing_is_refused(budget, most):
    with pytest.raises(ValueError, match="at least 1"):
        Packing(token_budget=budget, max_batch_size=most)
