"""What nobody expects of the operator's own machine: one message, an exit code, no traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

INVENTORY = "version: 1\nhosts: {here: {connection: local}}\n"


def shell(folder: Path, script: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """A line of shell in which ``$D`` is the program."""
    (folder / "inventory.yml").write_text(INVENTORY)
    return subprocess.run(
        ("sh", "-c", script),
        env={
            **os.environ, "D": f"{sys.executable} -m dflashctl",
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "DFLASHCTL_INVENTORY": str(folder / "inventory.yml"), **environ,
        },
        cwd=folder, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("$D inventory show > /dev/full", 2),
        ("$D inventory show --json > /dev/full", 2),
        ("$D -h > /dev/full", 2),
        ("$D inventory show >&-", 0),
        ("$D inventory show <&- >&- 2>&-", 0),
        ("$D status -t nobody 2>&-", 2),
        ("$D inventory show 2>/dev/full", 0),
        ("$D inventory show | true", 0),
        ("mkdir gone; cd gone; rmdir ../gone; $D inventory show", 0),
        ("mkdir gone; cd gone; rmdir ../gone; unset DFLASHCTL_INVENTORY; $D status", 2),
        ("mkfifo pipe; $D -i pipe inventory show", 2),
        ("$D -i /dev/zero inventory show", 2),
        ("unset HOME; $D inventory show", 0),
        ("HOME=/nonexistent XDG_CACHE_HOME=/proc/none $D inventory show", 0),
        ("LC_ALL=C TERM=dumb COLUMNS=0 $D inventory show", 0),
        ("ulimit -n 16; $D inventory show", 0),
    ],
)
def test_it_ends_in_words_and_an_exit_code(tmp_path: Path, script: str, code: int):
    done = shell(tmp_path, script)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    assert "fault of dflashctl" not in done.stderr
