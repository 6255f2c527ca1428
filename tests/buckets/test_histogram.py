"""Lengths are counted exactly, in memory that does not grow with them."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflashctl.buckets import histogram
from dflashctl.buckets.failures import BadLengths
from dflashctl.buckets.histogram import Histogram

SOME = st.lists(st.integers(1, 40) | st.integers(1, 1 << 40), min_size=1, max_size=60)


@given(SOME, st.integers(0, 60))
def test_every_way_to_count_the_same_lengths_agrees(lengths, cut):
    whole = histogram.of(np.array(lengths))
    parts = [np.array(part) for part in (lengths[:cut], lengths[cut:]) if part]
    assert whole.sha256 == histogram.from_chunks(parts).sha256
    assert whole.sha256 == histogram.merge(*[histogram.of(part) for part in parts]).sha256
    assert whole.lengths.tolist() == sorted(set(lengths))
    assert whole.counts.tolist() == [lengths.count(length) for length in whole.lengths]
    assert (whole.samples, whole.tokens) == (len(lengths), sum(lengths))
    assert whole.longest == max(lengths)


@given(SOME, st.floats(0, 1))
def test_a_quantile_is_the_least_length_that_so_many_do_not_exceed(lengths, share):
    quantile = histogram.of(np.array(lengths)).quantile(share)
    assert sum(length <= quantile for length in lengths) >= share * len(lengths)
    assert quantile in lengths
    assert sum(length < quantile for length in lengths) <= share * len(lengths)


def test_totals_are_right_where_32_bits_overflow():
    counted = histogram.of(np.full(1_000_000, 8191, dtype=np.int32))
    assert counted.tokens == 8_191_000_000


def test_the_fingerprint_is_the_same_on_every_machine():
    counted = Histogram(lengths=np.array([1, 5]), counts=np.array([2, 1]))
    assert counted.sha256 == "15751be320a461130056c40c07c4902ad0f10844db88f5f8edf42967e5cf72fd"
    assert counted.sha256 == histogram.of(np.array([[5, 1, 1]], dtype=np.uint16)).sha256


def test_memory_does_not_grow_with_the_samples():
    shard = np.arange(1, 1_000_001, dtype=np.int32) % 8000 + 1

    def peak(shards):
        tracemalloc.start()
        histogram.from_chunks(shard for _ in range(shards))
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    assert peak(12) < peak(2) + 1_000_000


@pytest.mark.parametrize(
    ("lengths", "problem", "count"),
    [
        ([], "empty", 0),
        ([3, 0, 0], "zero", 2),
        ([3, -1, 0], "negative", 1),
        ([3.0, 4.0], "not-integers", 0),
        ([True], "not-integers", 0),
    ],
)
def test_lengths_that_cannot_be_are_refused(lengths, problem, count):
    array = np.array(lengths, dtype=None if lengths else np.int64)
    with pytest.raises(BadLengths) as refused:
        histogram.of(array)
    assert (refused.value.problem, refused.value.count) == (problem, count)


@pytest.mark.parametrize(
    ("lengths", "counts"),
    [([2, 1], [1, 1]), ([1, 1], [1, 1]), ([1, 2], [1, 0]), ([1, 2], [1]), ([0, 1], [1, 1])],
)
def test_a_histogram_that_is_none_is_refused(lengths, counts):
    with pytest.raises(BadLengths):
        Histogram(lengths=np.array(lengths), counts=np.array(counts))


def test_a_histogram_cannot_be_changed():
    lengths = np.array([1, 2])
    counted = Histogram(lengths=lengths, counts=np.array([1, 1]))
    lengths[0] = 7
    assert counted.lengths.tolist() == [1, 2]
    with pytest.raises(ValueError, match="read-only"):
        counted.counts[0] = 9
