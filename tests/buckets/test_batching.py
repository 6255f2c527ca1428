"""An epoch's batches: whole, within the limits, the same everywhere, resumable anywhere."""

import ast
import hashlib
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dflashctl.buckets import batching
from dflashctl.buckets.failures import BadBoundaries, BadLengths, BadSettings

BOUNDARIES = (0, 20, 45, 101)
SETTINGS = batching.Settings(boundaries=BOUNDARIES, token_budget=300, max_batch_size=7)
LENGTHS = st.lists(st.integers(1, 100), min_size=1, max_size=300).map(np.array)


@st.composite
def any_settings(draw):
    return batching.Settings(
        boundaries=BOUNDARIES,
        token_budget=draw(st.integers(100, 1000)),
        max_batch_size=draw(st.integers(1, 40)),
        strategy=draw(st.sampled_from(["sorted", "shuffle", "bucketed"])),
        order=draw(st.sampled_from(["random", "stratified"])),
        window=draw(st.sampled_from([0, 1, 2, 16])),
        jitter=draw(st.sampled_from([0, 3, 1000])),
        ranks=draw(st.integers(1, 5)),
        accumulation=draw(st.integers(1, 3)),
        seed=draw(st.integers(0, 2**64 - 1)),
    )


def plainly_packed(lengths, budget, most):
    """A sample at a time, as the definition has it."""
    sizes, count, longest = [], 0, 0
    for length in lengths:
        if count and (count + 1 > most or (count + 1) * max(longest, length) > budget):
            sizes.append(count)
            count, longest = 0, 0
        count, longest = count + 1, max(longest, length)
    return [*sizes, count]


def as_lists(batches):
    return [batch.tolist() for batch in batches]


@given(LENGTHS, any_settings(), st.integers(0, 5))
def test_over_all_ranks_an_epoch_holds_every_sample_once(lengths, how, epoch):
    taken = []
    for rank in range(how.ranks):
        sampler = batching.BatchSampler(lengths, how, rank=rank)
        sampler.set_epoch(epoch)
        taken += [sample for batch in sampler for sample in batch]
    assert sorted(taken) == list(range(len(lengths)))


@given(LENGTHS, any_settings())
def test_no_batch_is_above_a_limit(lengths, how):
    for batch in batching.epoch_batches(lengths, how, 0):
        assert len(batch) <= how.max_batch_size
        assert len(batch) == 0 or len(batch) * lengths[batch].max() <= how.token_budget


@given(LENGTHS, any_settings())
def test_all_ranks_take_equally_many_batches_and_none_is_empty(lengths, how):
    samplers = [batching.BatchSampler(lengths, how, rank=rank) for rank in range(how.ranks)]
    counts = {len(list(sampler)) for sampler in samplers}
    assert counts == {samplers[0].steps * how.accumulation}
    assert {len(sampler) for sampler in samplers} == counts
    if len(lengths) >= how.ranks * len(samplers[0]):
        assert all(len(batch) for sampler in samplers for batch in sampler)


@given(LENGTHS, any_settings(), st.data())
def test_a_resumed_epoch_is_the_tail_of_a_whole_one(lengths, how, data):
    sampler = batching.BatchSampler(lengths, how, rank=how.ranks - 1)
    epoch = data.draw(st.integers(0, 3))
    sampler.set_epoch(epoch)
    whole = list(sampler)
    step = data.draw(st.integers(0, sampler.steps))
    resumed = batching.BatchSampler(lengths, how, rank=how.ranks - 1)
    resumed.set_epoch(epoch, step)
    assert list(resumed) == whole[step * how.accumulation :]
    assert len(resumed) == len(whole) - step * how.accumulation


@given(LENGTHS, st.integers(1, 1000), st.integers(1, 70))
def test_packing_does_what_a_loop_over_the_samples_does(lengths, budget, most):
    how = replace(SETTINGS, token_budget=max(budget, int(lengths.max())), max_batch_size=most)
    assert batching.pack(lengths, how).tolist() == plainly_packed(
        lengths.tolist(), how.token_budget, most
    )


