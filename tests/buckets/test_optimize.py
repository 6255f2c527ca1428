"""The best boundaries against all others, the figures, and the rules."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from dflashctl.buckets.costs import NEVER, Costs
from dflashctl.buckets.expected import Packing, batch, expected
from dflashctl.buckets.failures import BadBoundaries, BadLengths, NoSuchPlan
from dflashctl.buckets.histogram import Histogram
from dflashctl.buckets.optimize import Rules, optimize

RUN = Packing(token_budget=49_152, max_batch_size=64)
COUNTS = st.integers(1, 5) | st.integers(1, 10**7)


def small(most):
    return st.dictionaries(st.integers(1, 60), COUNTS, min_size=1, max_size=most)


def histogram_of(counted):
    lengths = sorted(counted)
    return Histogram(
        lengths=np.array(lengths), counts=np.array([counted[length] for length in lengths])
    )


@settings(max_examples=60)
@given(
    small(20),
    st.integers(1, 2000),
    st.sampled_from([1, 2, 5, 64, 700]),
    st.sampled_from([0.0, 33.3]),
    st.integers(1, 20),
)
# Far more samples on one side than on the other, and batches that grow large.
@example({1: 10**7, 2: 1, 60: 1}, 700, 700, 0.0, 1)
@example({59: 1, 60: 10**7}, 42_000, 700, 0.0, 1)
def test_the_cost_of_every_bucket_at_once_is_that_of_each_alone(
    counted, budget, most, alpha, minimum
):
    assume(max(counted) <= budget)
    whole, packing = histogram_of(counted), Packing(token_budget=budget, max_batch_size=most)
    costs = Costs(whole, packing, alpha=alpha, minimum_samples=minimum)
    edges = np.arange(whole.lengths.size)
    found = costs.of(edges, edges + 1)
    for left in edges:
        for right in edges + 1:
            counts = whole.counts[left:right]
            if counts.sum() < minimum:
                assert found[left, right - 1] == NEVER
                continue
            size, padded = batch(whole.lengths[left:right], counts, packing)
            cost = counts.sum() * (padded + alpha) / size / costs.unit
            assert found[left, right - 1] == pytest.approx(cost, rel=1e-11, abs=1)


def best_of_all(whole, count, packing, rules):
    """The least cost over all sets of boundaries that the rules allow, one by one."""
    costs = Costs(whole, packing, alpha=rules.alpha, minimum_samples=rules.minimum_samples)
    edges = np.arange(whole.lengths.size)
    table = costs.of(edges, edges + 1)
    allowed = [
        place
        for place in edges[1:].tolist()
        if any(token % rules.align == 0 for token in between(whole, place))
    ]
    return min(
        (
            sum(int(table[left, right - 1]) for left, right in pairwise(places))
            for inner in combinations(allowed, count - 1)
            if (places := (0, *inner, whole.lengths.size))
        ),
        default=NEVER,
    )


def between(whole, place):
    return range(int(whole.lengths[place - 1]) + 1, int(whole.lengths[place]) + 1)


@settings(max_examples=40)
@given(
    small(8),
    st.integers(60, 2000),
    st.sampled_from([1, 3, 64]),
    st.builds(
        Rules,
        align=st.sampled_from([1, 1, 4]),
        minimum_samples=st.sampled_from([1, 1, 6]),
        alpha=st.sampled_from([0.0, 50.0]),
    ),
)
def test_no_set_of_boundaries_is_better_than_the_one_found(counted, budget, most, rules):
    whole, packing = histogram_of(counted), Packing(token_budget=budget, max_batch_size=most)
    costs = Costs(whole, packing, alpha=rules.alpha, minimum_samples=rules.minimum_samples)
    least = {count: best_of_all(whole, count, packing, rules) for count in range(1, 9)}
    possible = [count for count, cost in least.items() if cost < NEVER]
    for count in set(least) - set(possible):
        with pytest.raises(NoSuchPlan):
            optimize(whole, [count], packing, rules)
    if not possible:
        return
    for prove in (False, True):
        plans = optimize(whole, possible, packing, rules, prove=prove)
        assert list(plans) == possible
        for count, plan in plans.items():
            places = np.searchsorted(whole.lengths, plan.boundaries)
            cost = sum(
                int(costs.of(np.array([left]), np.array([right]))[0, 0])
                for left, right in pairwise(places.tolist())
            )
            assert len(plan.boundaries) == count + 1
            assert cost == pytest.approx(least[count], abs=2 * count)
            assert plan.expected == expected(whole, plan.boundaries, packing)
            assert all(inner % rules.align == 0 for inner in plan.boundaries)
            assert all(b.samples >= rules.minimum_samples for b in plan.expected.per_bucket)
            assert (plan.proved, plan.gap is None) == (prove, not prove)
            assert not plan.gap  # with so few candidates the default tries them all


@pytest.mark.parametrize(
    ("name", "percent", "boundaries"),
    [
        ("P1", 87.80, (0, 778, 1248, 1840, 2865, 4610, 8192)),
        ("P2", 84.48, (0, 625, 876, 1332, 1935, 2994, 8192)),
        ("P3", 87.99, (0, 783, 1253, 1842, 2838, 4449, 8192)),
    ],
)
def test_the_default_finds_the_six_buckets_that_were_proved_best(
    counted, name, percent, boundaries
):
    plan = optimize(counted(name), [6], RUN)[6]
    assert plan.boundaries == boundaries
    assert 100 * plan.expected.efficiency >= percent


def test_more_buckets_are_better_and_one_call_gives_them_all(counted):
    plans = optimize(counted("P1"), range(1, 17), RUN)
    assert list(plans) == list(range(1, 17))
    efficiency = [100 * plan.expected.efficiency for plan in plans.values()]
    assert efficiency == sorted(efficiency)
    # What trying every token gave for 8, 12 and 16 buckets, within what the default may lose.
    assert efficiency[7] >= 90.6715 - 0.001
    assert efficiency[11] >= 93.3424 - 0.005
    assert efficiency[15] >= 94.8469 - 0.005
    inner = (487, 618, 747, 889, 1052, 1220, 1397, 1706, 2022, 2544, 3185, 4218, 4452, 4645, 4864)
    assert plans[16].boundaries == (0, *inner, 8192)


def test_costs_are_not_of_the_kind_that_allows_a_shortcut():
    """Else two overlapping buckets never cost more than the union and what they share."""
    whole = Histogram(lengths=np.array([1, 5, 9]), counts=np.array([100, 100, 100]))
    packing = Packing(token_budget=15, max_batch_size=3)
    costs = Costs(whole, packing, alpha=0.0, minimum_samples=1)
    table = costs.of(np.array([0, 1]), np.array([2, 3])) * costs.unit
    assert table.ravel().tolist() == pytest.approx([900, 1731.579, 500, 1400], abs=0.001)
    assert table[0, 0] + table[1, 1] > table[0, 1] + table[1, 0]


def test_two_far_apart_groups_of_lengths_are_both_seen():
    """Cells of one width would put all of the short samples into two of them."""
    short = np.arange(100, 300)
    long = np.arange(80_000, 120_000, 20)
    whole = Histogram(
        lengths=np.append(short, long), counts=np.append(np.full(200, 2500), np.full(long.size, 1))
    )
    packing = Packing(token_budget=262_144, max_batch_size=64)
    plan = optimize(whole, [5], packing)[5]
    assert sum(boundary <= 300 for boundary in plan.boundaries[1:]) >= 3


def test_aligned_boundaries_are_multiples_and_lose_little(counted):
    plan = optimize(counted("P1"), [6], RUN, Rules(align=128))[6]
    assert all(boundary % 128 == 0 for boundary in plan.boundaries)
    assert 0.877 < plan.expected.efficiency < 0.87815


def test_every_bucket_holds_the_minimum_of_samples(counted):
    plan = optimize(counted("P1"), [6], RUN, Rules(minimum_samples=100_000))[6]
    assert min(bucket.samples for bucket in plan.expected.per_bucket) >= 100_000


def test_fewer_batches_are_made_when_a_batch_costs(counted):
    free, dear = (
        optimize(counted("P1"), [6], RUN, Rules(alpha=alpha))[6].expected for alpha in (0, 50_000)
    )
    assert dear.batches < free.batches
    assert dear.padded_tokens > free.padded_tokens


def test_the_last_boundary_is_the_one_asked_for_or_the_first_that_may_be():
    whole = Histogram(lengths=np.array([3, 9]), counts=np.array([2, 2]))
    packing = Packing(token_budget=20, max_batch_size=4)

    def last(**rules):
        return optimize(whole, [1], packing, Rules(**rules))[1].boundaries[-1]

    assert (last(), last(align=8), last(last=64)) == (10, 16, 64)
    with pytest.raises(BadBoundaries, match="above it"):
        last(last=9)


def test_equal_costs_give_the_same_boundaries_every_time():
    whole = Histogram(lengths=np.array([10, 20, 30, 40]), counts=np.array([5, 5, 5, 5]))
    packing = Packing(token_budget=40, max_batch_size=1)  # nothing is ever padded
    for prove in (False, True):
        assert optimize(whole, [3], packing, prove=prove)[3].boundaries == (0, 11, 21, 41)


def test_more_buckets_than_there_are_lengths_are_refused():
    whole = Histogram(lengths=np.array([10, 20]), counts=np.array([5, 5]))
    for count in (0, 3):
        with pytest.raises(NoSuchPlan, match="1 to 2"):
            optimize(whole, [count], RUN)
    with pytest.raises(NoSuchPlan, match="none"):
        optimize(whole, [1], RUN, Rules(minimum_samples=11))


def test_a_sample_above_the_budget_is_refused():
    whole = Histogram(lengths=np.array([10, 50_000]), counts=np.array([5, 5]))
    with pytest.raises(BadLengths):
        optimize(whole, [1], RUN)


@pytest.mark.parametrize("wrong", [{"align": 0}, {"minimum_samples": 0}, {"alpha": -1.0}])
def test_rules_that_mean_nothing_are_refused(wrong):
    with pytest.raises(ValueError, match="at least"):
        Rules(**wrong)


def test_progress_rises_to_all():
    told: list[float] = []
    whole = Histogram(lengths=np.arange(1, 101), counts=np.full(100, 3))
    optimize(whole, [4], Packing(token_budget=400, max_batch_size=8), progress=told.append)
    assert told == sorted(told)
    assert told[-1] == 1.0
    assert len(told) > 3


def test_batches_of_too_many_samples_are_refused_before_the_work_begins():
    short = histogram_of(dict.fromkeys(range(1, 500), 1))
    with pytest.raises(NoSuchPlan, match=r"up to 8,192 samples.* at most 1,024"):
        optimize(short, [2], Packing(token_budget=8192, max_batch_size=10**6))
    long = histogram_of(dict.fromkeys(range(100, 500), 1))  # no batch holds so many of these
    assert optimize(long, [2], Packing(token_budget=8192, max_batch_size=10**6))
