"""Many targets at once: 16 containers of one host, and 64 simulated targets."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench.speed.table import times
from tests.bench.speed.timing import in_turns, ratio, run
from tests.lab.container import containers

if TYPE_CHECKING:
    from tests.bench.speed.lab import Lab
    from tests.bench.speed.table import Book
    from tests.bench.speed.timing import Sample

FURTHER = tuple(range(201, 216))
SIMULATED = 64
_ROOT = Path(__file__).parents[4]
_STAND_INS = Path(__file__).parents[1] / "stand_ins.py"
_NOTHING_RUNS = 3


def measure(lab: Lab, book: Book, runs: int, *, ours_only: bool) -> None:
    """Rows of status for many targets against one."""
    with containers(*FURTHER) as further:
        for container in further:
            lab.host.pct.know(container)
        lab.write_inventory(*further)
        every = [word for vmid in ("", *FURTHER) for word in ("-t", f"box{vmid}")]
        _status(lab, 0.0, *every)  # each has the agent now
        found = in_turns(
            {
                "1 container": lambda delay_s: _status(lab, delay_s),
                "16 containers": lambda delay_s: _status(lab, delay_s, *every),
            },
            (0.0, 0.1),
            runs,
        )
    lab.write_inventory()
    book.keep("containers of one host", found)
    print(times(found), flush=True)
    for delay_s, most in ((0.1, 4.0), (0.0, None)):
        one, all_of_them = found["1 container"], found["16 containers"]
        book.add(
            f"status of 16 containers of one host, {1000 * delay_s:.0f} ms: against one",
            ratio(all_of_them, one, delay_s),
            "x",
            most=most,
            beside=f"{all_of_them.seconds(delay_s):.2f} s, {one.seconds(delay_s):.2f} s",
        )
    calls = found["16 containers"].most(lambda sample: sample.pct)
    book.add("status of 16 containers: pct invocations", calls, "", most=16)
    _simulated(lab, book, runs)


def _status(lab: Lab, delay_s: float, *more: str) -> Sample:
    return lab.ours(delay_s, "status", *more, codes=(0, _NOTHING_RUNS))


def _simulated(lab: Lab, book: Book, runs: int) -> None:
    def once(count: int) -> Sample:
        words = (sys.executable, str(_STAND_INS), str(count))
        environ = {**lab.environ, "PYTHONPATH": str(_ROOT)}
        return run(words, environ, codes=(_NOTHING_RUNS,))

    once(1)
    found = in_turns({"1": lambda _: once(1), "64": lambda _: once(SIMULATED)}, (0.1,), runs)
    book.keep("simulated targets", found)
    one, many = found["1"].seconds(0.1), found["64"].seconds(0.1)
    book.add(
        "status of 64 simulated targets, 100 ms",
        many,
        "s",
        most=2 * one + 2,
        beside=f"one: {one:.2f} s; the limit is 2 x that + 2 s",
    )