@given(LENGTHS)
def test_sorted_batches_are_packed_from_the_shortest_to_the_longest(lengths):
    how = replace(SETTINGS, strategy="sorted", boundaries=(), order="random")
    order = np.argsort(lengths, kind="stable")
    ends = np.cumsum(plainly_packed(lengths[order].tolist(), 300, 7))
    expected = [part.tolist() for part in np.split(order, ends[:-1])]
    assert sorted(as_lists(batching.epoch_batches(lengths, how, 3))) == sorted(expected)


@given(LENGTHS, any_settings())
def test_the_order_changes_no_batch(lengths, how):
    ways = [
        batching.epoch_batches(lengths, replace(how, order=order), 1)
        for order in ("random", "stratified")
    ]
    assert sorted(as_lists(ways[0])) == sorted(as_lists(ways[1]))


@given(LENGTHS, any_settings())
def test_every_batch_lies_in_one_bucket(lengths, how):
    how = replace(how, strategy="bucketed", jitter=0)
    for batch in batching.epoch_batches(lengths, how, 2):
        assert len(set(np.searchsorted(BOUNDARIES, lengths[batch], side="right"))) <= 1


@given(LENGTHS, any_settings(), st.integers(2, 50))
def test_a_sort_window_leaves_the_samples_of_a_bucket_in_it(lengths, how, window):
    how = replace(how, strategy="bucketed", jitter=0)
    buckets = np.searchsorted(BOUNDARIES, lengths, side="right")
    plain, sorted_ = (
        np.concatenate(list(batching.epoch_batches(lengths, replace(how, window=w), 0)))
        for w in (0, window)
    )
    for bucket in range(1, len(BOUNDARIES)):
        kept = [sorted(each[buckets[each] == bucket].tolist()) for each in (plain, sorted_)]
        assert kept[0] == kept[1]


@given(LENGTHS, any_settings())
def test_jitter_moves_a_boundary_no_further_than_it_may(lengths, how):
    how = replace(how, strategy="bucketed", jitter=4)
    for batch in batching.epoch_batches(lengths, how, 2):
        if len(batch):
            low, high = lengths[batch].min(), lengths[batch].max()
            assert any(first - 4 <= low and high < last + 4 for first, last in pairwise(BOUNDARIES))


def test_jitter_moves_the_boundaries_every_epoch():
    lengths = np.repeat(np.arange(1, 101), 5)
    how = replace(SETTINGS, jitter=8, max_batch_size=1000, token_budget=10**6)
    ranges = {
        tuple(
            sorted(int(lengths[batch].min()) for batch in batching.epoch_batches(lengths, how, e))
        )
        for e in range(10)
    }
    assert len(ranges) > 5


@given(LENGTHS, any_settings())
def test_a_stratified_step_takes_one_batch_of_each_stratum(lengths, how):
    how = replace(how, order="stratified")
    batches = batching.epoch_batches(lengths, how, 0)
    means = np.array([lengths[batch].mean() if len(batch) else 0 for batch in batches])
    steps = np.sort(means.reshape(batches.steps, -1), axis=1)
    # The greatest of a stratum is no more than the least of the next one.
    fine = 1 / 1024  # means are compared to so small a part of a token, or a smaller one
    assert (steps.max(axis=0)[:-1] <= steps.min(axis=0)[1:] + fine).all()


@given(any_settings())
@settings(max_examples=30)
def test_one_seed_gives_the_same_batches_and_every_epoch_others(how):
    lengths = np.arange(400) % 100 + 1
    first, again = (batching.epoch_batches(lengths, how, 4) for _ in range(2))
    assert as_lists(first) == as_lists(again)
    assert as_lists(first) != as_lists(batching.epoch_batches(lengths, how, 5))
    other = replace(how, seed=how.seed ^ 1)
    assert as_lists(first) != as_lists(batching.epoch_batches(lengths, other, 4))


def test_batches_missing_to_a_whole_step_are_cut_from_the_fullest():
    how = replace(SETTINGS, boundaries=(0, 101), ranks=4, accumulation=2, max_batch_size=6)
    batches = batching.epoch_batches(np.full(19, 10), how, 0)
    assert sorted(map(len, batches)) == [1, 1, 2, 3, 3, 3, 3, 3]


