"""What it costs the machines: memory here, memory and processor time over there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.bench.speed.parts.reach import changed, status, unchanged
from tests.bench.speed.timing import in_turns

if TYPE_CHECKING:
    from tests.bench.speed.lab import Lab
    from tests.bench.speed.table import Book

IDLE_S = 60
_PYTHON = "/opt/measured/python3"
_FIGURES = "/opt/measured/figures"
# Runs an agent as python3 would, and notes what it and its children used.
_WRAPPER = f"""\
#!/usr/bin/python3 -IS
import json, os, sys
child = os.posix_spawn("/usr/bin/python3", ["/usr/bin/python3", *sys.argv[1:]], os.environ)
_, status, used = os.wait4(child, 0)
if "-c" in sys.argv:
    with open("{_FIGURES}", "a") as figures:
        took = used.ru_utime + used.ru_stime
        print(json.dumps({{"cpu_s": took, "peak_kib": used.ru_maxrss}}), file=figures)
sys.exit(os.waitstatus_to_exitcode(status) & 255)
"""
# Memory at its highest and processor time so far of the processes that keep a run, twice.
_WATCH = """\
import json, os, sys, time
def keepers():
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = open(f"/proc/{pid}/cmdline").read().split("\\0")
            if not words[0].rpartition("/")[2].startswith("python"):
                continue
            parts = ("supervise", "collect")
            kind = [one for one in parts if any(word.endswith(f"/{one}.py") for word in words)]
            if kind:
                status = open(f"/proc/{pid}/status").read()
                times = open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()
                peak = int(status.partition("VmHWM:")[2].split()[0])
                found[pid] = (kind[0], peak, int(times[11]) + int(times[12]))
        except (OSError, IndexError, ValueError):
            pass
    return found
first = keepers()
time.sleep(float(sys.argv[1]))
last = keepers()
ticks = os.sysconf("SC_CLK_TCK")
print(json.dumps([
    {"kind": kind, "peak_kib": peak, "cpu_s": (used - first[pid][2]) / ticks}
    for pid, (kind, peak, used) in last.items() if pid in first
]))
"""


def measure(lab: Lab, book: Book, runs: int, *, ours_only: bool) -> None:
    """Rows of memory and processor time."""
    found = in_turns({"status": status(lab)}, (0.0,), runs)
    book.keep("memory here", found)
    peak = found["status"].most(lambda one: one.peak_kib) / 1000
    book.add("status: peak memory here", peak, "MB", most=90)
    _agent(lab, book, runs)
    _keepers(lab, book)


def _agent(lab: Lab, book: Book, runs: int) -> None:
    """By an interpreter that notes what the agent used."""
    lab.container.run(("mkdir", "-p", "/opt/measured")).check_returncode()
    lab.container.put(_PYTHON, _WRAPPER.encode(), 0o755)
    lab.write_inventory(python=_PYTHON)
    for name, once in (
        ("status", status(lab)),
        ("deploy, unchanged", unchanged(lab)),
        ("deploy, changed", changed(lab)),
    ):
        lab.container.put(_FIGURES, b"")
        for _ in range(runs):
            once(0.0)
        told = lab.container.run(("cat", _FIGURES)).stdout.splitlines()
        used = [json.loads(line) for line in told]
        cpu = sorted(one["cpu_s"] for one in used)[len(used) // 2]
        peak = max(one["peak_kib"] for one in used) / 1000
        book.add(f"{name}: the agent's peak memory", peak, "MB", most=30)
        book.add(f"{name}: the agent's processor time", 1000 * cpu, "ms")
    lab.write_inventory()


def _keepers(lab: Lab, book: Book) -> None:
    """Supervisor and collector of a run that prints nothing."""
    unchanged(lab)(0.0)
    told = lab.container.run(("python3", "-c", _WATCH, str(IDLE_S)), timeout_s=IDLE_S + 60)
    told.check_returncode()
    keepers = json.loads(told.stdout)
    names = sorted(one["kind"] for one in keepers)
    assert names == ["collect", "supervise"], f"the run is kept by {names}"
    peak = sum(one["peak_kib"] for one in keepers) / 1000
    each = ", ".join(f"{one['kind']} {one['peak_kib'] / 1000:.0f}" for one in keepers)
    book.add("supervisor + collector: peak memory", peak, "MB", most=30, beside=each)
    idle = 100 * sum(one["cpu_s"] for one in keepers) / IDLE_S
    book.add("supervisor + collector: idle processor", idle, "%", most=0.1)
