"""`make demo-dflash`: from one bucket to the best ones, with the trainer at work."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import DFLASH, ROOT

pytest.importorskip("torch", reason="torch is not here: make torch-venv")
BIN = ROOT / ".venv" / "bin"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="there is no tmux here"),
    pytest.mark.skipif(not (BIN / "dflashctl").exists(), reason="needs make venv"),
]


@pytest.mark.timeout(400)
def test_the_demo_optimises_the_batches_of_a_real_training_and_compares() -> None:
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "PYTHON": sys.executable}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(
        [str(DFLASH / "run-demo.sh")],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        timeout=380,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert re.findall(r"^buckets .*, (\d) buckets, (\d\d)\.", done.stdout, re.MULTILINE)[:2] == [
        ("1", "46"),
        ("6", "83"),
    ]
    assert "exit code 75 (interrupted)" in done.stdout
    room = re.search(r"/tmp/dflashctl-dflash\.\w+", done.stdout)
    assert room
    assert not Path(room[0]).exists()
