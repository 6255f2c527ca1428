"""A real OpenSSH server on loopback, for tests: its own keys, its own port, one process."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.lab.need import need

if TYPE_CHECKING:
    from collections.abc import Sequence

_DEADLINE_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sshd:
    """A running sshd and what a client needs to be let in.

    Attributes:
        host: the loopback address; ``port``: where it listens.
        user: whom it lets in: the user who runs the tests.
        client_key: a private key that it accepts (the public one is beside it, ``.pub``).
        known_hosts: a file that vouches for its host key.
        host_key: its private host key (``.pub`` beside it).
        log: what it writes, at VERBOSE level.
        process: the server; ``stop`` ends it.
    """

    host: str
    port: int
    user: str
    client_key: Path
    known_hosts: Path
    host_key: Path
    log: Path
    process: subprocess.Popen[bytes]

    def stop(self) -> None:
        """End the server and the connections it serves. May be called again."""
        children = _children(self.process.pid)
        self.process.terminate()
        try:
            self.process.wait(_DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(_DEADLINE_S)
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 9)

    def connections(self) -> list[int]:
        """The pids of the processes that serve a connection each."""
        return _children(self.process.pid)


def why_no_sshd() -> str | None:
    """Why a server cannot be started here, for a test to skip with; None: it can."""
    missing = [tool for tool in ("sshd", "ssh-keygen") if _find(tool) is None]
    return f"needs {' and '.join(missing)} (Debian: openssh-server)" if missing else None


def start_sshd(
    folder: Path, *, path: str | None = None, home: Path | None = None, extra: Sequence[str] = ()
) -> Sshd:
    """Start a server whose files are all in ``folder``, and wait until it answers.

    Args:
        folder: an existing folder, for this server alone.
        path: the PATH that its sessions get; None: sshd's own default.
        home: the HOME that its sessions get, so that their shell reads no ``.bashrc`` of
            the tests' user; None: the user's own.
        extra: further lines for its configuration; they come first, so they win.
    """
    need("sshd", "ssh-keygen")
    host_key, client_key = folder / "host_key", folder / "client_key"
    for key in (host_key, client_key):
        make_key(key)
    authorized = folder / "authorized_keys"
    authorized.write_bytes(_public(client_key).read_bytes())
    if os.geteuid() == 0:
        # Its privilege separation folder, which Debian's service makes at each boot.
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    port = free_port()
    known_hosts = folder / "known_hosts"
    known_hosts.write_text(known_hosts_line(f"[127.0.0.1]:{port}", host_key))
    log = folder / "sshd.log"
    # One line for both: sshd heeds the first SetEnv only.
    environment = {"PATH": path, "HOME": home}
    settings = " ".join(f'"{name}={value}"' for name, value in environment.items() if value)
    config = folder / "sshd_config"
    config.write_text(
        "\n".join(
            [
                *extra,
                *([f"SetEnv {settings}"] if settings else ()),
                f"Port {port}",
                "ListenAddress 127.0.0.1",
                f'HostKey "{host_key}"',
                f'AuthorizedKeysFile "{authorized}"',
                f'PidFile "{folder / "sshd.pid"}"',
                "UsePAM no",
                "StrictModes no",
                "PermitRootLogin yes",
                "PasswordAuthentication no",
                "KbdInteractiveAuthentication no",
                # At DEBUG level its own words would reach the client's standard error.
                "LogLevel VERBOSE",
                "",
            ]
        )
    )
    with log.open("wb") as written:
        process = subprocess.Popen(
            [_find("sshd") or "sshd", "-D", "-e", "-f", str(config)],
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=written,
        )
    sshd = Sshd(
        host="127.0.0.1",
        port=port,
        user=getpass.getuser(),
        client_key=client_key,
        known_hosts=known_hosts,
        host_key=host_key,
        log=log,
        process=process,
    )
    _wait_for(sshd)
    return sshd


def make_key(path: Path, *, kind: str = "ed25519", passphrase: str = "") -> None:
    """A new key pair: ``path`` and ``path.pub``."""
    need("ssh-keygen")
    subprocess.run(
        ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", "test", "-f", str(path)],
        check=True,
        timeout=60,  # the primes of an RSA key are found by luck
    )


def known_hosts_line(name: str, key: Path) -> str:
    """The line by which known_hosts vouches for ``key`` as the key of ``name``."""
    kind, blob = _public(key).read_text().split()[:2]
    return f"{name} {kind} {blob}\n"


def fingerprint(key: Path) -> str:
    """What ssh-keygen calls the key: ``SHA256:...``."""
    shown = subprocess.run(
        ["ssh-keygen", "-l", "-f", str(_public(key))],
        check=True,
        capture_output=True,
        text=True,
        timeout=_DEADLINE_S,
    )
    return shown.stdout.split()[1]


def free_port() -> int:
    """A loopback port that nothing listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(sshd: Sshd) -> None:
    until = time.monotonic() + _DEADLINE_S
    while time.monotonic() < until:
        if sshd.process.poll() is not None:
            break
        try:
            with socket.create_connection((sshd.host, sshd.port), timeout=1) as probe:
                if probe.recv(4) == b"SSH-":
                    return
        except OSError:
            time.sleep(0.02)
    sshd.stop()
    message = f"sshd did not come up:\n{sshd.log.read_text(errors='replace')}"
    raise RuntimeError(message)


def _children(pid: int) -> list[int]:
    """All processes below one: for an ordinary user sshd keeps two a connection."""
    with contextlib.suppress(OSError):
        listed = Path(f"/proc/{pid}/task/{pid}/children").read_text()
        own = [int(child) for child in listed.split()]
        return own + [below for child in own for below in _children(child)]
    return []


def _public(key: Path) -> Path:
    return key.with_name(key.name + ".pub")


def _find(tool: str) -> str | None:
    # sshd is in /usr/sbin, which an ordinary user's PATH often lacks.
    return shutil.which(tool, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
