"""The bucket optimiser: a process of its own beside the training, at a low priority.

It is ``python -m dflashctl.buckets`` under the interpreter that the playbook names for the
dataset, with this very agent's copy of the package. It answers in lines of JSON: an object
with ``progress``, and at its end one with ``result`` or ``error``.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from dflashctl.agent import dataset, launch
from dflashctl.agent.failures import AgentError
from dflashctl.agent.optimizing import (
    Cancel,
    Cancelled,
    Detach,
    Detached,
    Fetch,
    Optimize,
    Optimized,
    Working,
)
from dflashctl.agent.protocol import Event
from dflashctl.agent.records import StateFolder, read_json, write_json
from dflashctl.agent.seen import OptimizerSeen
from dflashctl.agent.session import Tmux

POLL_S = 0.1
APPEAR_S = 15.0
END_S = 10.0
PIECE = 1 << 16
SAID = 2000
_KILLED = {-signal.SIGHUP, -signal.SIGKILL, -signal.SIGTERM}
_HERE = Path(__file__).parents[2]

Emit = Callable[[Event], None]
HungUp = Callable[[], bool]


def answer(
    request: Optimize | Detach | Fetch | Cancel, state: StateFolder, emit: Emit, hung_up: HungUp
) -> Optimized | Detached | Cancelled:
    """Run it beside us, or leave it alone in a session of its own; ask such a one, or end it.

    Raises:
        AgentError: as the four of them.
    """
    match request:
        case Optimize():
            return attached(request, emit, hung_up)
        case Detach():
            return detached(request, state)
        case Fetch():
            return fetched(request, state, emit, hung_up)
        case Cancel():
            return cancelled(request, state)


def attached(request: Optimize, emit: Emit, hung_up: HungUp) -> Optimized:
    """Run it for as long as somebody listens; when nobody does any more, it is ended.

    Raises:
        AgentError: ``no_python``, ``job_died``, ``job_killed``, or what the process itself
            complains of.
    """
    words = _words(request.python)
    before = dataset.fingerprint(request.dataset)
    with tempfile.TemporaryFile() as said:
        child = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            cwd=_HERE,
            env={**os.environ, "PYTHONPATH": str(_HERE)},
            start_new_session=True,
        )
        assert child.stdin is not None, "PIPE was asked for"
        assert child.stdout is not None, "PIPE was asked for"
        try:
            # Its input stays open: should we be killed, its end is what ends the process.
            with suppress(BrokenPipeError):
                child.stdin.write(json.dumps({"task": request.task}).encode() + b"\n")
                child.stdin.flush()
            result = _follow(_piped(child.stdout, hung_up), emit)
            code = child.wait() if result is None else None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            for stream in (child.stdin, child.stdout):
                with suppress(OSError):
                    stream.close()
        if result is None:
            if code in _KILLED:
                raise AgentError("job_killed")
            said.seek(0)
            raise _died(said.read(), code)
    return Optimized(result=result, dataset=before, task=request.task)


def detached(request: Detach, state: StateFolder) -> Detached:
    """Run it in a tmux session of its own, where it needs nobody.

    Raises:
        AgentError: ``optimizing`` when one is at work already; ``no_python``,
            ``start_failed``, ``job_died``, or what the process complains of at once.
    """
    words = _words(request.python)
    before = dataset.fingerprint(request.dataset)
    folder, tmux = state.optimizer(request.job), Tmux(request.tmux_socket)
    if tmux.session(request.session) or _at_work(folder):
        raise AgentError("optimizing", session=request.session)
    state.create()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    about = {
        "task": request.task,
        "dataset": before,
        "session": request.session,
        "started_at": time.time(),
    }
    write_json(folder / "task.json", about)
    for name in ("lines", "log"):
        (folder / name).unlink(missing_ok=True)
    (folder / "lines").touch(mode=0o600)
    files = (str(folder / "task.json"), str(folder / "lines"))
    pipe = shlex.join(launch.own_words("collect", folder))
    tmux.start(
        request.session,
        ("env", "-C", str(_HERE), f"PYTHONPATH={_HERE}", *words, *files),
        pipe,
    )
    deadline = time.monotonic() + APPEAR_S
    while not (folder / "lines").stat().st_size:
        over = time.monotonic() > deadline or not tmux.session(request.session)
        # A short one says all it has to say and is gone between two looks.
        if over and not (folder / "lines").stat().st_size:
            raise _died((folder / "log").read_bytes() if (folder / "log").exists() else b"", None)
        time.sleep(POLL_S)
    with (folder / "lines").open("rb") as file:  # without numpy, its first line says so
        _follow(iter(file.readlines()), lambda _: None)
    return Detached(session=request.session)


def fetched(request: Fetch, state: StateFolder, emit: Emit, hung_up: HungUp) -> Optimized:
    """The result of a detached one, which is waited for; it goes on if we do not.

    Raises:
        AgentError: ``no_job``, ``job_died``, ``job_killed``, or what the process itself
            complained of.
    """
    folder = state.optimizer(request.job)
    about = read_json(folder / "task.json")
    if about is None:
        raise AgentError("no_job", job=request.job)
    with (folder / "lines").open("rb") as file:
        result = _follow(_written(file, folder, hung_up), emit)
    if result is None:
        said = (folder / "log").read_bytes() if (folder / "log").exists() else b""
        raise _died(said, None) if b"Traceback" in said else AgentError("job_killed")
    return Optimized(result=result, dataset=about["dataset"], task=about["task"])


def cancelled(request: Cancel, state: StateFolder) -> Cancelled:
    """End a detached one that is at work. What it was asked is forgotten, too.

    Raises:
        AgentError: ``no_job`` when none is at work; ``optimizing`` when it does not end.
    """
    folder, tmux = state.optimizer(request.job), Tmux(request.tmux_socket)
    about = read_json(folder / "task.json")
    if about is None or not (_at_work(folder) or tmux.session(about["session"])):
        raise AgentError("no_job", job=request.job)
    tmux.close(about["session"])
    deadline = time.monotonic() + END_S
    while _at_work(folder):
        if time.monotonic() > deadline:
            raise AgentError("optimizing", session=about["session"])
        time.sleep(POLL_S)
    (folder / "task.json").unlink(missing_ok=True)
    return Cancelled(session=about["session"])


def see(job: str, state: StateFolder) -> OptimizerSeen | None:
    """How a detached one stands; None when there never was one."""
    folder = state.optimizer(job)
    about = read_json(folder / "task.json")
    if about is None:
        return None
    working, last = _at_work(folder), {}
    with suppress(OSError, ValueError):
        last = json.loads((folder / "lines").read_bytes().splitlines()[-1])
    progress, error = last.get("progress") or {}, last.get("error") or {}
    ended = None
    with suppress(OSError):
        ended = None if working else (folder / "lines").stat().st_mtime
    return OptimizerSeen(
        state="working" if working else "done" if "result" in last else "failed",
        session=str(about["session"]),
        started_at=float(about["started_at"]),
        ended_at=ended,
        stage=progress.get("stage"),
        share=progress.get("share"),
        error=error.get("code"),
    )


def _words(python: str) -> tuple[str, ...]:
    """A low priority for the processor, and where possible the lowest for the disks.

    Not the lowest for the processor: where every core is busy it would get a sixtieth of one,
    and a comparison of a minute would take an hour. So it gets a tenth.
    """
    found = shutil.which(python)
    if found is None:
        raise AgentError("no_python", python=python)
    idle = ("ionice", "-t", "-c", "3") if shutil.which("ionice") else ()
    return ("nice", "-n", "10", *idle, found, "-m", "dflashctl.buckets")


def _at_work(folder: Path) -> bool:
    """It holds a lock on its lines for as long as it lives, however it ends."""
    with suppress(FileNotFoundError), (folder / "lines").open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _follow(lines: Iterator[bytes], emit: Emit) -> dict[str, Any] | None:
    """Hand its progress on until it has a result; None when it ends without one."""
    for line in lines:
        try:
            said = json.loads(line)
        except ValueError:  # somebody's site package prints
            continue
        match said:
            case {"progress": {"stage": str(stage), "share": int() | float() as share}}:
                emit(Working(stage=stage, share=float(share)))
            case {"result": dict(result)}:
                return result
            case {"error": {"code": str(code), "detail": dict(detail)}}:
                raise AgentError(code, **detail)
            case _:
                pass
    return None


def _piped(stdout: IO[bytes], hung_up: HungUp) -> Iterator[bytes]:
    buffer = b""
    while True:
        if hung_up():
            raise AgentError("unheard")
        if not select.select([stdout], [], [], POLL_S)[0]:
            continue
        piece = os.read(stdout.fileno(), PIECE)
        if not piece:
            return
        *lines, buffer = (buffer + piece).split(b"\n")
        yield from lines


def _written(file: IO[bytes], folder: Path, hung_up: HungUp) -> Iterator[bytes]:
    buffer = b""
    while not hung_up():
        working = _at_work(folder)  # before the read: what it wrote last is not missed
        piece = file.read()
        *lines, buffer = (buffer + piece).split(b"\n")
        yield from lines
        if not working and not piece:
            return
        time.sleep(0 if piece else POLL_S)
    raise AgentError("unheard")


def _died(said: bytes, code: int | None) -> AgentError:
    text = said[-SAID:].decode("utf-8", "replace").strip()
    return AgentError("job_died", exit_code=code, said=text)
