"""Which column holds the lengths."""

from __future__ import annotations

from collections.abc import Sequence

from dflashctl.buckets.failures import BadDataset

COLUMNS = ("length", "num_tokens", "seq_len", "seqlen", "n_tokens", "input_ids", "attention_mask")
"""Where lengths are looked for, in this order. Of a list the length counts, but of an
attention mask the sum: what is masked is padding."""
OFFSETS = ("offsets", "cu_seqlens", "indptr")
"""Names of arrays that say where each sample begins: lengths are the differences."""


def choose(
    path: str, there: Sequence[str], named: str | None, known: Sequence[str] = COLUMNS
) -> str:
    """The column that is named, or else the first known one.

    Raises:
        BadDataset: there is none.
    """
    wanted = known if named is None else (named,)
    for column in wanted:
        if column in there:
            return column
    some = ", ".join(there[:12]) + (", ..." if len(there) > 12 else "")
    text = f"{path} has no column {' or '.join(wanted)}, but {some or 'none at all'}"
    raise BadDataset("no-column", text, path=path)
