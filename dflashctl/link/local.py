"""This very machine: programs start as plain child processes, files are copied."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import time
from typing import TYPE_CHECKING

from dflashctl.errors import DflashError, Internal, MissingTool
from dflashctl.link.streams import DrainedTail
from dflashctl.link.transport import NoFileChannel, NoScp, Progress, Words

if TYPE_CHECKING:
    from pathlib import Path

_PIECE = 1 << 16
_COPY_PIECE = 1 << 20
_WRITE_STALL_S = 30.0
_FAREWELL_S = 1.0
NOT_FOUND = 127


class LocalTransport:
    """Reaches the machine that we run on. ``target``: its name, for messages."""

    def __init__(self, target: str) -> None:
        self._target = target

    def start(self, words: Words) -> LocalChannel:
        """Start a program, in a session of its own."""
        try:
            return LocalChannel(words)
        except FileNotFoundError as error:
            raise MissingTool(target=self._target, tool=words[0]) from error
        except OSError as error:
            what = f"{words[0]} cannot be started"
            raise Internal(what=what, detail=str(error)) from error

    def send_file(self, source: Path, folder: str, name: str, progress: Progress) -> None:
        """Copy the file."""
        total, sent = source.stat().st_size, 0
        dest = os.path.join(folder, name)  # noqa: PTH118 - a target's path stays text
        try:
            with source.open("rb") as read, open(dest, "wb", opener=_private) as write:
                while piece := read.read(_COPY_PIECE):
                    write.write(piece)
                    sent += len(piece)
                    progress(sent, total)
        except OSError as error:
            # The agent, which writes it next, names the cause and the room there is.
            raise NoFileChannel(str(error)) from error

    def send_by_scp(
        self, scp: Words, source: Path, folder: str, name: str, progress: Progress
    ) -> None:
        """Not here: nothing on this machine listens for it."""
        raise NoScp("files of this machine are copied")

    def terminal_words(self, words: Words) -> Words:
        """The words themselves: our own terminal is the real one."""
        return words

    def explain_silence(self, exit_code: int | None, stderr: str) -> DflashError | None:
        """No such interpreter (127 of ``env``), or a program that is none and ends in peace."""
        if exit_code == NOT_FOUND:
            return MissingTool(target=self._target, tool="python3", detail=stderr.strip())
        if exit_code == 0:
            said = "it ended without a greeting, as no Python would"
            return MissingTool(target=self._target, tool="python3", detail=said)
        return None

    def close(self) -> None:
        """Nothing is kept open."""


class LocalChannel:
    """A child process."""

    def __init__(self, words: Words) -> None:
        self._process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )
        # They are there: PIPE was asked for.
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        self._stderr = self._process.stderr
        os.set_blocking(self._stdin.fileno(), False)
        read_stderr = self._stderr.fileno()
        self._tail = DrainedTail(lambda: os.read(read_stderr, _PIECE), words[0])

    def read(self, timeout_s: float) -> bytes:
        """Some bytes of its standard output; b"" at its end."""
        if not select.select([self._stdout], [], [], timeout_s)[0]:
            raise TimeoutError(f"no output for {timeout_s} s")
        return os.read(self._stdout.fileno(), _PIECE)

    def write(self, data: bytes) -> None:
        """All of ``data``; a process that takes none of it for 30 s counts as gone."""
        left = memoryview(data)
        while left:
            if not select.select([], [self._stdin], [], _WRITE_STALL_S)[1]:
                raise ConnectionError(f"it took no input for {_WRITE_STALL_S} s")
            with contextlib.suppress(BlockingIOError):
                left = left[os.write(self._stdin.fileno(), left) :]

    def close_input(self) -> None:
        """End of its standard input."""
        with contextlib.suppress(OSError):
            self._stdin.close()

    def stderr_tail(self) -> str:
        """The last part of its standard error."""
        return self._tail.text(_FAREWELL_S if self._process.poll() is not None else 0.0)

    def exit_code(self, timeout_s: float) -> int | None:
        """Its exit code; None when it still runs then, or a signal ended it."""
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None
        return code if code >= 0 else None

    def close(self) -> None:
        """End of its input; it is waited for a moment, and never killed."""
        self.close_input()
        until = time.monotonic() + _FAREWELL_S
        # Its last words are taken, lest it wait for a reader instead of ending.
        with contextlib.suppress(OSError, ValueError):
            while (left := until - time.monotonic()) > 0:
                if not select.select([self._stdout], [], [], left)[0]:
                    break
                if not os.read(self._stdout.fileno(), _PIECE):
                    break
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(max(0.0, until - time.monotonic()))
        with contextlib.suppress(OSError):
            self._stdout.close()
        if self._process.returncode is not None:
            self._tail.text(_FAREWELL_S)
            self._stderr.close()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
