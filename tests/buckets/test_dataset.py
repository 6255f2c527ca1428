"""Lengths out of every kind of file, and what is said where they cannot be had."""

import csv
import json
import os
import struct
import sys
import zipfile
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dflashctl.buckets import dataset
from dflashctl.buckets.failures import BadDataset, BadLengths, MissingLibrary

LENGTHS = [7, 3, 12, 3, 8191, 1]
TOKENS = [list(range(length)) for length in LENGTHS]
MASKS = [[1] * length + [0] * 3 for length in LENGTHS]


def found(path, **how):
    return dataset.read(str(path), **how).tolist()


def records(**columns):
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def write_jsonl(path, **columns):
    path.write_text("".join(json.dumps(record) + "\n" for record in records(**columns)))


def write_csv(path, **columns):
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",")
        writer.writerows([list(columns), *zip(*columns.values(), strict=True)])


def write_parquet(path, **columns):
    pq.write_table(pa.table(columns), path, row_group_size=2)


def write_stream(path, **columns):
    table = pa.table(columns)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)


def write_arrow_file(path, **columns):
    table = pa.table(columns)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)


def write_npz(path, **columns):
    arrays = {name: np.array(values) for name, values in columns.items()}
    np.savez(path, **arrays)  # type: ignore[arg-type]  # the stub takes them for its own options


WRITERS = {
    "d.jsonl": write_jsonl,
    "d.csv": write_csv,
    "d.tsv": write_csv,
    "d.parquet": write_parquet,
    "stream.arrow": write_stream,
    "file.arrow": write_arrow_file,
    "d.npz": write_npz,
}
OF_LISTS = ["d.jsonl", "d.parquet", "stream.arrow", "file.arrow"]


def save_to_disk(folder, rows, picked=None):
    """A folder as Hugging Face's datasets leave it; with rows picked, as older ones did."""
    folder.mkdir()
    files = ["data-00000-of-00002.arrow", "data-00001-of-00002.arrow"]
    for file, part in zip(files, (rows[:2], rows[2:]), strict=True):
        write_stream(folder / file, input_ids=[list(range(length)) for length in part])
    state = {"_data_files": [{"filename": file} for file in files], "_split": "train"}
    if picked is not None:
        write_stream(folder / "indices.arrow", indices=pa.array(picked, pa.uint64()))
        state["_indices_data_files"] = [{"filename": "indices.arrow"}]
    (folder / "state.json").write_text(json.dumps(state))
    (folder / "dataset_info.json").write_text("{}")


def write_idx(path, lengths, documents=2):
    head = struct.pack("<9sQBQQ", b"MMIDIDX\x00\x00", 1, 4, len(lengths), documents)
    sizes = np.array(lengths, "<i4").tobytes()
    path.write_bytes(head + sizes + bytes(8 * len(lengths)) + bytes(8 * documents))


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("column", ["length", "num_tokens", "seq_len", "seqlen", "n_tokens"])
def test_a_column_of_lengths_is_found_by_the_names_people_use(tmp_path, name, column):
    WRITERS[name](tmp_path / name, id=[9] * 6, **{column: LENGTHS})
    assert found(tmp_path / name) == LENGTHS


@pytest.mark.parametrize("name", WRITERS)
def test_the_column_that_is_named_goes_before_the_known_ones(tmp_path, name):
    WRITERS[name](tmp_path / name, length=[5, 6, 7, 8, 9, 10], mine=LENGTHS)
    assert found(tmp_path / name, column="mine") == LENGTHS
    assert found(tmp_path / name) == [5, 6, 7, 8, 9, 10]


@pytest.mark.parametrize("name", OF_LISTS)
def test_lists_of_tokens_are_as_long_as_they_are(tmp_path, name):
    WRITERS[name](tmp_path / name, labels=MASKS, input_ids=TOKENS, attention_mask=MASKS)
    assert found(tmp_path / name) == LENGTHS
    assert found(tmp_path / name, column="labels") == [length + 3 for length in LENGTHS]


@pytest.mark.parametrize("name", OF_LISTS)
def test_of_an_attention_mask_only_what_is_not_masked_counts(tmp_path, name):
    WRITERS[name](tmp_path / name, attention_mask=MASKS)
    assert found(tmp_path / name) == LENGTHS


