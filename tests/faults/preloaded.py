"""Runs dflashctl many times without loading it each time: every run is a fork of this process.

``python -m tests.faults.preloaded``. Requests and answers are lines of JSON: ``run`` with argv,
env, cwd, out and err (files) is answered with a pid, ``poll`` with the exit code (negative: a
signal) or null. A fork is a whole process of its own, to be interrupted and killed.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

ROOT = Path(__file__).parents[2]


class Command:
    """One run of dflashctl."""

    def __init__(self, source: Preloaded, pid: int, out: Path, err: Path) -> None:
        self._source, self.pid, self._out, self._err = source, pid, out, err
        self._code: int | None = None

    def poll(self) -> int | None:
        """Its exit code; None while it runs."""
        if self._code is None:
            self._code = self._source.poll(self.pid)
        return self._code

    def wait(self, seconds: float) -> int:
        """Its exit code. Fails when it takes longer than that."""
        deadline = time.monotonic() + seconds
        while (code := self.poll()) is None:
            if time.monotonic() > deadline:
                self.send(signal.SIGKILL)
                raise AssertionError(
                    f"dflashctl still runs after {seconds} s: {self.out}{self.err}"
                )
            time.sleep(0.01)
        return code

    def send(self, number: int) -> bool:
        """Signal it; whether it was still there."""
        if self.poll() is not None:
            return False
        os.kill(self.pid, number)
        return True

    def forget(self) -> None:
        """Remove what it said."""
        for path in (self._out, self._err):
            path.unlink(missing_ok=True)

    @property
    def out(self) -> str:
        """Its answer."""
        return self._out.read_text(encoding="utf-8", errors="replace")

    @property
    def err(self) -> str:
        """What else it said."""
        return self._err.read_text(encoding="utf-8", errors="replace")


class Preloaded:
    """The process that the runs are forked from."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._count = folder, 0
        self._process = subprocess.Popen(
            (sys.executable, "-m", "tests.faults.preloaded"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            text=True,
        )

    def run(self, words: tuple[str, ...], env: dict[str, str], cwd: Path) -> Command:
        """Start dflashctl."""
        self._count += 1
        out, err = (self._folder / f"{self._count}.{end}" for end in ("out", "err"))
        request = {"argv": words, "env": env, "cwd": str(cwd), "out": str(out), "err": str(err)}
        return Command(self, cast("int", self._ask("run", request)), out, err)

    def poll(self, pid: int) -> int | None:
        return cast("int | None", self._ask("poll", pid))

    def close(self) -> None:
        self._process.communicate(timeout=10)

    def _ask(self, verb: str, value: object) -> object:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({verb: value}) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


def serve() -> None:
    """Answer requests until their end."""
    # What a shell started in the background is deaf to Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for line in iter(sys.stdin.readline, ""):
        ((verb, value),) = json.loads(line).items()
        answer = _fork(value) if verb == "run" else _poll(value)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _fork(request: dict[str, Any]) -> int:
    # A Ctrl-C that comes before main() would be one of Python's own beginning.
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
    pid = os.fork()
    if pid != 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT,))
        return pid
    sys.stdin = open(os.devnull)  # noqa: SIM115 - for as long as this process lives
    os.dup2(sys.stdin.fileno(), 0)
    for number, path in ((1, request["out"]), (2, request["err"])):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(handle, number)
        os.close(handle)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    from dflashctl.cli.main import main

    sys.argv = ["dflashctl", *request["argv"]]
    code: object = 1
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT,))
        code = main(request["argv"])
    except SystemExit as asked:
        code = asked.code
    except KeyboardInterrupt:
        code = 130  # before main() had begun
    finally:
        # All that was loaded beforehand need not be taken down, too.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 0)


def _poll(pid: int) -> int | None:
    with suppress(ChildProcessError):
        done, status = os.waitpid(pid, os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if done else None
    raise AssertionError("its exit code was told before")


def preload() -> None:
    """Import all that a run may need."""
    import dflashctl

    for module in pkgutil.walk_packages(dflashctl.__path__, "dflashctl."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for name in ("fabric", "paramiko", "rich.console", "rich.table", "rich.progress"):
        importlib.import_module(name)
    gc.freeze()


if __name__ == "__main__":
    preload()
    serve()
