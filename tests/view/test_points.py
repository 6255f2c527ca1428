from __future__ import annotations

import math

from dflashctl.view.points import as_csv, as_objects, compared, read_rows, since

TEXT = """\
{"t":100.0,"step":1,"loss":3.0}
half a li
{"step":7}
{"t":130.5,"step":2,"loss":"nan","tokens_per_s":1000}
"""


def test_rows_are_read_and_what_is_none_is_passed_over() -> None:
    first, second = read_rows(TEXT)
    assert first == {"t": 100.0, "step": 1.0, "loss": 3.0}
    assert math.isnan(second["loss"])


def test_since_counts_back_from_the_newest_row() -> None:
    rows = read_rows(TEXT)
    assert since(rows, 10) == rows[1:]
    assert since(rows, 60) == since(rows, None) == rows
    assert since([], 10) == []


def test_csv_has_a_column_for_each_metric_that_is_there() -> None:
    assert as_csv(read_rows(TEXT)).splitlines() == [
        "time,step,loss,tokens_per_s",
        "1970-01-01T00:01:40.000Z,1,3,",
        "1970-01-01T00:02:10.500Z,2,nan,1000",
    ]


def test_json_knows_no_nan() -> None:
    assert as_objects(read_rows(TEXT))[1] == {
        "time": "1970-01-01T00:02:10.500Z", "step": 2.0, "loss": None, "tokens_per_s": 1000.0,
    }  # fmt: skip


def rows(steps: range, every_s: float, loss: float) -> list[dict[str, float]]:
    return [
        {"t": 1e9 + every_s * n, "step": float(n), "loss": loss, "tokens_per_s": 100 / every_s}
        for n in steps
    ]


def test_two_runs_are_compared_where_both_have_steps() -> None:
    found = compared(rows(range(1000), 1.0, 2.0), rows(range(400, 2000), 2.0, 1.0))
    assert len(found) == 12
    assert found[-1]["step"] == 999
    assert all(entry["a_loss"] == 2.0 and entry["b_loss"] == 1.0 for entry in found)
    assert (found[0]["a_tokens_per_s"], found[0]["b_tokens_per_s"]) == (100.0, 50.0)
    assert found[-1]["a_seconds"] == 999


def test_runs_without_common_steps_have_nothing_to_compare() -> None:
    assert compared(rows(range(10), 1, 1), rows(range(20, 30), 1, 1)) == []
    assert compared([], rows(range(10), 1, 1)) == []
