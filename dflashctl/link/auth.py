"""Being let in by public key, as OpenSSH goes about it: files, ssh-agent, passphrases.

No password is ever asked for or sent, and ssh-agent is never forwarded.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import logging
import os
import socket
import stat
import struct
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dflashctl.errors import NotLetIn
from dflashctl.link.accepted import AcceptedKeys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import paramiko

    from dflashctl.link.sshconfig import Hop
    from dflashctl.link.sshwire import Wire

_log = logging.getLogger("dflashctl.link")
_AGENT_S = 60.0
_MOST_PASSPHRASES = 3
_MAGIC = b"openssh-key-v1\0"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFile:
    """What a key file shows without its passphrase.

    ``blob``: the public key in ssh's wire format, None where only the passphrase opens
    it. ``problem``: why its private key cannot be used, if so.
    """

    path: Path
    blob: bytes | None
    encrypted: bool
    problem: str | None


def look_at_key(path: Path) -> KeyFile | None:
    """Read what can be read of a key file; None: there is no such file."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
        mode = path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        return KeyFile(path=path, blob=None, encrypted=False, problem=str(error.strerror))
    problem = None
    if mode.st_uid == os.getuid() and stat.S_IMODE(mode.st_mode) & 0o077:
        problem = f"others may read it (mode {stat.S_IMODE(mode.st_mode):04o}); ssh wants 0600"
    blob, encrypted = _openssh_parts(text)
    if blob is None:
        blob = _public_blob(text)
        if blob is not None:
            return KeyFile(path=path, blob=blob, encrypted=False, problem="a public key only")
        encrypted = "ENCRYPTED" in text
        with contextlib.suppress(OSError):
            beside = path.with_name(path.name + ".pub")
            blob = _public_blob(beside.read_text(encoding="utf-8", errors="replace"))
    return KeyFile(path=path, blob=blob, encrypted=encrypted, problem=problem)


class Keyring:
    """The private keys of this machine, each opened once for all hosts. Thread-safe."""

    def __init__(self, ask: Callable[[str], str | None]) -> None:
        """``ask`` shows a prompt and returns what was typed, or None without a terminal."""
        self.accepted = AcceptedKeys()
        self._ask = ask
        self._lock = threading.Lock()
        self._opened: dict[Path, paramiko.PKey | str] = {}

    def open(self, file: KeyFile) -> paramiko.PKey | str:
        """The private key, its passphrase asked for if it has one; or why there is none."""
        if file.problem is not None:
            return file.problem
        with self._lock:
            if file.path not in self._opened:
                self._opened[file.path] = self._unlock(file) if file.encrypted else _load(file.path)
            return self._opened[file.path]

    def _unlock(self, file: KeyFile) -> paramiko.PKey | str:
        found: paramiko.PKey | str = "no passphrase was given"
        for _ in range(_MOST_PASSPHRASES):
            passphrase = self._ask(f"Passphrase for key '{file.path}': ")
            if passphrase is None:
                return "it has a passphrase, and there is no terminal to ask on"
            if not passphrase:
                return found
            found = _load(file.path, passphrase)
            if not isinstance(found, str):
                return found
        return found


