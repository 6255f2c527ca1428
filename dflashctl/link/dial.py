"""What an ssh connection runs over: a TCP socket, or the operator's ProxyCommand."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from dflashctl.link.sshconfig import Hop
    from dflashctl.link.sshwire import Tunnel, Wire

# The kernel's part in noticing a dead link: silence, and data that nobody acknowledges.
_TCP_OPTIONS = (
    ("TCP_NODELAY", 1),
    ("TCP_KEEPIDLE", 10),
    ("TCP_KEEPINTVL", 5),
    ("TCP_KEEPCNT", 3),
    ("TCP_USER_TIMEOUT", 30_000),
)


class Dialled:
    """What a connection runs over, and the connection or the ProxyCommand behind it, if any."""

    def __init__(
        self,
        sock: socket.socket | Tunnel,
        *,
        beneath: Wire | None = None,
        proxy: subprocess.Popen[bytes] | None = None,
        said: IO[bytes] | None = None,
    ) -> None:
        self.sock, self.beneath, self._proxy, self._said = sock, beneath, proxy, said

    def close(self) -> str:
        """Close it, end the ProxyCommand, and return the last of what that said."""
        self.sock.close()
        if self._proxy is None or self._said is None or self._said.closed:
            return ""
        self._proxy.terminate()
        try:
            self._proxy.wait(1.0)
        except subprocess.TimeoutExpired:
            self._proxy.kill()
            self._proxy.wait(1.0)
        with self._said as said:
            said.seek(max(0, said.seek(0, os.SEEK_END) - 1000))
            return said.read().decode(errors="replace").strip()


def dial(hop: Hop) -> Dialled:
    """A socket to the host itself, or to its ProxyCommand."""
    if not isinstance(hop.via, str):
        sock = socket.create_connection((hop.host, hop.port), hop.connect_s)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _TCP_OPTIONS:
            if hasattr(socket, option):  # macOS lacks some of them
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
        return Dialled(sock)
    ours, theirs = socket.socketpair()
    said = tempfile.TemporaryFile()  # noqa: SIM115 - Dialled.close closes it
    # It is shell text by ssh's own definition, written by the operator for ssh.
    shell = os.environ.get("SHELL") or "/bin/sh"
    with theirs:
        proxy = subprocess.Popen(
            (shell, "-c", hop.via),
            stdin=theirs.fileno(),
            stdout=theirs.fileno(),
            stderr=said.fileno(),
            start_new_session=True,
        )
    return Dialled(ours, proxy=proxy, said=said)


def in_words(error: BaseException) -> str:
    """An error in the operating system's words, or the library's."""
    if isinstance(error, TimeoutError):
        return "timed out"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, EOFError):
        return "the connection was closed"
    said = str(error) or type(error).__name__
    if "SSH protocol banner" in said or "Indecipherable protocol" in said:
        return f"what answers there is no ssh server, or a dead one ({said})"
    return said
