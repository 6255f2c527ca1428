"""Hosts behind sshd. Fabric makes the connection; the channels are Paramiko's.

A host has one connection, shared by all that goes on there; a further one is opened only
when the sshd refuses to run more programs over the first.
"""

from __future__ import annotations

import contextlib
import logging
import random
import threading
import time
from typing import TYPE_CHECKING, Any

from paramiko.ssh_exception import SSHException

from dflashctl.errors import DflashError, HostKeyUnknown, LinkLost, Unreachable
from dflashctl.link.auth import Keyring, OtherKeyWantedError, PublicKeys
from dflashctl.link.dial import Dialled, dial, in_words
from dflashctl.link.hostkeys import (
    HostName,
    KnownHosts,
    Recorded,
    fingerprint,
    read_known_hosts,
    record,
)
from dflashctl.link.sshwire import Session, SessionRefusedError, TurnedAwayError, Wire

if TYPE_CHECKING:
    from collections.abc import Callable

    import fabric
    import paramiko

    from dflashctl.link.deadlines import Deadlines
    from dflashctl.link.sshconfig import Hop

_log = logging.getLogger("dflashctl.link")
_log.addHandler(logging.NullHandler())
for noisy in ("paramiko", "invoke", "fabric"):
    # Paramiko's threads log tracebacks of what reaches us as exceptions anyway.
    logging.getLogger(noisy).propagate = False
    logging.getLogger(noisy).addHandler(logging.NullHandler())

_KEEPALIVE_S = 15
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 2.0
# AES-GCM first: it is nearly twice as fast here as Paramiko's own first choice.
_CIPHERS = (
    "aes128-gcm@openssh.com",
    "aes256-gcm@openssh.com",
    "aes128-ctr",
    "aes192-ctr",
    "aes256-ctr",
)