class OtherKeyWantedError(Exception):
    """The host no longer accepts the key that it accepted last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Offer:
    """A key that may be tried. ``blob``: its public part, where that shows."""

    name: str
    blob: bytes | None
    open: Callable[[], paramiko.PKey | str]


class PublicKeys:
    """Tries keys: what the host accepted last, then in OpenSSH's order, the inventory's own first.

    It is given to Paramiko's client as its ``auth_strategy``.
    """

    def __init__(self, target: str, hop: Hop, keyring: Keyring, *, foresees: bool) -> None:
        """``foresees``: a session is wanted as soon as we are in."""
        self._target, self._hop, self._keyring = target, hop, keyring
        self._accepted, self._foresees = keyring.accepted, foresees
        self._reasons: list[str] = []

    def authenticate(self, transport: Wire) -> None:
        """Be let in.

        Raises:
            NotLetIn: no key was accepted.
            OtherKeyWantedError: that which was accepted last is not; the connection is spoilt.
            ConnectionError: the connection broke.
        """
        from paramiko.ssh_exception import (
            AuthenticationException,
            BadAuthenticationType,
            SSHException,
        )

        tried: list[str] = []
        agent = _agent(self._hop.agent_socket, self._reasons)
        try:
            for name, key, is_last in self._keys(agent):
                tried.append(name)
                if is_last and self._foresees:
                    transport.foresee()
                _log.debug("%s: trying %s", self._hop.place, name)
                try:
                    further = transport.offer(self._hop.user, key)
                except BadAuthenticationType as error:
                    self._reasons.append(f"it takes {', '.join(error.allowed_types)} only")
                    break
                except AuthenticationException as error:
                    if is_last and self._foresees:
                        self._accepted.forget(self._hop)
                        raise OtherKeyWantedError from error
                    if not transport.is_active():
                        self._reasons.append(f"it said: {error}")
                        break
                    continue
                except SSHException as error:
                    self._reasons.append(f"{name}: {error}")
                    if not transport.is_active():
                        break
                    continue
                if not further:
                    self._accepted.keep(self._hop, key.asbytes())
                    return
                self._reasons.append(f"after the key it also wants {', '.join(further)}")
                break
        finally:
            if agent is not None:
                agent.close()
        raise NotLetIn(
            target=self._target,
            user=self._hop.user,
            address=self._hop.place,
            tried=tuple(tried),
            reason="; ".join(self._reasons) or ("" if tried else "there is no key to offer"),
            ssh=self._hop.by_hand,
        )

    def _keys(self, agent: _Agent | None) -> Iterator[tuple[str, paramiko.PKey, bool]]:
        """Name and key, each opened when its turn comes; and whether it was accepted last."""
        offers = [(self._accepted.is_last(self._hop, one.blob), one) for one in self._offers(agent)]
        for is_last, offer in sorted(offers, key=lambda pair: not pair[0]):
            key = offer.open()
            if isinstance(key, str):
                self._reasons.append(f"{offer.name}: {key}")
            else:
                yield offer.name, key, is_last

    def _offers(self, agent: _Agent | None) -> Iterator[_Offer]:
        files = self._files()
        held = {key.asbytes(): key for key in agent.keys} if agent is not None else {}
        named = [file for file in files if file.path == self._hop.named_identity]
        for file in named:
            if file.blob not in held and not file.encrypted:
                yield self._of_file(file)
        for file in files:
            if file.blob in held:
                yield _held(f"{file.path} (ssh-agent)", held.pop(file.blob))
                files = [other for other in files if other is not file]
        if not self._hop.identities_only:
            for key in held.values():
                yield _held(f"{key.comment or key.get_name()} (ssh-agent)", key)
        for file in files:
            if not file.encrypted and file not in named:
                yield self._of_file(file)
        for file in files:
            if file.encrypted:
                yield self._of_file(file)

    def _files(self) -> list[KeyFile]:
        named = self._hop.named_identity
        paths = dict.fromkeys([*([named] if named else []), *self._hop.identity_files])
        found = [look_at_key(path) for path in paths]
        if named is not None and found[0] is None:
            self._reasons.append(f"{named}: no such file")
        return [file for file in found if file is not None]

    def _of_file(self, file: KeyFile) -> _Offer:
        return _Offer(name=str(file.path), blob=file.blob, open=lambda: self._keyring.open(file))


def _held(name: str, key: paramiko.PKey) -> _Offer:
    return _Offer(name=name, blob=key.asbytes(), open=lambda: key)


class _Agent:
    """ssh-agent at a socket, with a deadline on each of its answers."""

    def __init__(self, path: str) -> None:
        from paramiko.agent import AgentSSH

        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(_AGENT_S)
        try:
            self._socket.connect(path)
            agent: Any = AgentSSH()
            # Paramiko's own Agent class knows the socket of the environment only.
            agent._connect(self._socket)
        except BaseException:
            self._socket.close()
            raise
        self.keys: tuple[paramiko.agent.AgentKey, ...] = agent.get_keys()

    def close(self) -> None:
        self._socket.close()


def held_by_agent(path: str) -> tuple[str, ...]:
    """The names of the keys that ssh-agent holds. Raises OSError: none answers there."""
    from paramiko.ssh_exception import SSHException

    try:
        agent = _Agent(path)
    except SSHException as error:
        raise OSError(str(error)) from error
    agent.close()
    return tuple(key.comment or key.get_name() for key in agent.keys)


def _agent(path: str | None, reasons: list[str]) -> _Agent | None:
    from paramiko.ssh_exception import SSHException

    if path is None:
        return None
    try:
        return _Agent(path)
    except (OSError, SSHException) as error:
        reasons.append(f"ssh-agent at {path}: {error}")
        return None


def _load(path: Path, passphrase: str | None = None) -> paramiko.PKey | str:
    from cryptography.exceptions import UnsupportedAlgorithm
    from paramiko.pkey import PKey, UnknownKeyType
    from paramiko.ssh_exception import SSHException

    secret: Any = passphrase.encode() if passphrase is not None else None
    try:
        return PKey.from_path(path, secret)
    except UnknownKeyType:
        return "a type of key that works through ssh-agent only"
    except (OSError, SSHException, UnsupportedAlgorithm, ValueError, TypeError) as error:
        if passphrase is not None:
            return "the passphrase does not fit"
        return str(error).splitlines()[0] if str(error) else type(error).__name__


def _openssh_parts(text: str) -> tuple[bytes | None, bool]:
    """Of a key in OpenSSH's own format: the public key, and whether it is encrypted."""
    _, begin, rest = text.partition("-----BEGIN OPENSSH PRIVATE KEY-----")
    body, end, _ = rest.partition("-----END OPENSSH PRIVATE KEY-----")
    if not begin or not end:
        return None, False
    try:
        data = base64.b64decode("".join(body.split()), validate=True)
        if not data.startswith(_MAGIC):
            return None, False
        cipher, data = _string(data[len(_MAGIC) :])
        _, data = _string(data)  # the name of the key derivation
        _, data = _string(data)  # and its options
        blob, _ = _string(data[4:])  # after the number of keys, always 1
    except (binascii.Error, ValueError, struct.error):
        return None, False
    return blob, cipher != b"none"


def _string(data: bytes) -> tuple[bytes, bytes]:
    (size,) = struct.unpack_from(">I", data)
    if len(data) < 4 + size:
        raise ValueError("cut short")
    return data[4 : 4 + size], data[4 + size :]


def _public_blob(text: str) -> bytes | None:
    words = text.split(None, 2)
    if len(words) < 2 or "PRIVATE" in text:
        return None
    try:
        blob = base64.b64decode(words[1], validate=True)
        kind, _ = _string(blob)
    except (binascii.Error, ValueError, struct.error):
        return None
    return blob if kind == words[0].encode() else None
