"""How long a look takes after 10 GB of output, beside one after none.

``python tests/bench/status_after_a_long_log.py``: the log is sparse, the metrics are as long
as they get, and so is ``state.json``.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path

from dflashctl.agent.observe import observe
from dflashctl.agent.protocol import Look
from dflashctl.agent.records import RunFolder, StateFolder, write_json
from dflashctl.agent.series import Series

LOOKS = 15
RUN = {
    "started_at": 0.0, "session": "bench", "command": ["x"], "env": {}, "release": "r",
    "started_by": "x", "exit_codes": {},
}  # fmt: skip


def make(state: StateFolder, run_id: str, points: int, size: int) -> RunFolder:
    """A run that has printed so much."""
    folder = state.run("bench", run_id)
    folder.path.mkdir(parents=True)
    write_json(folder.run, {**RUN, "id": run_id})
    series = Series()
    for step in range(points):
        series.add(1e9 + 2 * step, {"step": float(step), "loss": 2.0, "tokens_per_s": 25_100.0})
    head = {"version": 1, "collector": None, "at": 1e9, "lines": points, "printed_at": 1e9}
    folder.state.write_text(json.dumps({**head, "problem": None, **series.state()}))
    for number, path in enumerate((folder.log, folder.metrics)):
        with path.open("wb") as file:
            file.truncate(size >> (number * 8))
    return folder


def main() -> None:
    """Print both times, taken in turns, and their ratio."""
    with tempfile.TemporaryDirectory() as place:
        state = StateFolder(path=Path(place))
        make(state, "short", 3, 100)
        make(state, "long", 20_000, 10_000_000_000)
        look = Look(job="bench", session="bench", tmux_socket=f"{place}/none", gpus=False)
        best = {"short": 1e9, "long": 1e9}
        for _ in range(LOOKS):
            for run_id in ("short", "long"):
                state.set_current("bench", run_id)
                begun = time.perf_counter()
                seen = observe(look, state)
                best[run_id] = min(best[run_id], time.perf_counter() - begun)
                assert seen.metrics is not None, "both have metrics"
        short, long = best["short"] * 1000, best["long"] * 1000
        print(f"a look after no output {short:.1f} ms, after 10 GB {long:.1f} ms: "
              f"{long / short:.2f} times")  # fmt: skip


if __name__ == "__main__":
    main()