@pytest.mark.parametrize("kind", ["<i4", ">i8", "<u2", "|u1"])
def test_an_array_of_any_whole_numbers_is_read(tmp_path, kind):
    lengths = [7, 3, 12, 200]
    np.save(tmp_path / "lengths.npy", np.array(lengths, dtype=kind))
    assert found(tmp_path / "lengths.npy") == lengths
    assert found(tmp_path) == lengths  # as a dataset's folder


def test_an_archive_of_one_array_needs_no_name(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", np.array(LENGTHS))
    assert found(tmp_path / "a.npz") == LENGTHS


def test_offsets_are_told_by_their_name_and_give_differences(tmp_path):
    offsets = np.cumsum([0, *LENGTHS])
    np.save(tmp_path / "offsets.npy", offsets)
    np.savez(tmp_path / "a.npz", tokens=[1, 2], offsets=offsets)
    assert found(tmp_path / "offsets.npy") == found(tmp_path / "a.npz") == LENGTHS


def test_differences_go_on_from_one_piece_to_the_next(tmp_path):
    lengths = np.arange((1 << 20) + 10) % 7 + 1
    np.save(tmp_path / "offsets.npy", np.cumsum(np.append(0, lengths)))
    pieces = list(dataset.chunks(str(tmp_path / "offsets.npy")))
    assert len(pieces) == 2
    assert (np.concatenate(pieces) == lengths).all()


def test_a_megatron_index_holds_its_sequences_lengths(tmp_path):
    write_idx(tmp_path / "text_document.idx", LENGTHS)
    assert found(tmp_path / "text_document.idx") == LENGTHS


def test_plain_numbers_are_read_from_text(tmp_path):
    (tmp_path / "lengths.txt").write_text("7 3\n12\n\n3\t8191 1")
    assert found(tmp_path / "lengths.txt") == LENGTHS


def test_a_table_of_one_column_needs_no_header(tmp_path):
    (tmp_path / "a.csv").write_text("".join(f"{length}\n" for length in LENGTHS))
    assert found(tmp_path / "a.csv") == LENGTHS


def test_a_table_of_lengths_and_counts_is_a_histogram(tmp_path):
    (tmp_path / "a.csv").write_text("length,count\n5,3\n9,1\n")
    assert found(tmp_path / "a.csv") == [5, 5, 5, 9]


@given(
    st.lists(
        st.fixed_dictionaries(
            {"seq_len": st.integers(1, 10**6)},
            optional={
                "text": st.text(st.sampled_from('a{}[]":,\\ \n'), max_size=12),
                "meta": st.fixed_dictionaries({"seq_len": st.integers(1, 99)}),
                "ids": st.lists(st.integers(0, 99), max_size=3),
            },
        ).flatmap(lambda record: st.permutations(list(record.items())).map(dict)),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from([",", ", "]),
)
def test_however_lines_look_their_lengths_are_the_ones_that_json_has(tmp_path_factory, rows, comma):
    path = tmp_path_factory.mktemp("lines") / "d.jsonl"
    path.write_text("\n".join(json.dumps(row, separators=(comma, ": ")) for row in rows))
    read = np.concatenate(list(dataset.chunks(str(path)))).tolist()
    assert read == [row["seq_len"] for row in rows]


@given(
    st.lists(
        st.fixed_dictionaries(
            {"input_ids": st.lists(st.integers(0, 10**5), max_size=9)},
            optional={
                "text": st.text(st.sampled_from('a{}[]":,\\ '), max_size=12),
                "loss_mask": st.lists(st.integers(0, 1), max_size=4),
                "meta": st.fixed_dictionaries({"input_ids": st.just([1, 2])}),
            },
        ).flatmap(lambda record: st.permutations(list(record.items())).map(dict)),
        min_size=1,
        max_size=8,
    )
)
def test_however_lines_look_their_lists_are_the_ones_that_json_has(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("lines") / "d.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    read = np.concatenate(list(dataset.chunks(str(path)))).tolist()
    assert read == [len(row["input_ids"]) for row in rows]


def test_a_saved_dataset_is_read_shard_after_shard(tmp_path):
    save_to_disk(tmp_path / "saved", LENGTHS)
    assert found(tmp_path / "saved") == LENGTHS


def test_the_rows_that_a_saved_dataset_picks_are_the_ones_it_has(tmp_path):
    save_to_disk(tmp_path / "saved", LENGTHS, picked=[4, 0, 0, 2])
    assert found(tmp_path / "saved") == [8191, 7, 7, 12]


def test_rows_picked_from_beyond_the_end_are_refused(tmp_path):
    save_to_disk(tmp_path / "saved", LENGTHS, picked=[0, 6])
    assert problem_of(tmp_path / "saved") == "truncated"


def test_of_several_splits_one_must_be_named(tmp_path):
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    save_to_disk(tmp_path / "train", LENGTHS)
    with pytest.raises(BadDataset, match=r"/train or .*/test"):
        found(tmp_path)
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train"]}')
    assert found(tmp_path) == LENGTHS


def test_shards_are_taken_in_the_order_of_their_names(tmp_path):
    write_parquet(tmp_path / "train-00001-of-00002.parquet", length=LENGTHS[2:])
    write_parquet(tmp_path / "train-00000-of-00002.parquet", length=LENGTHS[:2])
    (tmp_path / "notes.txt").write_text("1 2 3")
    assert found(tmp_path) == found(tmp_path / "train-*.parquet") == LENGTHS
    write_parquet(tmp_path / "test-00000-of-00001.parquet", length=[9])
    assert problem_of(tmp_path) == "several-splits"


def test_a_format_can_be_named_where_the_ending_says_nothing(tmp_path):
    np.save(tmp_path / "a.npy", np.array(LENGTHS))
    (tmp_path / "a.npy").rename(tmp_path / "lengths.bin")
    assert problem_of(tmp_path / "lengths.bin") == "unknown-format"
    named = dataset.chunks(str(tmp_path / "lengths.bin"), format="npy")
    assert np.concatenate(list(named)).tolist() == LENGTHS


def test_progress_ends_with_all_bytes_and_never_goes_back(tmp_path):
    for shard in range(3):
        write_parquet(tmp_path / f"{shard}.parquet", length=LENGTHS)
    told: list[tuple[int, int]] = []
    list(dataset.chunks(str(tmp_path), progress=lambda done, whole: told.append((done, whole))))
    total = sum(file.stat().st_size for file in tmp_path.iterdir())
    assert told == sorted(told)
    assert {whole for _, whole in told} == {total}
    assert told[-1][0] == total


def problem_of(path, **how):
    with pytest.raises((BadDataset, BadLengths)) as raised:
        found(path, **how)
    assert str(raised.value)
    assert isinstance(raised.value, BadDataset | BadLengths)
    return raised.value.problem


def test_what_is_not_there_is_said_to_be_missing(tmp_path):
    assert problem_of(tmp_path / "no.npy") == "not-found"
    assert problem_of(tmp_path / "*.npy") == "not-found"
    assert problem_of(tmp_path) == "not-found"


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_without_such_a_column_names_the_ones_it_has(tmp_path, name):
    WRITERS[name](tmp_path / name, one=LENGTHS, other=LENGTHS)
    with pytest.raises(BadDataset, match="no column mine, but one, other") as raised:
        found(tmp_path / name, column="mine")
    assert raised.value.problem == "no-column"
    assert problem_of(tmp_path / name) == "no-column"


CUT = [name for name in WRITERS if not name.endswith(("csv", "tsv"))]  # a text ends anywhere


@pytest.mark.parametrize("name", [*CUT, "a.npy", "a.idx", "saved"])
def test_a_file_that_was_cut_short_is_told(tmp_path, name):
    path = tmp_path / name
    if name == "a.npy":
        np.save(path, np.arange(1, 2000))
    elif name == "a.idx":
        write_idx(path, LENGTHS)
    elif name == "saved":
        save_to_disk(path, LENGTHS)
        path /= "data-00001-of-00002.arrow"
    else:
        WRITERS[name](path, length=list(range(1, 2000)))
    whole = path.read_bytes()
    for kept in (len(whole) - 2, len(whole) - 9, len(whole) * 2 // 3):
        path.write_bytes(whole[:kept])
        assert problem_of(tmp_path / name) in ("truncated", "unreadable")


def test_a_stream_that_was_cut_between_two_batches_is_told(tmp_path):
    write_stream(tmp_path / "a.arrow", length=LENGTHS)
    whole = (tmp_path / "a.arrow").read_bytes()
    assert whole.endswith(b"\xff\xff\xff\xff\0\0\0\0")
    (tmp_path / "a.arrow").write_bytes(whole[:-8])
    assert problem_of(tmp_path / "a.arrow") == "truncated"


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "a.jsonl", "a.parquet", "a.arrow", "a.idx"])
def test_a_file_of_nothing_is_told(tmp_path, name):
    (tmp_path / name).touch()
    assert problem_of(tmp_path / name) in ("truncated", "unreadable", "empty")


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_without_rows_is_empty(tmp_path, name):
    if name == "d.jsonl":
        (tmp_path / name).write_text("\n")
    else:
        empty = {} if name.endswith(("csv", "tsv", "npz")) else {"type": pa.int64()}
        WRITERS[name](tmp_path / name, length=pa.array([], **empty) if empty else np.array([], int))
    assert problem_of(tmp_path / name) == "empty"


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize(
    ("lengths", "problem", "count", "first"),
    [
        ([5, 0, 7, 0], "zero", 2, ((1, 0), (3, 0))),
        ([5, -4, 7, 0], "negative", 1, ((1, -4),)),
        ([5, 12, 7, 101], "above-longest", 1, ((3, 101),)),
        ([5, 5, 5, 5], "constant", 4, ()),
    ],
)
def test_lengths_that_cannot_be_right_are_counted_and_the_first_named(
    tmp_path, name, lengths, problem, count, first
):
    WRITERS[name](tmp_path / name, length=lengths)
    with pytest.raises(BadLengths) as raised:
        found(tmp_path / name, longest=100)
    error = raised.value
    assert (error.problem, error.count, error.first) == (problem, count, first)


def test_offenders_are_numbered_through_all_chunks():
    chunks = [np.array([5, 6]), np.array([], np.int64), np.array([0]), np.array([7, 0] * 9)]
    with pytest.raises(BadLengths, match="10 samples are of length zero") as raised:
        list(dataset.checked(chunks))
    assert raised.value.first == ((2, 0), (4, 0), (6, 0), (8, 0), (10, 0))


def test_one_sample_alone_is_not_constant():
    assert [chunk.tolist() for chunk in dataset.checked([np.array([5])])] == [[5]]


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("d.parquet", {"length": [1.5, 2.5]}),
        ("d.parquet", {"length": [1, None]}),
        ("d.parquet", {"length": ["1", "2"]}),
        ("d.jsonl", {"length": [1.5, 2]}),
        ("d.jsonl", {"length": ["1", 2]}),
        ("d.jsonl", {"length": [1, None]}),
        ("d.csv", {"length": ["1", "x"]}),
        ("d.csv", {"length": ["1.0", "2"]}),
        ("d.npz", {"length": [1.5, 2]}),
    ],
)
def test_what_is_no_whole_number_is_told(tmp_path, name, columns):
    WRITERS[name](tmp_path / name, **columns)
    assert problem_of(tmp_path / name) in ("wrong-column", "not-integers")


