"""Lengths in parquet and Arrow files and in saved Hugging Face datasets, by pyarrow."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dflashctl.buckets.columns import choose
from dflashctl.buckets.failures import BadDataset, MissingLibrary

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]
    Piece = tuple[Integers, float]

_ROWS, _ROWS_OF_LISTS = 1 << 16, 1 << 12
_FILE_MAGIC = b"ARROW1"
_STREAM_END = b"\xff\xff\xff\xff" + bytes(4)


def parquet(path: str, column: str | None) -> Iterator[Piece]:
    """A parquet file; only the one column is read."""
    with _pyarrow(path):
        import pyarrow as pa
        import pyarrow.parquet as pq

        with pq.ParquetFile(path) as file:
            name = choose(path, file.schema_arrow.names, column)
            is_number = pa.types.is_integer(file.schema_arrow.field(name).type)
            rows, done = _ROWS if is_number else _ROWS_OF_LISTS, 0
            for batch in file.iter_batches(rows, columns=[name]):
                done += batch.num_rows
                yield _lengths(path, name, batch.column(0)), done / file.metadata.num_rows


def arrow(path: str, column: str | None) -> Iterator[Piece]:
    """An Arrow file or stream, memory-mapped: of lists, only the offsets are touched."""
    with _pyarrow(path):
        import pyarrow as pa

        with pa.memory_map(path) as mapped:
            if _begins(path) == _FILE_MAGIC:
                file = pa.ipc.open_file(mapped)
                count = file.num_record_batches
                batches = ((file.get_batch(i), (i + 1) / count) for i in range(count))
            else:
                _check_end(path)
                file = pa.ipc.open_stream(mapped)
                batches = ((batch, mapped.tell() / mapped.size()) for batch in file)
            name = choose(path, file.schema.names, column)
            at = file.schema.names.index(name)
            for batch, share in batches:
                yield _lengths(path, name, batch.column(at)), share


def saved(path: str, column: str | None) -> Iterator[Piece]:
    """A folder that ``save_to_disk`` wrote. A selection of rows that it holds is honoured."""
    folder = Path(path)
    state = json.loads((folder / "state.json").read_text(encoding="utf-8"))
    try:
        files, picked = (
            [str(folder / each["filename"]) for each in state.get(name) or ()]
            for name in ("_data_files", "_indices_data_files")
        )
    except (AttributeError, KeyError, TypeError) as error:
        text = f"{folder}/state.json is none that save_to_disk wrote"
        raise BadDataset("unreadable", text, path=path) from error

    def all_rows() -> Iterator[Piece]:
        for at, file in enumerate(files):
            for lengths, share in arrow(file, column):
                yield lengths, (at + share) / len(files)

    if not picked:
        yield from all_rows()
        return
    import numpy as np

    rows = np.concatenate([np.zeros(0, np.int64), *(lengths for lengths, _ in all_rows())])
    for file in picked:
        for indices, share in arrow(file, "indices"):
            if indices.size and not 0 <= indices.min() <= indices.max() < rows.size:
                text = f"{file} picks rows that are not among the {rows.size:,} there are"
                raise BadDataset("truncated", text, path=path)
            yield rows[indices], share


@contextmanager
def _pyarrow(path: str) -> Iterator[None]:
    """The absence of numpy and pyarrow, and the latter's complaints, as errors of ours."""
    for library in ("numpy", "pyarrow"):
        try:
            import_module(library)
        except ImportError as error:
            raise MissingLibrary(library, path=path) from error
    from pyarrow import ArrowException

    try:
        yield
    except ArrowException as error:
        text = f"{path} is cut short or damaged: {error}"
        raise BadDataset("truncated", text, path=path) from error


def _lengths(path: str, name: str, values: Any) -> Integers:
    """What a column says of its rows' lengths."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = values.type
    is_list = any(
        is_one(kind)
        for is_one in (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    )
    if values.null_count:
        text = f"{path}: {values.null_count:,} rows have no {name}"
        raise BadDataset("wrong-column", text, path=path)
    if not is_list and not pa.types.is_integer(kind):
        text = f"{path}: {name} is {kind}, neither whole numbers nor lists"
        raise BadDataset("wrong-column", text, path=path)
    counts = pc.list_value_length(values) if is_list else values
    lengths: Integers = counts.to_numpy(zero_copy_only=False).astype(np.int64)
    if is_list and name == "attention_mask":
        flat = values.flatten()
        fit = pa.types.is_integer(flat.type) or pa.types.is_boolean(flat.type)
        if not fit or flat.null_count:
            text = f"{path}: {name} has {kind}, with something that is no whole number"
            raise BadDataset("wrong-column", text, path=path)
        mask = flat.to_numpy(zero_copy_only=False).astype(np.int64)
        before = np.concatenate([[0], np.cumsum(mask)])
        ends = np.cumsum(lengths)
        lengths = before[ends] - before[ends - lengths]
    return lengths


def _begins(path: str) -> bytes:
    with Path(path).open("rb") as file:
        return file.read(len(_FILE_MAGIC))


def _check_end(path: str) -> None:
    """A stream that was cut between two batches reads well, but does not end with its mark."""
    with Path(path).open("rb") as file:
        file.seek(-min(len(_STREAM_END), file.seek(0, 2)), 2)
        if file.read() != _STREAM_END:
            text = f"{path} is cut short: the mark of its end is missing"
            raise BadDataset("truncated", text, path=path)
