"""Whether the targets of one run can meet: at node 0's port, and in which folders."""

from __future__ import annotations

import errno
import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from dflashctl.agent import network
from dflashctl.agent.fabric import (
    Connect,
    Connected,
    Heard,
    LayMark,
    Listen,
    Listening,
    Marks,
    TakeMark,
)
from dflashctl.agent.failures import AgentError
from dflashctl.agent.observe import scene
from dflashctl.agent.process import look as look_at
from dflashctl.agent.protocol import Look
from dflashctl.agent.records import StateFolder
from dflashctl.agent.session import Tmux

BACKLOG = 128
# How long a guest may take to say its word, once it is here.
WORD_S = 2.0
AGAIN_S = 0.2
_WELCOME = b"welcome\n"


def listen(
    asked: Listen,
    state: StateFolder,
    tell: Callable[[Listening], None],
    hung_up: Callable[[], bool],
) -> Heard:
    """Take in those who have the token, until all have come or the time is up.

    Raises:
        AgentError: ``port_taken`` (port, pid, name): by something that is not the job.
    """
    with _at_port(asked, state) as door:
        tell(Listening(port=door.getsockname()[1]))
        heard, until = 0, time.monotonic() + asked.wait_s
        while heard < asked.others and (left := until - time.monotonic()) > 0 and not hung_up():
            door.settimeout(min(AGAIN_S, left))
            with suppress(OSError):
                guest, _ = door.accept()
                with guest:
                    heard += _let_in(guest, asked.token)
        return Heard(others=heard)


def _at_port(asked: Listen, state: StateFolder) -> socket.socket:
    """A socket at the port, at all addresses, as torchrun's own will be."""
    family = socket.AF_INET6 if ":" in asked.address else socket.AF_INET
    try:
        return _bound(family, asked.port)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
    holders = network.listeners(asked.port) or set()
    look = Look(job=asked.job, session=asked.session, tmux_socket=asked.tmux_socket)
    if holders and holders <= scene(look, state, Tmux(asked.tmux_socket)).members:
        return _bound(family, 0)
    first = min(holders, default=None)
    row = look_at(first.pid) if first else None
    raise AgentError(
        "port_taken",
        port=asked.port,
        pid=first.pid if first else None,
        name=row.name if row else None,
    )


def _bound(family: int, port: int) -> socket.socket:
    door = socket.socket(family, socket.SOCK_STREAM)
    try:
        # Connections of a run that is over may linger; whoever listens there still counts.
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind(("", port))
        door.listen(BACKLOG)
    except OSError:
        door.close()
        raise
    return door


def _let_in(guest: socket.socket, token: str) -> bool:
    """Whether it says the word. It hangs up first, so that the port is free at once after it."""
    guest.settimeout(WORD_S)
    word = token.encode()
    if guest.recv(len(word), socket.MSG_WAITALL) != word:
        return False
    guest.sendall(_WELCOME)
    with suppress(OSError):
        guest.recv(1)
    return True


def connect(asked: Connect) -> Connected:
    """Go there and say the token.

    Raises:
        AgentError: ``no_way`` (address, port, reason).
    """
    until, reason = time.monotonic() + asked.wait_s, ""
    while (left := until - time.monotonic()) > 0:
        try:
            return _visit(asked, left)
        except OSError as error:
            reason = network.words(error)
            if not isinstance(error, ConnectionError):
                break  # of no route, or no such address, a second try makes none
        time.sleep(min(AGAIN_S, left))
    raise AgentError("no_way", address=asked.address, port=asked.port, reason=reason)


def _visit(asked: Connect, left: float) -> Connected:
    there = (asked.address, asked.port)
    with socket.create_connection(there, timeout=left, source_address=(asked.source, 0)) as way:
        way.sendall(asked.token.encode())
        if way.recv(len(_WELCOME), socket.MSG_WAITALL) != _WELCOME:
            raise ConnectionError("something else answers there")
    return Connected()


def lay_mark(asked: LayMark) -> Marks:
    """Lay it, if that is possible."""
    with suppress(OSError):
        os.close(os.open(_mark(asked), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        return Marks(ranks=(asked.rank,))
    return Marks(ranks=())


def take_mark(asked: LayMark | TakeMark) -> Marks:
    """Whose marks there are; one's own is gone then."""
    start = f".dflashctl-{asked.token}-"
    ranks: list[int] = []
    with suppress(OSError):
        names = os.listdir(asked.folder)
        ranks = [int(name[len(start) :]) for name in names if name.startswith(start)]
        _mark(asked).unlink(missing_ok=True)
    return Marks(ranks=tuple(sorted(ranks)))


def _mark(asked: LayMark | TakeMark) -> Path:
    return Path(asked.folder, f".dflashctl-{asked.token}-{asked.rank}")