def test_only_with_fewer_samples_than_batches_in_a_step_some_are_empty():
    how = replace(SETTINGS, ranks=5)
    assert sorted(map(len, batching.epoch_batches([3, 90, 4], how, 0))) == [0, 0, 1, 1, 1]


# Made by Python 3.10 to 3.13 with numpy 1.21, 1.23, 1.26, 2.0, 2.1, 2.3 and 2.4: all equal.
PINNED = {
    "sorted": "04bb895c5bd46714",
    "shuffle": "71b6c84bf1a3b029",
    "bucketed": "64e33ae1c9357671",
    "random order": "8d9669dfd98b46c9",
    "window": "dcb4a279f6f0e2d5",
    "jitter": "ff24bbe97f9ff58b",
}


def pinned_cases():
    base = replace(SETTINGS, ranks=3, accumulation=2, seed=2**63 + 11)
    return {
        "sorted": replace(base, strategy="sorted"),
        "shuffle": replace(base, strategy="shuffle", order="random"),
        "bucketed": base,
        "random order": replace(base, order="random"),
        "window": replace(base, window=16),
        "jitter": replace(base, jitter=6),
    }


def digest_of(how):
    lengths = (np.arange(5000, dtype=np.int64) * 7919 + 13) % 100 + 1
    batches = batching.epoch_batches(lengths, how, 7)
    digest = hashlib.sha256(batches.samples.astype("<i8").tobytes())
    digest.update(batches.offsets.astype("<i8").tobytes())
    return digest.hexdigest()[:16]


@pytest.mark.parametrize("name", pinned_cases())
def test_the_batches_are_the_ones_of_every_python_and_numpy(name):
    assert digest_of(pinned_cases()[name]) == PINNED[name]


@pytest.mark.parametrize("kind", ["int32", "uint16", "int64"])
def test_the_type_of_the_lengths_changes_nothing(kind):
    lengths = np.arange(300) % 100 + 1
    plain = batching.epoch_batches(lengths.tolist(), SETTINGS, 0)
    assert as_lists(plain) == as_lists(batching.epoch_batches(lengths.astype(kind), SETTINGS, 0))


@pytest.mark.parametrize(
    ("lengths", "problem", "first"),
    [
        ([], "empty", ()),
        ([1.5, 2.0], "not-integers", ()),
        ([[1, 2]], "not-integers", ()),
        ([5, 0, -2, 7], "zero", ((1, 0), (2, -2))),
        ([5, 301, 7, 302], "above-budget", ((1, 301), (3, 302))),
        ([5, 101], "above-boundaries", ((1, 101),)),
    ],
)
def test_lengths_that_cannot_be_batched_are_named(lengths, problem, first):
    with pytest.raises(BadLengths) as raised:
        batching.BatchSampler(lengths, SETTINGS)
    assert (raised.value.problem, raised.value.first) == (problem, first)


def test_of_many_samples_above_the_budget_the_first_few_are_named():
    with pytest.raises(
        BadLengths, match=r"1,000 samples are above 300 tokens.*sample 4: 999, \.\."
    ):
        batching.epoch_batches([999] * 1000, SETTINGS, 0)


def test_a_rank_beyond_the_others_is_refused():
    with pytest.raises(ValueError, match="rank 1 of 1"):
        batching.BatchSampler([1], SETTINGS, rank=1)


@pytest.mark.parametrize("place", [(-1, 0), (0, -1)])
def test_a_place_before_the_beginning_is_refused(place):
    with pytest.raises(ValueError, match="counted from 0"):
        batching.BatchSampler([1], SETTINGS).set_epoch(*place)


def test_an_epoch_that_is_over_gives_nothing_more():
    sampler = batching.BatchSampler([5, 6], SETTINGS)
    sampler.set_epoch(0, sampler.steps + 3)
    assert (list(sampler), len(sampler)) == ([], 0)


