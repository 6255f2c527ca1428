"""From a target of the inventory to an agent on it."""

from __future__ import annotations

import getpass
import os
import threading
from typing import TYPE_CHECKING, assert_never

from dflashctl.agent import wire
from dflashctl.agent.protocol import Logs, Look
from dflashctl.agent.recorded import ListRuns, RecallRun
from dflashctl.inventory.model import InContainer, Local, SshAddress
from dflashctl.link.asking import Asker, ask_on_terminal
from dflashctl.link.auth import Keyring
from dflashctl.link.bundle import Bundle, agent_words, interactive_words, read_bundle
from dflashctl.link.client import Agent, Asked
from dflashctl.link.container import ContainerTransport, HostTransport
from dflashctl.link.deadlines import Deadlines
from dflashctl.link.greeting import greet
from dflashctl.link.local import LocalTransport

if TYPE_CHECKING:
    from collections.abc import Callable

    from dflashctl.inventory.model import Target
    from dflashctl.link.hostkeys import Recorded
    from dflashctl.link.ssh import SshHost
    from dflashctl.link.sshconfig import Hop
    from dflashctl.link.transport import Transport, Words

# What may be asked with the start. Whoever may list processes over there sees it.
Question = Look | Logs | ListRuns | RecallRun
# With the loader it fits into a packet of 35,000 bytes, which every sshd takes.
_LONGEST_WORD = 24_000
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Connections:
    """All ways to all targets of one command; a context manager. Thread-safe.

    A host, also one that others are reached through, has one connection for all.
    """

    def __init__(
        self,
        ask: Callable[[str], str | None] = ask_on_terminal,
        deadlines: Deadlines | None = None,
        recorded: Callable[[Recorded], None] = lambda _: None,
    ) -> None:
        """``ask`` shows a prompt for a secret; None is the answer without a terminal.

        ``recorded`` is told of each host key that was not known, and was taken.
        """
        self.deadlines = deadlines or Deadlines()
        self._asker, self._recorded = Asker(ask), recorded
        self._keyring = Keyring(self._asker.ask)
        self._lock = threading.Lock()
        self._resolved: dict[SshAddress, Hop] = {}
        self._hosts: dict[Hop, SshHost] = {}
        self._bundle: Bundle | None = None

    def transport(self, target: Target) -> Transport:
        """The way to a target. Nothing is connected before it is used."""
        route = target.route
        if isinstance(route, InContainer):
            host = self._to_host(route.host, target.name)
            return ContainerTransport(host, route.host_name, route.vmid, target.name)
        return self._to_host(route, target.name)

    def hop(self, address: SshAddress) -> Hop:
        """Everything about the way to an address. Raises BadFile: ssh's own configuration."""
        return self._resolve(address)

    def on_the_way(self, address: SshAddress) -> tuple[SshHost, ...]:
        """The hosts that a connection to the address is made to, the nearest to us first."""
        hop: Hop | str | None = self._resolve(address)
        hosts: list[SshHost] = []
        while hop is not None and not isinstance(hop, str):
            hosts.insert(0, self._host(hop))
            hop = hop.via
        return tuple(hosts)

    def bundle(self) -> Bundle:
        """What is shipped to targets, read once."""
        with self._lock:
            if self._bundle is None:
                self._bundle = read_bundle()
            return self._bundle

    def close(self) -> None:
        """Close all connections, those that lead through others first."""
        for host in reversed(list(self._hosts.values())):
            host.close()
        self._asker.close()

    def __enter__(self) -> Connections:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _to_host(self, route: SshAddress | Local, target: str) -> HostTransport:
        plain, account = self._to_account(route, target)
        if route.become is None:
            return plain
        from dflashctl.link.sudo import SudoTransport

        return SudoTransport(plain, account, self._asker, self.deadlines.greeting_s)

    def _to_account(self, route: SshAddress | Local, target: str) -> tuple[HostTransport, str]:
        """The way to a host as the user we log in as, and that user's name with the host's."""
        match route:
            case Local():
                return LocalTransport(target), f"{getpass.getuser()}@this machine"
            case SshAddress():
                from dflashctl.link.sshchannel import SshTransport

                hop = self._resolve(route)
                account = f"{hop.user}@{route.address}"
                return SshTransport(self._host(hop), route, target), account
            case _:
                assert_never(route)

    def _resolve(self, address: SshAddress) -> Hop:
        from dflashctl.link.sshconfig import resolve

        hop = self._resolved.get(address)
        if hop is None:
            hop = self._resolved[address] = resolve(address)
        return hop

    def _host(self, hop: Hop) -> SshHost:
        from dflashctl.link.ssh import SshHost

        gateway = None if hop.via is None or isinstance(hop.via, str) else self._host(hop.via)
        with self._lock:
            if hop not in self._hosts:
                about = (self._keyring, self.deadlines, self._recorded)
                self._hosts[hop] = SshHost(hop, gateway, *about)
            return self._hosts[hop]


def open_agent(
    target: Target,
    connections: Connections,
    first: Question | None = None,
    awaited: Callable[[], None] = lambda: None,
) -> Agent:
    """Start an agent on the target, or install and start it there.

    ``first``: what it will be asked first, if that is known: it is told as it starts, and
    its answer then needs no way of its own. ``awaited`` is called when it has been told to
    start, which takes it a while.

    Raises:
        Unreachable, HostKeyProblem, NotLetIn: the target was not reached.
        TargetLacks: it was, and lacks what the agent needs.
        Refused: the agent's files cannot be kept there.
    """
    transport = connections.transport(target)
    bundle = connections.bundle()
    told = _in_a_word(first)
    words = agent_words(target.python, search_path(target), bundle.sha256, target.state_dir, told)
    deadlines = connections.deadlines
    channel = transport.start(words)
    awaited()
    said = greet(target, transport, channel, bundle, deadlines)
    asked = Asked(request=first, said=said) if first is not None and told else None
    return Agent(target.name, transport, channel, deadlines, asked)


def _in_a_word(first: Question | None) -> str:
    """The question as a word, or an empty one where it is to be asked later."""
    if isinstance(first, Look) and first.probe is not None and first.probe.env:
        return ""  # the run's environment is for nobody else to see
    word = wire.in_a_word(wire.dump(first)) if first is not None else ""
    return word if len(word) <= _LONGEST_WORD else ""


def login_words(target: Target, connections: Connections, term: str, command: Words) -> Words:
    """An argv that, run here, becomes a login shell (or ``command``) on this terminal there.

    For a target on which an agent has been before. ``term``: what kind of terminal this is.
    """
    environment = (f"PATH={search_path(target)}", "LC_ALL=C.UTF-8")
    sha256 = connections.bundle().sha256
    words = interactive_words(environment, target.python, sha256, term, target.path, command)
    return connections.transport(target).terminal_words(words)


def search_path(target: Target) -> str:
    """Where the agent looks for programs."""
    # Root does not look where another user keeps programs.
    ours = isinstance(target.route, Local) and target.route.become is None
    path = os.environ.get("PATH", _SYSTEM_PATH) if ours else _SYSTEM_PATH
    return ":".join((*target.path, path))
