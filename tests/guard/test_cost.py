"""What a command costs, as far as no busy machine can blur it.

`make bench` measures the same beside the time it takes. The counts are exact but for
accidents, which only add: the least of some runs is taken. When these tests were written it
was 4, 5 and 9 round trips; the limits leave room for one or two, not for a step more.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.bench.speed.lab import SCRIPT_BYTES, at_the_end_of_a_line
from tests.bench.speed.parts import reach, starts
from tests.lab.machine import end_processes

if TYPE_CHECKING:
    from tests.bench.speed.lab import Lab as Line
    from tests.bench.speed.timing import Sample
    from tests.conftest import Lab

pytestmark = pytest.mark.guard

# Long enough for what is sent at once to arrive as one.
DELAY_S = 0.08
RUNS = 2
# They cost a tenth of a second and more each, and no start needs them.
HEAVY = {"fabric", "libtmux", "numpy", "paramiko", "pydantic", "rich"}


@pytest.fixture(scope="module")
def line(lab: Lab) -> Iterator[Line]:
    """A job that runs in the lab's container, and a line to its host."""
    folder = Path(tempfile.mkdtemp(prefix="dflash-guard-", dir="/tmp"))
    with at_the_end_of_a_line(lab.container, lab.host, folder) as line:
        yield line
    shutil.rmtree(folder)
    end_processes(lab.container, "", "python3")
    for left in ("/root/.local/state/dflashctl", "/root/checkpoints", "/root/train.sh"):
        lab.container.remove_folder(left)


@pytest.mark.parametrize(
    ("command", "round_trips", "pct", "sent"),
    [
        pytest.param(reach.status, 6, 1, 8_000, id="status"),
        pytest.param(reach.unchanged, 7, 1, 10_000, id="deploy, nothing changed"),
        pytest.param(reach.changed, 11, 2, SCRIPT_BYTES + 24_000, id="deploy, a file changed"),
    ],
)
def test_a_command_costs_no_more_than(
    line: Line,
    command: Callable[[Line], Callable[[float], Sample]],
    round_trips: int,
    pct: int,
    sent: int,
):
    once = command(line)
    once(0.0)  # the agent is there by then
    runs = [once(DELAY_S) for _ in range(RUNS)]
    assert min(run.round_trips for run in runs) <= round_trips
    assert min(run.sent for run in runs) <= sent
    assert {run.pct for run in runs} <= set(range(1, pct + 1))


@pytest.mark.parametrize(
    ("words", "environ"),
    [(("--help",), {}), (("--version",), {}), (("status", "-t", ""), starts.COMPLETE)],
    ids=["--help", "--version", "completion"],
)
def test_a_start_imports_little(words: tuple[str, ...], environ: dict[str, str], work: Path):
    inventory = work / "hosts.yml"
    inventory.write_text("version: 1\nhosts:\n  kpro6: {address: 192.0.2.6}\n")
    told = {**os.environ, "DFLASHCTL_INVENTORY": str(inventory), **environ}
    modules = starts.imported(words, told)
    assert not {name.partition(".")[0] for name in modules} & HEAVY
    assert len(modules) <= 200
