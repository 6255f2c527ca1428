"""A run's output: its last lines, and on with it until the run is over."""

from __future__ import annotations

import codecs
import os
import time
from collections.abc import Callable
from typing import BinaryIO

from dflashctl.agent import process, runs
from dflashctl.agent.failures import AgentError
from dflashctl.agent.protocol import LogEnd, Logs
from dflashctl.agent.records import RunFolder, StateFolder
from dflashctl.agent.seen import State

PIECE = 1 << 16
POLL_S = 0.1
STATE_EVERY_S = 1.0


def stream(
    request: Logs, state: StateFolder, send: Callable[[str], None], hung_up: Callable[[], bool]
) -> LogEnd:
    """Send the last lines, then what comes after them while the run lives.

    Raises:
        AgentError: ``no_run`` when there is no such run, with the runs that there are.
    """
    folder = _folder(request, state)
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    status = _state(folder)
    if folder.log.exists():
        with folder.log.open("rb") as file:
            file.seek(_start_of_last(file, request.lines))
            checked = 0.0
            while True:
                while piece := file.read(PIECE):
                    send(decode(piece))
                if not request.follow or status not in ("RUNNING", "STARTING", "ORPHANED"):
                    break
                if hung_up():
                    break
                time.sleep(POLL_S)
                if time.monotonic() - checked > STATE_EVERY_S or folder.exit.exists():
                    checked, status = time.monotonic(), _state(folder)
    return LogEnd(run_id=folder.id, state=status)


def _folder(request: Logs, state: StateFolder) -> RunFolder:
    folder = (
        state.run(request.job, request.run_id) if request.run_id else state.current(request.job)
    )
    if folder is None or not folder.run.exists() or os.sep in (request.run_id or ""):
        known = sorted(path.name for path in state.job(request.job).glob("runs/*"))
        raise AgentError("no_run", run_id=request.run_id or "", known=known[-10:])
    return folder


def _state(folder: RunFolder) -> State:
    run = runs.see(folder, runs.alive(folder, process.table()), time.time())
    return run.state if run else "NONE"


def _start_of_last(file: BinaryIO, lines: int) -> int:
    """Where the last ``lines`` lines begin, read backwards in pieces."""
    position = size = file.seek(0, os.SEEK_END)
    # The line end that closes the last line does not begin another one.
    wanted = lines + 1
    while position > 0:
        step = min(PIECE, position)
        position -= step
        file.seek(position)
        piece = file.read(step)
        if position + step == size and not piece.endswith(b"\n"):
            wanted -= 1
        count = piece.count(b"\n")
        if count >= wanted:
            at = len(piece)
            for _ in range(wanted):
                at = piece.rindex(b"\n", 0, at)
            return position + at + 1
        wanted -= count
    return 0