def test_a_word_among_numbers_is_told_with_its_line(tmp_path):
    (tmp_path / "a.txt").write_text("5\n6\nseven\n")
    with pytest.raises(BadLengths, match=r"a\.txt, line 3: seven is no number"):
        found(tmp_path / "a.txt")


def test_a_bad_row_of_a_table_is_told_with_its_line(tmp_path):
    (tmp_path / "a.csv").write_text("id,length\n1,5\n2,\n3,7\n")
    with pytest.raises(BadLengths, match=r"a\.csv, line 3: '' is no whole number"):
        found(tmp_path / "a.csv")


def test_a_line_that_is_no_json_is_told_with_its_number(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"length": 5}\n{"length": oh}\n{"length": 6}\n')
    with pytest.raises(BadDataset, match=r"a\.jsonl, line 2: "):
        found(tmp_path / "a.jsonl")


def test_a_line_without_the_column_is_told_with_its_number(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"length": 5}\n{"size": 6}\n')
    with pytest.raises(BadDataset, match=r"line 2: length is None"):
        found(tmp_path / "a.jsonl")


@pytest.mark.parametrize("name", ["d.parquet", "stream.arrow"])
def test_without_pyarrow_it_is_asked_for_by_its_name(tmp_path, name, monkeypatch):
    WRITERS[name](tmp_path / name, length=LENGTHS)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingLibrary, match="without pyarrow") as raised:
        found(tmp_path / name)
    assert (raised.value.library, raised.value.path) == ("pyarrow", str(tmp_path / name))
    np.save(tmp_path / "a.npy", np.array(LENGTHS))
    assert found(tmp_path / "a.npy") == LENGTHS


