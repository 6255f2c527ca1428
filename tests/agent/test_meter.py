"""The files that the collector keeps beside the log."""

from __future__ import annotations

import json
import os
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from dflashctl.agent import meter as meter_module
from dflashctl.agent.meter import Meter
from dflashctl.agent.records import RunFolder
from dflashctl.agent.rotate import Rotating, pieces


def make(folder: Path, started_at: float = 0.0, **source: str) -> tuple[Meter, RunFolder]:
    run = RunFolder(path=folder)
    return Meter(run, source, started_at), run


def state(run: RunFolder) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(run.state.read_text())
    return value


def rows(run: RunFolder) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run.metrics.read_text().splitlines()]


def test_lines_become_rows_and_a_state(tmp_path: Path) -> None:
    meter, run = make(tmp_path)
    for second in range(5):
        meter.take(f"step {second} loss={second / 2}\r\n".encode(), 100.0 + second)
    meter.close(105.0)
    assert rows(run) == [{"t": 100.0 + s, "step": s, "loss": s / 2} for s in range(5)]
    found = state(run)
    assert found["last"] == {"step": 4, "loss": 2.0}
    assert (found["lines"], found["printed_at"], found["at"]) == (5, 104.0, 105.0)
    assert found["collector"][0] == os.getpid()


def test_a_slow_run_is_known_before_its_next_step(tmp_path: Path) -> None:
    meter, run = make(tmp_path)
    meter.take(b"step 7 loss=1.5\n", 100.0)
    meter.take(b"", 101.1)
    assert state(run)["last"] == {"step": 7, "loss": 1.5}
    assert state(run)["step_at"] == 100.0


def test_the_state_is_written_once_a_second_and_as_a_heartbeat(tmp_path: Path) -> None:
    meter, run = make(tmp_path)
    written: list[float] = []
    for tenth in range(300):
        now = 100.0 + tenth / 10
        meter.take(b"step 1 loss=1\n" if tenth < 100 else b"", now)
        if not written or state(run)["at"] != written[-1]:
            written.append(state(run)["at"])
    assert min(b - a for a, b in pairwise(written)) >= 1.0
    assert 13 <= len(written) <= 16


def test_a_value_that_is_no_number_is_a_row_of_its_own(tmp_path: Path) -> None:
    meter, run = make(tmp_path)
    for step in range(20):
        loss = "nan" if step == 7 else "1.0"
        meter.take(f"step {step} loss {loss}\n".encode(), 100.0 + step / 100)
    meter.close(101.0)
    assert {"t": 100.07, "step": 7, "loss": "nan"} in rows(run)
    assert len(rows(run)) < 5


def test_a_flood_costs_no_more_than_a_second_allows(tmp_path: Path) -> None:
    meter, run = make(tmp_path)
    flood = b"".join(b"step %d loss=1.0\n" % step for step in range(100_000))
    begun = time.process_time()
    for at in range(0, len(flood), 65536):
        meter.take(flood[at : at + 65536], 100.5)
    assert time.process_time() - begun < 2
    meter.take(b"x\nstep 200000 loss=2.0\n", 102.0)
    meter.close(103.0)
    assert state(run)["last"] == {"step": 200_000, "loss": 2.0}
    assert state(run)["lines"] == 100_002


def test_a_file_of_the_trainers_is_read_from_this_runs_start_on(tmp_path: Path) -> None:
    file = tmp_path / "m.jsonl"
    file.write_text('{"step": 900, "loss": 9}\n')
    os.utime(file, (50, 50))
    meter, run = make(tmp_path, 100.0, jsonl=str(file))
    meter.take(b"step 5 loss=5\n", 101.0)
    with file.open("a") as sink:
        sink.write('{"step": 1, "loss": 1}\n{"step": 2, "lo')
        sink.flush()
        meter.take(b"", 102.0)
        sink.write('ss": 2}\n')
    meter.close(104.0)
    assert [row["step"] for row in rows(run)] == [1, 2]


def test_a_file_that_is_replaced_is_read_anew(tmp_path: Path) -> None:
    file = tmp_path / "m.jsonl"
    meter, run = make(tmp_path, 0.0, jsonl=str(file))
    meter.take(b"", 101.0)
    file.write_text('{"step": 1, "loss": 1}\n')
    meter.take(b"", 102.0)
    (tmp_path / "new").write_text('{"step": 2, "loss": 2}\n')
    (tmp_path / "new").replace(file)
    meter.close(103.0)
    assert state(run)["last"] == {"step": 2, "loss": 2.0}


@pytest.mark.parametrize("kind", ["missing", "folder", "fifo"])
def test_what_is_no_file_does_not_hold_it_up(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "m.jsonl"
    if kind == "folder":
        file.mkdir()
    elif kind == "fifo":
        os.mkfifo(file)
    meter, run = make(tmp_path, 0.0, jsonl=str(file))
    meter.take(b"", 101.0)
    meter.close(102.0)
    assert state(run)["last"] == {}


def test_a_pattern_that_takes_too_long_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meter_module, "PATTERN_S", 0.1)
    meter, run = make(tmp_path, 0.0, pattern=r"(?P<step>(\d+)+)x")
    begun = time.monotonic()
    meter.take(b"1" * 60 + b"\n", 101.0)
    meter.take(b"12x\n", 102.0)
    meter.close(103.0)
    assert time.monotonic() - begun < 2
    assert (state(run)["problem"], state(run)["last"]) == ("pattern_too_slow", {})


def test_a_full_disk_and_a_lost_folder_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").symlink_to("/dev/full")
    meter, run = make(tmp_path)
    meter.take(b"step 1 loss=1\n", 101.0)
    meter.take(b"step 2 loss=1\n", 103.0)
    assert state(run)["last"]["step"] == 1
    gone, _ = make(tmp_path / "gone")
    gone.take(b"step 1 loss=1\n", 101.0)
    gone.close(103.0)


def test_a_reader_never_finds_half_a_state(tmp_path: Path) -> None:
    meter, run = make(tmp_path)
    meter.take(b"step 1 loss=1\n", 1.0)
    done = threading.Event()

    def write() -> None:
        for second in range(2, 200):
            meter.take(b"step %d loss=1\n" % second, float(second))
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    while not done.is_set():
        assert state(run)["version"] == 1
    writer.join()


def test_a_log_is_kept_in_pieces_of_limited_size(tmp_path: Path) -> None:
    log = Rotating(str(tmp_path / "log"), 100, 3)
    for number in range(60):
        log.write(b"line %02d..\n" % number)
    parts = pieces(str(tmp_path / "log"))
    assert [Path(part).name for part in parts] == ["log.3", "log.2", "log.1", "log"]
    text = b"".join(Path(part).read_bytes() for part in parts)
    assert text.endswith(b"line 59..\n")
    assert text.count(b"\n") == 40
    assert max(Path(part).stat().st_size for part in parts) <= 110


def test_a_clock_that_is_set_back_stops_no_record(tmp_path: Path) -> None:
    meter, run = make(tmp_path)
    for second in range(40):
        now = 10_000.0 + second - (3600 if second >= 20 else 0)
        meter.take(f"step {second} loss=1.5\n".encode(), now)
    assert state(run)["last"]["step"] == 38
    assert state(run)["at"] == 10_000.0 + 39 - 3600
    meter.close(10_000.0 + 40 - 3600)
    assert len(state(run)["recent"]) == 40
    assert [row["step"] for row in rows(run)] == list(range(40))
