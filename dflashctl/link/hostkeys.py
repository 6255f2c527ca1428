"""What known_hosts vouches for, read as OpenSSH reads it; and the strict verdict on a key."""

from __future__ import annotations

import base64
import binascii
import contextlib
import fcntl
import fnmatch
import hashlib
import hmac
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from dflashctl.errors import HostKeyChanged, HostKeyUnknown

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SSH_PORT = 22
# That of SHA-1, by which known_hosts hides names.
_SALT_BYTES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class HostName:
    """The names under which known_hosts may list a host.

    ``alias`` is ssh's HostKeyAlias: with it neither name nor port count.
    """

    host: str
    port: int
    alias: str | None = None

    @property
    def listed_as(self) -> str:
        """The name to look for first: ``host``, ``[host]:port`` or the alias."""
        if self.alias is not None:
            return self.alias.lower()
        name = self.host.lower()
        return name if self.port == SSH_PORT else f"[{name}]:{self.port}"

    @property
    def without_port(self) -> str | None:
        """OpenSSH also lets a key pass that is known for the host on its usual port."""
        if self.alias is not None or self.port == SSH_PORT:
            return None
        return self.host.lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownKey:
    """One usable line of a known_hosts file. ``names``: its first field, undivided."""

    names: str
    key_type: str
    blob: bytes
    revoked: bool
    path: Path
    line: int

    def is_for(self, name: str) -> bool:
        """Whether the line speaks of ``name``: plainly, hashed, by pattern, not negated."""
        if self.names.startswith("|1|"):
            return _hash_fits(self.names, name)
        fits = False
        for pattern in self.names.lower().split(","):
            if _pattern_fits(pattern.removeprefix("!"), name):
                if pattern.startswith("!"):
                    return False
                fits = True
        return fits


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownHosts:
    """The keys of all known_hosts files that count for one host, in order."""

    paths: tuple[Path, ...]
    keys: tuple[KnownKey, ...]

    def key_types(self, name: HostName) -> tuple[str, ...]:
        """The types of key known for the host: the ones to negotiate first."""
        known = self._known(name.listed_as) or self._known(name.without_port)
        return tuple(dict.fromkeys(key.key_type for key in known if not key.revoked))

    def check(self, target: str, name: HostName, key_type: str, blob: bytes) -> None:
        """Accept the key that the host showed, or raise.

        Args:
            target: the target's name, for the error.
            name: the host as it was reached.
            key_type: ``ssh-ed25519`` and the like.
            blob: the public key in ssh's wire format.

        Raises:
            HostKeyUnknown: no file lists the host.
            HostKeyChanged: a file lists it with another key, or the key is revoked.
        """
        for key in self.keys:
            if key.revoked and key.blob == blob and key.is_for(name.listed_as):
                raise self._changed(target, name, (key_type, blob), key)
        known = [key for key in self._known(name.listed_as) if not key.revoked]
        fallback = [] if known else self._known(name.without_port)
        if any(key.blob == blob for key in (*known, *fallback) if not key.revoked):
            return
        if known:
            of_that_type = [key for key in known if key.key_type == key_type]
            raise self._changed(target, name, (key_type, blob), (of_that_type or known)[0])
        raise HostKeyUnknown(
            target=target,
            host=name.alias or name.host,
            port=name.port,
            key_type=key_type,
            fingerprint=fingerprint(blob),
            known_hosts=tuple(str(path) for path in self.paths),
        )

    def vouching(self, name: HostName, blob: bytes) -> KnownKey | None:
        """The line that says that the key is the host's, if there is one."""
        known = self._known(name.listed_as) or self._known(name.without_port)
        return next((key for key in known if key.blob == blob and not key.revoked), None)

    def _known(self, name: str | None) -> tuple[KnownKey, ...]:
        return tuple(key for key in self.keys if name is not None and key.is_for(name))

    @staticmethod
    def _changed(
        target: str, name: HostName, shown: tuple[str, bytes], known: KnownKey
    ) -> HostKeyChanged:
        return HostKeyChanged(
            target=target,
            host=name.alias or name.host,
            port=name.port,
            key_type=shown[0],
            fingerprint=fingerprint(shown[1]),
            expected="revoked" if known.revoked else fingerprint(known.blob),
            known_hosts=str(known.path),
            line=known.line,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A key that was not known and was taken: whose it is, and where it is recorded."""

    place: str
    key_type: str
    fingerprint: str
    path: Path


def record(path: Path, name: HostName, key_type: str, blob: bytes, *, hashed: bool) -> bool:
    """Add a host's key to a known_hosts file, which is made if it is not there.

    ``hashed``: so that nobody can read from the file which hosts are known. Returns False where
    somebody else has recorded that key meanwhile.

    Raises:
        HostKeyChanged: somebody else has recorded another one meanwhile.
        OSError: the file cannot be written.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.touch(mode=0o600)
    with path.open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with contextlib.suppress(HostKeyUnknown):
            read_known_hosts((path,)).check(name.host, name, key_type, blob)
            return False
        _append(file, name, key_type, blob, hashed=hashed)
    return True


def _append(file: BinaryIO, name: HostName, key_type: str, blob: bytes, *, hashed: bool) -> None:
    listed = name.listed_as
    if hashed:
        salt = os.urandom(_SALT_BYTES)
        digest = hmac.new(salt, listed.encode("utf-8"), hashlib.sha1).digest()
        listed = "|1|" + "|".join(base64.b64encode(part).decode() for part in (salt, digest))
    line = f"{listed} {key_type} {base64.b64encode(blob).decode('ascii')}\n"
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - 1))
    unended = file.read() not in (b"", b"\n")
    file.write(b"\n" * unended + line.encode("utf-8"))


def read_known_hosts(paths: Sequence[Path]) -> KnownHosts:
    """Read the files; one that is missing or unreadable vouches for nobody.

    Lines of certificate authorities are passed over: a host whose key is only certified
    counts as unknown.
    """
    keys: list[KnownKey] = []
    for path in paths:
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        for number, line in enumerate(text.split("\n"), start=1):
            key = _read_line(line, path, number)
            if key is not None:
                keys.append(key)
    return KnownHosts(paths=tuple(paths), keys=tuple(keys))


def fingerprint(blob: bytes) -> str:
    """A public key's fingerprint as OpenSSH writes it: ``SHA256:...``."""
    digest = base64.b64encode(hashlib.sha256(blob).digest()).decode("ascii")
    return f"SHA256:{digest.rstrip('=')}"


def _read_line(line: str, path: Path, number: int) -> KnownKey | None:
    words = line.split()
    revoked = bool(words) and words[0] == "@revoked"
    if revoked:
        words = words[1:]
    if len(words) < 3 or words[0].startswith(("#", "@")):
        return None
    try:
        blob = base64.b64decode(words[2], validate=True)
    except (binascii.Error, ValueError):
        return None
    return KnownKey(
        names=words[0],
        key_type=words[1],
        blob=blob,
        revoked=revoked,
        path=path,
        line=number,
    )


def _hash_fits(hashed: str, name: str) -> bool:
    parts = hashed.split("|")
    if len(parts) != 4:
        return False
    try:
        salt, digest = base64.b64decode(parts[2]), base64.b64decode(parts[3])
    except (binascii.Error, ValueError):
        return False
    found = hmac.new(salt, name.encode("utf-8"), hashlib.sha1).digest()
    return hmac.compare_digest(found, digest)


def _pattern_fits(pattern: str, name: str) -> bool:
    # Only * and ? are special to ssh: the brackets of [host]:port are plain characters.
    return fnmatch.fnmatchcase(name, pattern.replace("[", "[[]"))