ODD = {
    "raw.npz": lambda path: archive(path, "length", b"no array"),
    "bent.npz": lambda path: archive(path, "length.npy", bytes(range(256)) * 40, bent=True),
    "big.csv": lambda path: path.write_text("length\n5\n99999999999999999999\n"),
    "big.txt": lambda path: path.write_text("5 99999999999999999999"),
    "big.jsonl": lambda path: path.write_text('{"length": 99999999999999999999}\n'),
    "deep.jsonl": lambda path: path.write_text('{"length": 5}\n' + "[" * 100_000),
    "mask.jsonl": lambda path: path.write_text('{"attention_mask": [[1]]}\n'),
    "mask.parquet": lambda path: write_parquet(path, attention_mask=[["a"], ["b"]]),
    "counts.csv": lambda path: path.write_text("length,count\n5,3\n9,-1\n"),
    "power.csv": lambda path: path.write_text("\u00b2\n5\n"),
    "objects.npy": lambda path: np.save(path, np.array([1, {}], dtype=object), allow_pickle=True),
    "header.npy": lambda path: path.write_bytes(b"\x93NUMPY\x02\0\xf0\xff\xff\xff{"),
    "nested.npy": lambda path: path.write_bytes(b"\x93NUMPY\x01\0\x10\x27" + b"(" * 10_000),
    "two.npy": lambda path: np.save(path, np.ones((3, 4), int)),
    "none.npy": lambda path: np.save(path, np.array(5)),
    "pipe.txt": os.mkfifo,
    "loop.txt": lambda path: path.symlink_to(path.name),
    "list": lambda path: saved_state(path, "[]"),
    "nameless": lambda path: saved_state(path, '{"_data_files": [{}]}'),
    "indices": lambda path: saved_state(path, '{"_indices_data_files": [{"filename": "x"}]}'),
    "splits": lambda path: saved_state(path, '{"splits": [5]}', "dataset_dict.json"),
    "splitless": lambda path: saved_state(path, "[]", "dataset_dict.json"),
}


