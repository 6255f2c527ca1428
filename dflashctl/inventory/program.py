"""An inventory that a program prints, by Ansible's convention: ``--list``, and JSON."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dflashctl.errors import InventoryProgram
from dflashctl.inventory.groups import Groups, of_listing

if TYPE_CHECKING:
    from collections.abc import Iterator

# It may ask a cloud; whoever takes longer hangs.
DEADLINE_S = 60.0
MAX_BYTES = 32 << 20
_SAID = 2000
_PIECE = 1 << 16
_FILES = (".yml", ".yaml", ".json", ".ini", ".cfg")


def is_program(path: Path) -> bool:
    """Whether it is to be run, and not to be read: some file systems call all executable."""
    return path.suffix not in _FILES and path.is_file() and os.access(path, os.X_OK)


def ask(path: Path) -> Groups:
    """What the program says of hosts and groups.

    It is called with ``--list``; where the answer lacks ``_meta``, with ``--host NAME`` for
    each host, as its elders want it.

    Raises:
        InventoryProgram: it fails, takes too long, says too much, or answers no JSON.
    """
    until = time.monotonic() + DEADLINE_S
    listing = _answer(path, until, "--list")
    groups = of_listing(path, listing)
    if "_meta" not in listing and groups.hosts:
        own = {host: _answer(path, until, "--host", host) for host in groups.hosts}
        groups = of_listing(path, {**listing, "_meta": {"hostvars": own}})
    return groups


def _answer(path: Path, until: float, *words: str) -> dict[str, Any]:
    def failed(reason: str, said: bytes | bytearray = b"") -> InventoryProgram:
        lines = said[-_SAID:].decode("utf-8", "replace").strip().splitlines()
        return InventoryProgram(path=path, words=words, reason=reason, said=tuple(lines))

    try:
        child = subprocess.Popen(
            (str(path), *words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise failed(f"cannot be run: {error.strerror}") from error
    out, said = bytearray(), bytearray()
    try:
        for is_answer, piece in _pieces(child, until):
            if is_answer:
                out += piece
            else:
                said = (said + piece)[-_SAID:]
            if len(out) > MAX_BYTES:
                raise failed(f"prints more than {MAX_BYTES >> 20} MiB", said)
        code = child.wait(max(0.0, until - time.monotonic()))
    except (TimeoutError, subprocess.TimeoutExpired) as error:
        raise failed(f"has not ended after {DEADLINE_S:.0f} s", said) from error
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        for stream in (child.stdout, child.stderr):
            assert stream is not None, "PIPE was asked for"
            stream.close()
    if code:
        how = f"exit code {code}" if code > 0 else f"signal {-code}"
        raise failed(f"ended with {how}", said)
    try:
        answer = json.loads(out)
    except (ValueError, RecursionError) as error:
        raise failed(f"does not print JSON: {error}", said) from error
    if not isinstance(answer, dict):
        raise failed("prints JSON, but no object", said)
    return answer


def _pieces(child: subprocess.Popen[bytes], until: float) -> Iterator[tuple[bool, bytes]]:
    """What it prints until both its streams end; True: on standard output.

    Raises:
        TimeoutError: it takes too long.
    """
    with selectors.DefaultSelector() as both:
        for stream in (child.stdout, child.stderr):
            assert stream is not None, "PIPE was asked for"
            both.register(stream, selectors.EVENT_READ)
        while both.get_map():
            left = until - time.monotonic()
            if left <= 0:
                raise TimeoutError
            for key, _ in both.select(left):
                piece = os.read(key.fd, _PIECE)
                if not piece:
                    both.unregister(key.fileobj)
                yield key.fileobj is child.stdout, piece
