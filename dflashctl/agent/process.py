"""Processes as ``/proc`` shows them, and how to end them: identity, trees, the stop ladder.

A process is its pid together with its start time, so that a number that was given to
somebody else meanwhile is never signalled. A zombie counts as gone.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Literal, NamedTuple

# Stands in the environment of a run's processes; its value is the run id.
RUN_MARKER = "DFLASHCTL_RUN_ID"
# The rung of the stop ladder that ended a run.
Rung = Literal["signal", "TERM", "KILL", "gone"]
TERM_GRACE_S = 10.0
KILL_GRACE_S = 10.0
POLL_S = 0.05
# No exec takes longer, however busy the machine is.
EXEC_S = 2.0
# The command line is there a little before the environment: once is no proof.
BARE = 10
PF_KTHREAD = 0x00200000  # of the kernel's include/linux/sched.h


class Process(NamedTuple):
    """A process for as long as it lives: pid, and start in clock ticks since the boot."""

    pid: int
    start: int


class Row(NamedTuple):
    """One line of the process table.

    ``foreground`` is its terminal's foreground group; ``kernel``: a thread of the kernel's;
    ``ended``: its main thread is over, and others of it run.
    """

    process: Process
    parent: int
    group: int
    foreground: int
    name: str
    ended: bool
    kernel: bool


Table = dict[int, Row]


def boot_id() -> str:
    """Changes with every boot of the machine and with every start of a container."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        kernel = file.read().strip()
    # A container shares its host's boot id; its first process tells its own starts apart.
    first = look(1)
    return f"{kernel}:{first.process.start if first else 0}"


def look(pid: int) -> Row | None:
    """The process by that pid now; None when there is none, or only a zombie."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="surrogateescape") as file:
            text = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name stands in brackets and may itself hold brackets and blanks.
    name, _, rest = text.partition("(")[2].rpartition(")")
    part = rest.split()
    # A leader that has ended stays a zombie as long as another thread of it runs.
    if part[0] in "Xx" or (part[0] == "Z" and int(part[17]) <= 1):
        return None
    return Row(
        process=Process(pid, int(part[19])),
        parent=int(part[1]),
        group=int(part[2]),
        foreground=int(part[5]),
        name=name,
        ended=part[0] == "Z",
        kernel=bool(int(part[6]) & PF_KTHREAD),
    )


def table() -> Table:
    """All living processes."""
    rows = (look(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return {row.process.pid: row for row in rows if row is not None}


def is_alive(process: Process) -> bool:
    """Whether this very process lives (and not another one under its pid)."""
    row = look(process.pid)
    return row is not None and row.process == process


def tree(rows: Table, roots: Iterable[int]) -> set[Process]:
    """The processes by these pids with all their descendants."""
    children: dict[int, list[int]] = {}
    for row in rows.values():
        children.setdefault(row.parent, []).append(row.process.pid)
    found: set[Process] = set()
    todo = [pid for pid in roots if pid in rows]
    while todo:
        row = rows[todo.pop()]
        if row.process not in found:
            found.add(row.process)
            todo += children.get(row.process.pid, ())
    return found


def environment(pid: int) -> dict[str, str]:
    """The environment that the process was started with; empty when it is not ours to see.

    In the middle of an exec environment and command line read as empty for a moment. A
    process that really has no environment still has its command line.
    """
    data, bare = b"", 0
    deadline = time.monotonic() + EXEC_S
    try:
        while bare < BARE and time.monotonic() < deadline:
            data = _read(f"/proc/{pid}/environ")
            row = look(pid)
            if data or row is None or row.ended:
                break
            bare = bare + 1 if _read(f"/proc/{pid}/cmdline") else 0
            time.sleep(0.002)
    except OSError:
        return {}
    pairs = (os.fsdecode(entry).partition("=") for entry in data.split(b"\0") if entry)
    return {name: value for name, _, value in pairs}


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def marked(rows: Table, run_id: str) -> set[Process]:
    """The processes that carry this run's marker in their own environment."""
    return {
        row.process
        for pid, row in rows.items()
        if not row.kernel and environment(pid).get(RUN_MARKER) == run_id
    }


def send(process: Process, number: int) -> None:
    """Signal this very process; nothing happens when it is gone.

    Raises:
        ValueError: for a pid of 1 or less, which would reach everything or the init.
    """
    if process.pid <= 1:
        raise ValueError(f"refusing to signal pid {process.pid}")
    # What we may not signal stays on the list of the living, and is told by its pid.
    with suppress(ProcessLookupError, PermissionError):
        handle = os.pidfd_open(process.pid)
        try:
            if is_alive(process):
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)


def signal_name(number: int) -> str:
    """A signal as people write it: ``KILL``; a nameless (real-time) one by its number."""
    with suppress(ValueError):
        return signal.Signals(number).name.removeprefix("SIG")
    return str(number)


def foreground(rows: Table, members: Iterable[Process]) -> set[Process]:
    """Those of ``members`` that a Ctrl-C on their terminal would reach."""
    found = set()
    for process in members:
        row = rows.get(process.pid)
        if row is not None and row.group == row.foreground:
            found.add(process)
    return found


def end(
    find: Callable[[Table], set[Process]],
    first: Callable[[Table, set[Process]], set[Process]],
    number: int,
    grace_s: float,
    note: Callable[[str], None],
    spared: frozenset[Process] = frozenset(),
) -> tuple[Rung, set[Process]]:
    """End all processes that ``find`` names, from the mildest means to the hardest.

    The signal goes to those that ``first`` picks; after the grace period TERM goes to
    all, then KILL. Whoever was found once stays on the list, also when it leaves its
    parent meanwhile, and children that appear on the way join it (``spared`` never do).

    Returns:
        The rung that ended it ("gone" when nothing was there), and who lives still.
    """
    known: set[Process] = set()

    def living() -> set[Process]:
        rows = table()
        known.update(find(rows))
        alive = {p for p in known if p.pid in rows and rows[p.pid].process == p}
        known.update(tree(rows, [p.pid for p in alive]) - spared)
        return known.intersection(row.process for row in rows.values())

    alive = living() or _wait(living, 0)
    if not alive:
        return "gone", set()
    rows = table()
    for process in first(rows, alive) or alive:
        send(process, number)
        send(process, signal.SIGCONT)  # what Ctrl-Z stopped would never see the signal
    alive = _wait(living, grace_s)
    rung: Rung = "signal"
    for rung_name, rung_number, patience in (
        ("TERM", signal.SIGTERM, TERM_GRACE_S),
        ("KILL", signal.SIGKILL, KILL_GRACE_S),
    ):
        if not alive:
            break
        rung = "TERM" if rung_name == "TERM" else "KILL"
        note(f"{len(alive)} still alive, sending {rung_name}")
        for process in alive:
            send(process, rung_number)
            send(process, signal.SIGCONT)
        alive = _wait(living, patience)
    return rung, alive


def _wait(living: Callable[[], set[Process]], seconds: float) -> set[Process]:
    """Wait until nobody lives, at most so long; says who does.

    Nobody in sight counts when it is seen twice: a process that is just starting may show
    no environment, and so no marker, for a moment.
    """
    deadline = time.monotonic() + seconds
    while (alive := living()) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    if not alive:
        time.sleep(POLL_S)
        alive = living()
    return alive