def archive(path, name, content, *, bent=False):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(name, content)
    if bent:
        data = bytearray(path.read_bytes())
        data[60:80] = b"\xff" * 20
        path.write_bytes(data)


def saved_state(folder, content, name="state.json"):
    folder.mkdir()
    (folder / name).write_text(content)


@pytest.mark.parametrize("name", ODD)
def test_whatever_lies_there_the_error_is_one_of_ours(tmp_path, name):
    ODD[name](tmp_path / name)
    assert problem_of(tmp_path / name)


def test_a_pattern_does_not_follow_links_to_folders(tmp_path):
    for link in ("a", "b"):
        (tmp_path / link).symlink_to(tmp_path)
    (tmp_path / "deep").mkdir()
    np.save(tmp_path / "deep" / "1.npy", np.array(LENGTHS))
    np.save(tmp_path / ".hidden.npy", np.array(LENGTHS))
    assert found(tmp_path / "**" / "*.npy") == LENGTHS


def test_texts_beside_the_lengths_may_be_long(tmp_path):
    write_csv(tmp_path / "a.csv", text=["a" * 200_000, "b"], length=[5, 7])
    assert found(tmp_path / "a.csv") == [5, 7]


def test_blank_lines_hide_no_nested_record(tmp_path):
    (tmp_path / "a.jsonl").write_text(
        '{"meta": {"length": 5}, "length": 7}\n\n' * 2 + '{"length": 8}'
    )
    assert found(tmp_path / "a.jsonl") == [7, 7, 8]


def test_lists_of_one_size_have_that_size(tmp_path):
    lists = pa.array([[1, 2], [3, 4]], pa.list_(pa.int32(), 2))
    write_parquet(tmp_path / "a.parquet", input_ids=lists)
    assert np.concatenate(list(dataset.chunks(str(tmp_path / "a.parquet")))).tolist() == [2, 2]


@given(st.binary(max_size=200), st.sampled_from(sorted(dataset.FORMATS)))
@settings(max_examples=200)
def test_whatever_bytes_a_file_holds_the_error_is_one_of_ours(tmp_path_factory, data, kind):
    path = tmp_path_factory.mktemp("bytes") / f"a.{kind}"
    path.write_bytes(data)
    with suppress(BadDataset, BadLengths):
        found(path)
