"""Identity, trees and the stop ladder, on real processes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from dflashctl.agent import process
from dflashctl.agent.process import Process

from .conftest import until


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[bytes]]]:
    children: list[subprocess.Popen[bytes]] = []
    yield children
    for child in children:
        with suppress(ProcessLookupError):
            child.kill()
        child.wait()


def bash(started: list[subprocess.Popen[bytes]], script: str, **more: object) -> Process:
    child = subprocess.Popen(("bash", "-c", script), start_new_session=True, **more)  # type: ignore[call-overload] # options by name
    started.append(child)
    row = process.look(child.pid)
    assert row is not None
    return row.process


def run_ladder(root: Process, grace: float = 0.5) -> tuple[str, set[Process], list[str]]:
    notes: list[str] = []
    rung, alive = process.end(
        lambda rows: process.tree(rows, [root.pid]),
        lambda _, members: {p for p in members if p == root},
        signal.SIGINT,
        grace,
        notes.append,
    )
    return rung, alive, notes


def test_a_process_is_found_under_its_pid_and_gone_after_its_end(started) -> None:
    root = bash(started, "exec sleep 60")
    assert process.is_alive(root)
    process.send(root, signal.SIGKILL)
    until(lambda: not process.is_alive(root))


def test_a_zombie_counts_as_gone(started) -> None:
    root = bash(started, "sleep 0.2")
    until(lambda: process.look(root.pid) is None)
    assert Path(f"/proc/{root.pid}").exists(), "nobody has collected it: it is a zombie still"


def test_a_process_whose_main_thread_is_over_lives_as_long_as_another_thread(started) -> None:
    code = (
        "import ctypes, threading, time\n"
        "threading.Thread(target=time.sleep, args=(60,)).start()\n"
        "ctypes.CDLL(None).syscall(60, 0)\n"  # exit of this thread alone, on x86_64
    )
    if os.uname().machine != "x86_64":
        pytest.skip("the number of the system call is another one here")
    child = subprocess.Popen((sys.executable, "-c", code))
    started.append(child)
    until(lambda: Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z")
    row = process.look(child.pid)
    assert row is not None
    assert row.ended
    assert process.environment(child.pid) == {}, "and asking for it takes no time"


def test_a_stopped_process_is_woken_for_its_signal(started) -> None:
    root = bash(started, "trap 'exit 0' INT; while :; do sleep 0.1; done")
    time.sleep(0.2)
    process.send(root, signal.SIGSTOP)
    assert run_ladder(root, grace=3)[:2] == ("signal", set())


def test_a_stranger_under_a_recorded_pid_is_never_signalled(started) -> None:
    root = bash(started, "exec sleep 60")
    process.send(Process(root.pid, root.start - 1), signal.SIGKILL)
    time.sleep(0.1)
    assert process.is_alive(root)


@pytest.mark.parametrize("pid", [1, 0, -1, -5])
def test_no_signal_ever_goes_to_everybody_or_to_the_init(pid: int) -> None:
    with pytest.raises(ValueError, match="refusing"):
        process.send(Process(pid, 0), signal.SIGCONT)


def test_a_name_with_brackets_and_blanks_does_not_confuse_the_table(started, tmp_path) -> None:
    odd = tmp_path / "a) S 1 (b"
    odd.symlink_to("/bin/sleep")
    child = subprocess.Popen((str(odd), "60"))
    started.append(child)
    until(lambda: (row := process.look(child.pid)) is not None and row.name == "a) S 1 (b")
    row = process.look(child.pid)
    assert row is not None
    assert row.parent == os.getpid()


def test_the_tree_holds_children_that_began_a_session_of_their_own(started) -> None:
    root = bash(started, "setsid sleep 61 & sleep 62 & wait")
    until(lambda: len(process.tree(process.table(), [root.pid])) == 3)


def test_the_marker_finds_a_process_wherever_it_went(started) -> None:
    away = bash(started, "exec sleep 60", env={**os.environ, process.RUN_MARKER: "run-1"})
    other = bash(started, "exec sleep 60", env={**os.environ, process.RUN_MARKER: "run-10"})
    until(lambda: process.marked(process.table(), "run-1") == {away})
    assert other not in process.marked(process.table(), "run-1")


def test_a_process_in_the_middle_of_an_exec_does_not_seem_to_lack_its_environment(
    started, tmp_path: Path
) -> None:
    loop = tmp_path / "loop.sh"
    loop.write_text('[ "$1" -ge 100000 ] || exec sh "$0" $(($1 + 1))\n')
    marker = {**os.environ, process.RUN_MARKER: "run-exec"}
    child = subprocess.Popen(("sh", str(loop), "0"), env=marker)
    started.append(child)
    deadline, bare = time.monotonic() + 2, 0
    while time.monotonic() < deadline:
        bare += not Path(f"/proc/{child.pid}/environ").read_bytes()
        assert process.environment(child.pid).get(process.RUN_MARKER) == "run-exec"
    assert bare, "it was never met in that state: the test shows nothing"


def test_a_process_that_heeds_the_signal_ends_at_the_first_rung(started) -> None:
    root = bash(started, "exec sleep 60")
    assert run_ladder(root)[:2] == ("signal", set())


def test_a_process_that_ignores_the_signal_gets_term_after_the_grace(started) -> None:
    root = bash(started, "trap '' INT; while :; do sleep 0.1; done")
    time.sleep(0.2)
    begun = time.monotonic()
    rung, alive, notes = run_ladder(root, grace=0.5)
    assert (rung, alive) == ("TERM", set())
    assert time.monotonic() - begun >= 0.5
    assert "TERM" in notes[0]


def test_a_process_that_ignores_everything_gets_killed(started, monkeypatch) -> None:
    monkeypatch.setattr(process, "TERM_GRACE_S", 0.3)
    root = bash(started, "trap '' INT TERM; while :; do sleep 0.1; done")
    time.sleep(0.2)
    assert run_ladder(root, grace=0.2)[:2] == ("KILL", set())


def test_a_child_that_leaves_its_dying_parent_is_ended_all_the_same(started) -> None:
    code = (
        "import os, signal, subprocess, time\n"
        "p = subprocess.Popen(['setsid', 'sh', '-c', \"trap '' INT; sleep 63; sleep 64\"])\n"
        "time.sleep(60)\n"
    )
    child = subprocess.Popen((sys.executable, "-c", code))
    started.append(child)
    until(lambda: len(process.tree(process.table(), [child.pid])) == 3)
    tree = process.tree(process.table(), [child.pid])
    row = process.look(child.pid)
    assert row is not None
    rung, alive, _ = run_ladder(row.process)
    assert alive == set()
    assert rung == "TERM"
    assert not any(process.is_alive(p) for p in tree)


def test_nothing_to_end_is_said_so(started) -> None:
    root = bash(started, "sleep 0.2")
    until(lambda: not process.is_alive(root))
    assert run_ladder(root)[:2] == ("gone", set())


def test_the_boot_id_is_the_same_from_one_moment_to_the_next() -> None:
    assert process.boot_id() == process.boot_id()
