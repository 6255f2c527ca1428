"""The three experiments of docs/dflash.md: how batches are made, and what it does to training.

Needs torch:
    PYTHONPATH=.:playbooks/dflash .venv-torch/bin/python tests/bench/dflash.py
"""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from dflashctl.buckets.batching import Settings
from dflashctl.buckets.simulate import simulate

DFLASH = Path(__file__).parents[2] / "playbooks" / "dflash"
RUNS: dict[str, dict[str, Any]] = {
    "sorted": {"strategy": "sorted", "order": "random"},
    "shuffle": {"strategy": "shuffle"},
    "bucketed, random": {"strategy": "bucketed", "order": "random"},
    "bucketed, stratified": {"strategy": "bucketed", "order": "stratified"},
}


def main() -> None:
    """Train each for 18 epochs."""
    try:
        import torch

        import dflash_data
        import train_dflash_pipeline as pipeline
    except ImportError as error:
        print(f"left out: {error}")
        return
    torch.set_num_threads(1)
    folder = Path(tempfile.mkdtemp())
    dflash_data.write(folder / "data", dflash_data.synthetic(400), vocabulary=24, mask_id=20)
    lengths = np.load(folder / "data" / "lengths.npy")
    for name, changes in RUNS.items():
        config = json.loads((DFLASH / "smoke.json").read_text())
        config |= {"data": str(folder / "data"), "checkpoints": str(folder / name)}
        config |= {"strategy": changes["strategy"], "epochs": 18}
        config["batching"] |= {"accumulation": 4} | changes
        (folder / "config.json").write_text(json.dumps(config))
        said = {k: v for k, v in config["batching"].items() if k != "boundaries"}
        settings = Settings(boundaries=tuple(config["batching"]["boundaries"]), **said)
        foretold = simulate(lengths, settings, seeds=range(5))
        begun = time.process_time()
        with contextlib.redirect_stdout(io.StringIO()):
            pipeline.main(["--config", str(folder / "config.json")])
        seconds = time.process_time() - begun
        told = [json.loads(line) for line in (folder / name / "metrics.jsonl").open()]
        steps = [one for one in told if one["event"] == "step"]
        losses = [
            f"{np.mean([one['loss'] for one in steps if one['epoch'] == epoch]):.2f}"
            for epoch in (0, 2, 5, 8, 11, 14, 17)
        ]
        spread = np.std(np.diff([one["loss"] for one in steps if one["epoch"] >= 12]))
        real = sum(one["tokens"] for one in steps) / seconds / 1000
        print(
            f"{name}: {len(steps)} steps; efficiency {foretold.mean.efficiency:.3f} foretold,"
            f" {steps[-1]['efficiency']:.3f} measured; deff {foretold.mean.deff:.2f};"
            f" {real:.1f} Ktok a second of one core; loss in epochs 1, 3, 6, 9, 12, 15, 18:"
            f" {' '.join(losses)}; from step to step, in the last six epochs, {spread:.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