class SshHost:
    """One host and the connections to it, opened when first needed. Thread-safe."""

    def __init__(
        self,
        hop: Hop,
        gateway: SshHost | None,
        keyring: Keyring,
        deadlines: Deadlines,
        recorded: Callable[[Recorded], None] = lambda _: None,
    ) -> None:
        """``gateway``: the host of ``hop.via``, where that is one.

        ``recorded`` is told of a host key that was not known, and was taken.
        """
        self.hop = hop
        self._gateway, self._keyring, self._deadlines = gateway, keyring, deadlines
        self._recorded = recorded
        self._lock = threading.Lock()
        self._open: list[_Connection] = []
        self._failure: DflashError | None = None
        self._closed = False

    def wire(self, target: str) -> Wire:
        """The shared connection. ``target``: for whom, for messages.

        Raises:
            Unreachable, HostKeyProblem, NotLetIn: it cannot be made.
        """
        return self._connection(target, foresees=False).wire

    def session(self, target: str) -> Session:
        """A new session channel.

        Raises:
            Unreachable, HostKeyProblem, NotLetIn: no connection can be made.
            LinkLost: the one that there is broke.
        """
        self._connection(target, foresees=True)
        full: list[_Connection] = []
        while True:
            with contextlib.suppress(SessionRefusedError):
                return self._session_where_there_is_room(target, full)
            with self._lock:
                # Of those who were refused at once, one connects, and the others follow.
                if not self._with_room(full):
                    _log.debug("%s refuses a further session: one more connection", self.hop.place)
                    return self._session_of_its_own(target)

    def spare_session(self, target: str) -> Session:
        """A new session on a connection that there is.

        Raises:
            SessionRefusedError: none has room for it.
            Unreachable, HostKeyProblem, NotLetIn, LinkLost: as ``session``.
        """
        self._connection(target, foresees=False)
        return self._session_where_there_is_room(target, [])

    def shown_key(self, target: str) -> tuple[str, bytes]:
        """The key that the host shows, whoever vouches for it; nobody logs in.

        Returns:
            Its type, and the public key in ssh's wire format.

        Raises:
            Unreachable: it shows none.
            HostKeyProblem, NotLetIn: a host on the way to it.
        """
        known = read_known_hosts(self.hop.known_hosts)
        ground = self._ground(target)
        wire = None
        try:
            wire = self._wire_maker(ground, known.key_types(self.name))(ground.sock)
            wire.start_client()
            key = wire.get_remote_server_key()
            return key.get_name(), key.asbytes()
        except BaseException as error:
            self._explain(error, target, ground)
            raise
        finally:
            if wire is not None:
                wire.close()
            ground.close()

    @property
    def name(self) -> HostName:
        """The host as known_hosts may list it."""
        return HostName(host=self.hop.host, port=self.hop.port, alias=self.hop.host_key_alias)

    def close(self) -> None:
        """Close every connection. One that is being made now is closed when it is made."""
        # Without the lock: after Ctrl-C nobody waits for a connection that takes its time.
        self._closed = True
        for connection in list(self._open):
            connection.close()

    def _with_room(self, full: list[_Connection]) -> list[_Connection]:
        """The open connections but those that are known to be full; the newest may have most."""
        return [one for one in reversed(self._open) if one not in full and one.wire.is_active()]

    def _session_where_there_is_room(self, target: str, full: list[_Connection]) -> Session:
        refused = SessionRefusedError("every connection has all the sessions that it may have")
        for connection in self._with_room(full):
            try:
                return self._session_over(connection, target)
            except SessionRefusedError as error:
                refused = error
                full.append(connection)
        raise refused

    def _session_of_its_own(self, target: str) -> Session:
        """A session on a new connection, before anybody else has one there."""
        further = self._connect(target, foresees=True)
        try:
            session = self._session_over(further, target)
        except SessionRefusedError as error:
            further.close()
            raise self._unreachable(target, f"it runs no commands: {error}") from error
        self._keep(further)
        return session

    def _keep(self, made: _Connection) -> None:
        """Share it from now on, unless all is being closed."""
        self._open.append(made)
        if self._closed:
            made.close()

    def _connection(self, target: str, *, foresees: bool) -> _Connection:
        with self._lock:
            if self._failure is not None:
                # One dead host is waited for once, not once for each of its containers.
                raise _for_target(self._failure, target)
            for connection in self._open:
                if connection.wire.is_active():
                    return connection
            try:
                made = self._connect(target, foresees=foresees)
            except DflashError as error:
                self._failure = error
                raise
            self._keep(made)
            return made

    def _session_over(self, connection: _Connection, target: str) -> Session:
        try:
            return connection.wire.session()
        except ConnectionError as error:
            raise LinkLost(target=target, address=self.hop.place, reason=str(error)) from error

    def _connect(self, target: str, *, foresees: bool) -> _Connection:
        """A new connection, host key checked and let in. ``foresees``: a session is wanted.

        An sshd to which many connect at once turns some away, by chance: these try again.
        """
        until = time.monotonic() + self._deadlines.crowded_s
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                return self._connect_at_once(target, foresees=foresees)
            except Unreachable as error:
                turned_away = isinstance(error.__cause__, TurnedAwayError) and not self._closed
                # Of a ProxyCommand that ends the cause is unknown.
                turned_away = turned_away and not isinstance(self.hop.via, str)
                # All who were turned away together must not come back together.
                wait_s = pause_s * random.uniform(0.5, 1.5)  # noqa: S311 - it hides nothing  # nosec B311
                if not turned_away or time.monotonic() + wait_s > until:
                    raise
            _log.debug("%s hung up at once: again in %.1f s", self.hop.place, wait_s)
            time.sleep(wait_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _connect_at_once(self, target: str, *, foresees: bool) -> _Connection:
        try:
            return self._connect_with(target, foresees=foresees)
        except OtherKeyWantedError:
            _log.debug("%s: another key is wanted than last time", self.hop.place)
            return self._connect_with(target, foresees=foresees)

    def _connect_with(self, target: str, *, foresees: bool) -> _Connection:
        hop, name = self.hop, self.name
        known = read_known_hosts(hop.known_hosts)
        began = time.monotonic()
        ground = self._ground(target)
        connection = None
        try:
            wires = self._wire_maker(ground, known.key_types(name))
            connection = _fabric(hop, ground, wires)
            policy = _Policy(target, self, known, self._recorded)
            connection.client.set_missing_host_key_policy(policy)
            strategy = PublicKeys(target, hop, self._keyring, foresees=foresees)
            connection.connect_kwargs["auth_strategy"] = strategy
            connection.open()
        except BaseException as error:
            if connection is not None:
                connection.client.close()
            self._explain(error, target, ground)
            raise
        made = _Connection(connection, ground)
        made.wire.set_keepalive(_KEEPALIVE_S)
        _log.debug(
            "%s: connected to %s as %s in %.3f s",
            target,
            hop.place,
            hop.user,
            time.monotonic() - began,
        )
        return made

    def _ground(self, target: str) -> Dialled:
        """What a connection to the host runs over. Raises what ``wire`` does."""
        gateway = self._gateway.wire(target) if self._gateway is not None else None
        try:
            if gateway is None:
                return dial(self.hop)
            return Dialled(gateway.tunnel(self.hop.host, self.hop.port), beneath=gateway)
        except SessionRefusedError as error:
            assert self._gateway is not None, "only a gateway refuses"
            reason = f"{self._gateway.hop.place} cannot reach it: {error}"
            raise self._unreachable(target, reason) from error
        # UnicodeError: Python refuses the name before the system sees it.
        except (OSError, UnicodeError) as error:
            raise self._unreachable(target, in_words(error)) from error

    def _explain(self, error: BaseException, target: str, ground: Dialled) -> None:
        """Close what there was of a connection, and raise Unreachable if the error means that."""
        said = ground.close()
        if isinstance(error, SSHException | OSError | EOFError):
            reason = "; ".join(filter(None, (in_words(error), said)))
            raise self._unreachable(target, reason) from error

    def _wire_maker(self, ground: Dialled, key_types: tuple[str, ...]) -> Callable[..., Wire]:
        """For Paramiko's client, which makes its own. ``key_types``: of known host keys."""

        def make(sock: Any, **options: Any) -> Wire:
            wire = Wire(sock, ground.beneath, self._deadlines, **options)
            security = wire.get_security_options()
            security.ciphers = _CIPHERS
            # As OpenSSH: ask first for a kind of host key that known_hosts can vouch for.
            known = [kind for kind in security.key_types if _signed_by(kind) in key_types]
            security.key_types = tuple(dict.fromkeys([*known, *security.key_types]))
            return wire

        return make

    def _unreachable(self, target: str, reason: str) -> Unreachable:
        hop = self.hop
        return Unreachable(target=target, address=hop.place, reason=reason, ssh=hop.by_hand)


class _Connection:
    """An open connection, with what it rests on."""

    def __init__(self, connection: fabric.Connection, ground: Dialled) -> None:
        self._client: paramiko.SSHClient = connection.client
        self.wire: Wire = connection.transport
        self._ground = ground

    def close(self) -> None:
        self._client.close()
        self._ground.close()


def _fabric(hop: Hop, ground: Dialled, wires: Callable[..., Wire]) -> fabric.Connection:
    """Fabric's connection, not yet open. It reads no configuration file of its own."""
    import fabric
    from paramiko.config import SSHConfig

    settings = {"load_ssh_configs": False}
    return fabric.Connection(
        hop.host,
        user=hop.user,
        port=hop.port,
        config=fabric.Config(overrides=settings, ssh_config=SSHConfig(), lazy=True),
        gateway=False,
        forward_agent=False,
        connect_kwargs={"sock": ground.sock, "transport_factory": wires},
    )


def _signed_by(algorithm: str) -> str:
    return "ssh-rsa" if algorithm.startswith("rsa-sha2-") else algorithm


class _Policy:
    """Paramiko's policy for a key it does not know: it knows none, we decide on each."""

    def __init__(
        self, target: str, host: SshHost, known: KnownHosts, recorded: Callable[[Recorded], None]
    ) -> None:
        self._target, self._host, self._known, self._recorded = target, host, known, recorded

    def missing_host_key(self, client: object, hostname: str, key: paramiko.PKey) -> None:
        """Raises HostKeyUnknown or HostKeyChanged, which ends the connection."""
        hop, name, blob = self._host.hop, self._host.name, key.asbytes()
        try:
            self._known.check(self._target, name, key.get_name(), blob)
        except HostKeyUnknown:
            if not hop.accept_new or hop.record_in is None:
                raise
            path = hop.record_in
            if record(path, name, key.get_name(), blob, hashed=hop.hash_names):
                told = fingerprint(blob)
                _log.debug("%s: recorded %s in %s", hop.place, told, path)
                self._recorded(
                    Recorded(place=hop.place, key_type=key.get_name(), fingerprint=told, path=path)
                )


def _for_target(error: DflashError, target: str) -> DflashError:
    """The same error, told of another target on the same host."""
    kind: Any = type(error)
    again: DflashError = kind(**{**vars(error), "target": target})
    return again
