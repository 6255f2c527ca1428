"""What torchrun says at the end of a run's output of the process that failed first."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from dflashctl.agent.fabric import FirstFailure
from dflashctl.agent.rootcause import first_failure

if TYPE_CHECKING:
    from pathlib import Path

# As torch 2.13 prints it.
SAID = """\
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
======================================================
train.py FAILED
------------------------------------------------------
Failures:
[1]:
  time      : 2026-12-01_01:24:18
  host      : localhost
  rank      : 0 (local_rank: 0)
  exitcode  : -15 (pid: 6318)  (SIGTERM)
  error_file: <N/A>
  traceback : Signal 15 (SIGTERM) received by PID 6318
------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-12-01_01:24:17
  host      : localhost
  rank      : {rank} (local_rank: 1)
  exitcode  : {code} (pid: 6320)  (SIGKILL)
  error_file: <N/A>
======================================================
"""


def test_the_first_one_is_told_with_its_rank_and_end(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("step 1\r\n" + SAID.format(rank=3, code=-9).replace("\n", "\r\n"))
    at = time.mktime((2026, 12, 1, 1, 24, 17, 0, 0, -1))
    assert first_failure(log) == FirstFailure(rank=3, exit_code=-9, at=at)


def test_of_several_the_last_counts_and_of_a_long_log_its_end(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        SAID.format(rank=0, code=-9) + "x" * 200_000 + SAID.format(rank=1, code=1) + "after\n"
    )
    found = first_failure(log)
    assert found is not None
    assert (found.rank, found.exit_code) == (1, 1)


def test_where_nothing_is_told_nothing_is_known(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert first_failure(log) is None
    log.write_text("step 1\nTraceback (most recent call last):\n")
    assert first_failure(log) is None
