"""The data set on disk, and what is made of it for an epoch."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dflashctl.buckets.batching import Settings

torch: Any = pytest.importorskip("torch", reason="torch is not here: make torch-venv")
dflash_data: Any = pytest.importorskip("dflash_data")

SETTINGS = Settings(
    token_budget=1000, max_batch_size=8, boundaries=(0, 60, 120, 600), ranks=3, accumulation=2
)


def test_what_was_written_is_read(data: Path) -> None:
    written = list(dflash_data.synthetic(120, seed=3))
    samples = dflash_data.Samples(data)
    assert len(samples) == 120
    for number in (0, 57, 119):
        for one, other in zip(samples.sample(number), written[number], strict=True):
            assert np.array_equal(one, other)
    assert samples.damaged() == []


def test_the_lines_of_a_file_become_samples(tmp_path: Path) -> None:
    lines = [
        {"input_ids": [1, 2, 70_000], "loss_mask": [0, 1, 1]},
        {"input_ids": [4], "loss_mask": [1]},
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    read = dflash_data.from_jsonl([tmp_path / "a.jsonl"])
    dflash_data.write(tmp_path / "out", read, vocabulary=100_000, mask_id=99_999)
    samples = dflash_data.Samples(tmp_path / "out")
    assert samples.lengths.tolist() == [3, 1]
    assert [part.tolist() for part in samples.sample(0)] == [[1, 2, 70_000], [False, True, True]]


def test_files_of_hugging_faces_datasets_become_samples(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not here")
    table = pa.table({"input_ids": [[1, 2, 3], [4]], "loss_mask": [[0, 1, 1], [1]]})
    with pa.ipc.new_stream(str(tmp_path / "a.arrow"), table.schema) as sink:
        sink.write_table(table)
    read = [
        [part.tolist() for part in one] for one in dflash_data.from_arrow([tmp_path / "a.arrow"])
    ]
    assert read == [[[1, 2, 3], [0, 1, 1]], [[4], [1]]]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda folder: (folder / "meta.json").unlink(),
        lambda folder: (folder / "meta.json").write_text(
            '{"format": "dflash-samples", "version": 2}'
        ),
        lambda folder: (folder / "tokens.bin").write_bytes(b"1234"),
    ],
)
def test_a_folder_that_is_no_data_set_is_refused(tmp_path: Path, spoil: Any) -> None:
    dflash_data.write(tmp_path / "d", dflash_data.synthetic(3), vocabulary=24, mask_id=20)
    spoil(tmp_path / "d")
    with pytest.raises(dflash_data.BadData):
        dflash_data.Samples(tmp_path / "d")


def test_a_token_outside_of_the_vocabulary_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    with pytest.raises(dflash_data.BadData, match="sample 0"):
        dflash_data.write(tmp_path / "d", [([24], [1])], vocabulary=24, mask_id=20)
    assert not (tmp_path / "d").exists()


def test_a_changed_byte_is_found(tmp_path: Path) -> None:
    dflash_data.write(tmp_path / "d", dflash_data.synthetic(3), vocabulary=24, mask_id=20)
    tokens = bytearray((tmp_path / "d" / "tokens.bin").read_bytes())
    tokens[7] ^= 1
    (tmp_path / "d" / "tokens.bin").write_bytes(tokens)
    assert dflash_data.Samples(tmp_path / "d").damaged() == ["tokens.bin"]


def test_an_epoch_has_each_sample_once_and_equal_steps_for_all_ranks(data: Path) -> None:
    lengths = dflash_data.Samples(data).lengths
    batches = dflash_data.build_batches(lengths, SETTINGS, 1)
    ranks = [list(batches.of_rank(rank)) for rank in range(3)]
    assert len({len(one) for one in ranks}) == 1
    assert sorted(n for one in ranks for batch in one for n in batch) == list(range(120))


def test_the_rest_of_an_epoch_has_each_sample_that_is_left_once(data: Path) -> None:
    lengths = dflash_data.Samples(data).lengths
    done = np.arange(120) % 3 == 0
    batches = dflash_data.build_batches(lengths, SETTINGS, 0, done=done)
    assert sorted(batches.samples.tolist()) == np.flatnonzero(~done).tolist()
    for batch in batches:
        assert len(batch) * max(lengths[batch], default=0) <= 1000


def test_anchors_depend_on_how_much_is_learned_and_are_the_same_ones_again() -> None:
    anchors = dflash_data.Anchors(1 / 16, 20, seed=0)
    learned = np.repeat([False, True, False], [10, 160, 30])
    drawn = anchors.of(learned, 2, 5)
    assert len(drawn) == len(set(drawn)) == 10
    assert min(drawn) >= 10
    assert max(drawn) <= 168, "the token behind it is learned, too"
    assert anchors.of(learned, 2, 5).tolist() == drawn.tolist()
    assert anchors.of(learned, 3, 5).tolist() != drawn.tolist()
    assert len(anchors.of(np.ones(4000, dtype=bool), 0, 0)) == 20
    assert len(anchors.of(np.zeros(40, dtype=bool), 0, 0)) == 0


def test_a_batch_is_as_long_as_its_longest_sample(data: Path) -> None:
    samples = dflash_data.Samples(data)
    batch = dflash_data.padded(samples, [3, 4], dflash_data.Anchors(1 / 16, 512, 0), 0)
    longest = int(samples.lengths[[3, 4]].max())
    assert batch["tokens"].shape == (2, longest)
    assert batch["sizes"].tolist() == [int(samples.lengths[[3, 4]].sum()), 2 * longest]
    short = int(samples.lengths[[3, 4]].argmin())
    assert not batch["supervised"][short, samples.lengths[3 + short] :].any()


def test_what_goes_wrong_while_batches_are_made_is_raised_where_they_are_asked_for() -> None:
    def broken() -> Any:
        yield {"tokens": torch.zeros(1)}
        raise OSError("the disk is gone")

    ahead = dflash_data.BatchPrefetcher(broken(), 4, "cpu")
    batches = iter(ahead)
    next(batches)
    with pytest.raises(OSError, match="the disk is gone"):
        next(batches)
    ahead.close()


def test_a_stop_does_not_wait_for_batches_that_nobody_takes() -> None:
    before = threading.active_count()
    endless = ({"tokens": torch.zeros(1)} for _ in iter(int, 1))
    ahead = dflash_data.BatchPrefetcher(endless, 2, "cpu")
    next(iter(ahead))
    ahead.close()
    assert threading.active_count() == before
