"""The pane's first process: starts the trainer, owns its pid, its terminal and its end.

Run by tmux as ``python3 supervise.py <run folder>``. It needs the standard library only,
stays small, and imports all it needs at once, so that a cleaned cache does not harm it.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import termios
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from dflashctl.agent import cgroup, process
from dflashctl.agent.process import Process
from dflashctl.agent.records import (
    RunFolder,
    read_json,
    reserve,
    write_json,
    write_reserved,
)

PR_SET_CHILD_SUBREAPER = 36
DRAIN_S = 5.0
# What the kernel killed longer ago was not our trainer.
COUNT_EVERY_S = 60.0
_WATCHED = {signal.SIGCHLD, signal.SIGHUP, signal.SIGTERM, signal.SIGINT}


def supervise(folder: RunFolder) -> None:
    """Start the trainer, wait for its end or ours, and leave ``exit.json`` behind."""
    launch = read_json(folder.launch)
    folder.launch.unlink(missing_ok=True)
    if launch is None:
        _leave(folder, {"exit_code": None, "signal": None, "error": "no launch record"})
        return
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
    _plain_terminal()
    kills = cgroup.kills()
    pid, error = _start(launch)
    try:
        _record(folder, pid, kills)
    except OSError as refused:
        # Who cannot be recorded cannot be told from a stranger later: it does not go on.
        error = f"{folder.process}: {refused.strerror}"
        _end(folder, {**launch, "signal": "KILL"}, 0.0)
        _leave(folder, {"exit_code": None, "signal": None, "error": error})
        return
    code, number, closed, kills = _wait(folder, launch, pid)
    leftover = _end_leftovers(folder, launch)
    if error:
        _say(f"\ndflashctl: cannot run {launch['command'][0]!r}: {error}\n")
    end = {"exit_code": code, "signal": number, "leftover": leftover, "closed": closed}
    # A memory kill may take the trainer, or the tmux server and us with it.
    violent = closed or (number == signal.SIGKILL and not folder.stop.exists())
    oom = cgroup.killed_since(kills) if violent else False
    _leave(folder, {**end, "oom": oom, "error": error})


def _record(folder: RunFolder, pid: int, kills: cgroup.Kills | None) -> None:
    """Who runs, and room for the record of the end: a full disk is a common one.

    Raises:
        OSError: there is no room now.
    """
    reserve(folder.exit)
    row = process.look(pid)
    me, parent = process.look(os.getpid()), process.look(os.getppid())
    write_json(
        folder.process,
        {
            "boot_id": process.boot_id(),
            "supervisor": me.process if me else None,
            "tmux": parent.process if parent else None,
            "trainer": row.process if row else None,
            "oom_kills": kills,
            "started_at": time.time(),
        },
    )


def _plain_terminal() -> None:
    """Ctrl-S or Ctrl-Z of somebody attached must not freeze the trainer: nothing resumes it."""
    with suppress(termios.error):
        settings = termios.tcgetattr(0)
        settings[0] &= ~termios.IXON
        settings[6][termios.VSUSP] = b"\0"
        termios.tcsetattr(0, termios.TCSANOW, settings)


def _start(launch: dict[str, Any]) -> tuple[int, str | None]:
    """Fork and exec the trainer as the foreground group of our terminal.

    Returns its pid, and why exec failed (the child then exits with 127 or 126).
    """
    answer, report = os.pipe()
    pid = os.fork()
    if pid == 0:
        _become(launch, report)
    os.close(report)
    with suppress(OSError):
        os.setpgid(pid, pid)
    with os.fdopen(answer, "rb") as file:
        return pid, file.read().decode() or None


def _become(launch: dict[str, Any], report: int) -> None:
    """In the child: take the terminal, become the user, become the trainer."""
    code = 126
    try:
        os.setpgid(0, 0)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
        with suppress(OSError):
            os.tcsetpgrp(0, os.getpid())
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        # Python ignores these, and what is ignored stays ignored over an exec.
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        if launch["user"] is not None:
            name, uid, gid = launch["user"]
            os.initgroups(name, gid)
            os.setgid(gid)
            os.setuid(uid)
        os.chdir(launch["cwd"])
        environment = {"TERM": os.environ.get("TERM", "screen"), **launch["env"]}
        os.execvpe(launch["command"][0], launch["command"], environment)  # noqa: S606 -- words, no shell  # nosec B606
    except OSError as error:
        code = 127 if isinstance(error, FileNotFoundError) else 126
        os.write(report, (error.strerror or str(error)).encode())
    finally:
        os._exit(code)


def _wait(
    folder: RunFolder, launch: dict[str, Any], pid: int
) -> tuple[int | None, int | None, bool, cgroup.Kills | None]:
    """Wait for the trainer's end; when our session is closed, end the trainer.

    Returns its exit code or the signal that ended it, whether we were closed, and how many
    memory kills there had been shortly before.
    """
    closed, kills = False, cgroup.kills()
    while True:
        ended = _reap()
        caught = None if pid in ended else signal.sigtimedwait(_WATCHED, COUNT_EVERY_S)
        if caught and caught.si_signo in (signal.SIGHUP, signal.SIGTERM) and not closed:
            closed = True
            if not folder.stop.exists():
                with suppress(OSError):
                    write_json(folder.stop, {"by": "session closed", "at": time.time()})
            ended = _end(folder, launch, launch["grace_s"])
        if pid in ended:
            code = os.waitstatus_to_exitcode(ended[pid])
            return (None, -code, closed, kills) if code < 0 else (code, None, closed, kills)
        if caught is None:
            kills = cgroup.kills()


def _reap() -> dict[int, int]:
    """Collect every child that ended, adopted grandchildren too: pid to wait status."""
    ended: dict[int, int] = {}
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            ended[pid] = status
    return ended


def _end(folder: RunFolder, launch: dict[str, Any], grace_s: float) -> dict[int, int]:
    """Take the run down the stop ladder from here."""
    ended: dict[int, int] = {}
    me = os.getpid()

    def find(rows: process.Table) -> set[Process]:
        ended.update(_reap())
        ours = process.tree(rows, (me,)) | process.marked(rows, folder.id)
        return {p for p in ours if p.pid != me}

    number = getattr(signal, f"SIG{launch['signal']}")
    process.end(find, process.foreground, number, grace_s, lambda _: None)
    ended.update(_reap())
    return ended


def _end_leftovers(folder: RunFolder, launch: dict[str, Any]) -> int:
    """The trainer is gone: nothing of its tree may stay and hold a GPU.

    Whoever asked for the stop has promised the grace period to the whole tree; after an
    end of the trainer's own making there is nothing to wait for.
    """
    me = os.getpid()
    rows = process.table()
    left = {p for p in process.tree(rows, (me,)) | process.marked(rows, folder.id) if p.pid != me}
    if left:
        deadline = time.monotonic() + (launch["grace_s"] if folder.stop.exists() else 0)
        while time.monotonic() < deadline and any(process.is_alive(p) for p in left):
            _reap()
            time.sleep(process.POLL_S)
        _end(folder, {**launch, "signal": "TERM"}, process.TERM_GRACE_S)
    return len(left)


def _leave(folder: RunFolder, end: dict[str, Any]) -> None:
    """Say how it ended, let the collector catch up, then make it a record.

    tmux drops what it has not yet piped when the pane's process goes, so the last line
    (often the traceback's) would be lost; hence the wait for our own line in the log.
    """
    if end["signal"] is not None:
        how = f"signal {process.signal_name(end['signal'])}"
    else:
        how = f"exit {end['exit_code']}"
    mark = f"[dflashctl] {folder.id} ended: {how}"
    if _say(f"\n{mark}\n"):
        deadline = time.monotonic() + DRAIN_S
        while not _is_last(folder.log, mark) and time.monotonic() < deadline:
            time.sleep(0.02)
    with suppress(OSError):
        write_reserved(folder.exit, {**end, "ended_at": time.time()})


def _say(text: str) -> bool:
    """Print to the pane; False when the terminal is gone."""
    try:
        os.set_blocking(1, False)
        # A frozen terminal must not keep us from the record.
        if not select.select([], [1], [], DRAIN_S)[1]:
            return False
        return os.write(1, text.encode()) > 0
    except OSError:
        return False


def _is_last(log: Path, mark: str) -> bool:
    with suppress(OSError), log.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 4096))
        return mark.encode() in file.read()
    return False


if __name__ == "__main__":
    supervise(RunFolder(path=Path(sys.argv[1])))