def test_the_fingerprint_changes_with_the_lengths_and_with_each_setting():
    prints = {
        batching.BatchSampler(lengths, how).fingerprint
        for lengths, how in [
            ([1, 2], SETTINGS),
            ([2, 1], SETTINGS),
            ([1, 2], replace(SETTINGS, seed=1)),
            ([1, 2], replace(SETTINGS, window=4)),
            ([1, 2], replace(SETTINGS, boundaries=(0, 101))),
        ]
    }
    assert len(prints) == 5
    assert batching.BatchSampler(np.array([1, 2], np.int32), SETTINGS).fingerprint in prints


@given(any_settings())
def test_settings_survive_their_file(how):
    assert batching.Settings.from_json(json.loads(json.dumps(how.to_json()))) == how


def test_the_file_is_found_through_the_environment(tmp_path, monkeypatch):
    document = SETTINGS.to_json() | {"expected_efficiency": 0.9, "histogram_sha256": "ab"}
    (tmp_path / "buckets.json").write_text(json.dumps(document))
    monkeypatch.setenv("DFLASH_BUCKETS", str(tmp_path / "buckets.json"))
    assert batching.load() == SETTINGS
    monkeypatch.delenv("DFLASH_BUCKETS")
    with pytest.raises(BadSettings, match="DFLASH_BUCKETS is not set"):
        batching.load()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 2}', '{"version": 1}'])
def test_a_file_that_is_none_of_ours_is_refused(tmp_path, text):
    (tmp_path / "buckets.json").write_text(text)
    with pytest.raises(BadSettings):
        batching.load(tmp_path / "buckets.json")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"windw": 3}, "unknown settings: windw"),
        ({"token_budget": 0}, "token_budget is a whole number from 1"),
        ({"ranks": True}, "ranks is a whole number"),
        ({"seed": -1}, "seed is a whole number from 0"),
        ({"order": "sideways"}, "order is random or stratified"),
        ({"window": 2.0}, "window is a whole number"),
    ],
)
def test_a_setting_that_means_nothing_is_refused(change, words):
    document = SETTINGS.to_json()
    document["settings"] |= change
    with pytest.raises(BadSettings, match=words):
        batching.Settings.from_json(document)


def test_settings_that_decide_too_much_to_be_guessed_must_be_there():
    document = SETTINGS.to_json()
    del document["settings"]["token_budget"]
    with pytest.raises(BadSettings, match="without token_budget"):
        batching.Settings.from_json(document)


@pytest.mark.parametrize(
    "boundaries", [(), (0,), (1, 5), (0, 5, 5), (0, 9, 5), (0, 5.0), range(70_000)]
)
def test_boundaries_ascend_from_zero(boundaries):
    with pytest.raises(BadBoundaries):
        replace(SETTINGS, boundaries=boundaries)


def test_an_epoch_is_a_sequence():
    batches = batching.epoch_batches([5, 6, 7, 50], SETTINGS, 0)
    assert len(batches) == 2
    assert [len(batch) for batch in batches[:]] == [len(batches[0]), len(batches[-1])]
    with pytest.raises(IndexError):
        batches[2]


def test_a_copy_of_the_package_alone_makes_batches(tmp_path):
    library = tmp_path / "lib" / "dflashctl"
    shutil.copytree(Path(batching.__file__).parent, library / "buckets")
    (library / "__init__.py").touch()
    program = """
import sys
from dflashctl.buckets import batching
how = batching.Settings(boundaries=(0, 9), token_budget=20, max_batch_size=4)
print(list(batching.BatchSampler([3, 4, 3, 8], how)), batching.__file__)
print(sorted({name.partition(".")[0] for name in sys.modules} - set(sys.stdlib_module_names)))
"""
    done = subprocess.run(
        [sys.executable, "-P", "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path / "lib"), "PYTHONDONTWRITEBYTECODE": "1"},
    )
    made, modules = done.stdout.splitlines()
    assert str(library) in made
    assert {"dflashctl", "numpy"} <= set(ast.literal_eval(modules))
    assert not {"typer", "pydantic", "fabric", "libtmux", "pyarrow"} & set(
        ast.literal_eval(modules)
    )
