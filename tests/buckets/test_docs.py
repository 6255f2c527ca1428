"""The example of docs/batching.md does what the page says."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np

from dflashctl.buckets import batching

PAGE = Path(__file__).parents[2] / "docs" / "batching.md"


def test_the_example_runs_as_it_stands(tmp_path):
    marked = re.search(
        r"<!-- run by the tests -->\n```python\n(.*?)```", PAGE.read_text(), re.DOTALL
    )
    assert marked
    (tmp_path / "example.py").write_text(marked[1])
    np.save(tmp_path / "lengths.npy", np.arange(3000) * 7919 % 500 + 1)
    how = batching.Settings(boundaries=(0, 200, 501), token_budget=5000, max_batch_size=16)
    (tmp_path / "buckets.json").write_text(json.dumps(how.to_json()))
    environment = {
        "DFLASH_BUCKETS": str(tmp_path / "buckets.json"),
        "PYTHONPATH": str(PAGE.parents[1]),
        "RANK": "1",
        "WORLD_SIZE": "4",
    }
    done = subprocess.run(
        [sys.executable, "example.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    first, second = done.stdout.splitlines()
    said = re.fullmatch(r"epoch 0: (\d+) steps, padding efficiency (0\.\d{4})", first)
    assert said
    assert 55 <= int(said[1]) <= 75
    assert 0.6 < float(said[2]) < 0.9
    assert second.startswith(f"epoch 1: {said[1]} steps")


def test_every_setting_is_on_the_page():
    text = PAGE.read_text()
    assert all(f"`{name}`" in text for name in batching.Settings.__slots__)
