"""The ways to the targets, for the length of one command."""

from __future__ import annotations

import importlib
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Self

    from dflashctl.inventory.model import SshAddress, Target
    from dflashctl.link.client import Agent
    from dflashctl.link.connect import Question
    from dflashctl.link.deadlines import Deadlines
    from dflashctl.link.hostkeys import Recorded
    from dflashctl.link.ssh import SshHost
    from dflashctl.link.sshconfig import Hop
    from dflashctl.link.transport import Transport, Words
    from dflashctl.view.console import Screen


# What most verbs show an answer with, and need no sooner.
_SHOWN_WITH = ("rich.console", "rich.table", "dflashctl.view.fleet", "dflashctl.view.json")


def _load_all() -> None:
    from dflashctl.agent import wire
    from dflashctl.agent.seen import Observed

    for name in _SHOWN_WITH:
        importlib.import_module(name)
    wire.learn(Observed)


class Reach:
    """Opens connections as they are needed, and closes them all at its end.

    The screen does not move while a passphrase or a password is asked for.
    """

    def __init__(self, screen: Screen, deadlines: Deadlines | None = None) -> None:
        from dflashctl.link.asking import ask_on_terminal
        from dflashctl.link.connect import Connections

        def ask(prompt: str) -> str | None:
            with screen.still():
                return ask_on_terminal(prompt)

        def recorded(key: Recorded) -> None:
            from dflashctl.view.hostkeys import say_taken

            say_taken(screen, key)

        self._connections = Connections(ask, deadlines, recorded)
        self._loading: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self._connections.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._connections.__exit__(*error)

    def agent(self, target: Target, first: Question | None = None) -> Agent:
        """An agent at work on the target; a context manager.

        ``first``: what it is asked first, where that is known: it answers the sooner.
        """
        from dflashctl.link.connect import open_agent

        return open_agent(target, self._connections, first, self._load)

    def _load(self) -> None:
        """Load, while something is awaited anyhow, what its answer will be shown with."""
        if not self._loading:
            loading = threading.Thread(target=_load_all, name="loading", daemon=True)
            self._loading.append(loading)
            loading.start()

    def transport(self, target: Target) -> Transport:
        """The way to the target itself; nothing is connected before it is used."""
        return self._connections.transport(target)

    def hop(self, address: SshAddress) -> Hop:
        """What ssh's configuration makes of an address. Raises BadFile."""
        return self._connections.hop(address)

    def on_the_way(self, address: SshAddress) -> tuple[SshHost, ...]:
        """The hosts that a connection there goes to and through, the nearest first."""
        return self._connections.on_the_way(address)

    def terminal_words(self, target: Target, words: Words) -> Words:
        """Words that, run here, run ``words`` on the target with this terminal."""
        return self._connections.transport(target).terminal_words(words)

    def login_words(self, target: Target, term: str, command: Words) -> Words:
        """Words that give this terminal to a login shell, or to a program, on the target."""
        from dflashctl.link.connect import login_words

        return login_words(target, self._connections, term, command)


class Agents:
    """The agents of one command, each started when it is first wanted; a context manager.

    Thread-safe, as long as each target has one thread at a time.
    """

    def __init__(self, reach: Reach) -> None:
        self._reach = reach
        self._open: dict[str, Agent] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self._open):
            self.drop(name)

    def at(self, target: Target, first: Question | None = None) -> Agent:
        """The agent at work on the target. Raises what stands between us and it.

        ``first``: what it is asked next, where that is known: one that has yet to be
        started answers the sooner.
        """
        if target.name not in self._open:
            self._open[target.name] = self._reach.agent(target, first)
        return self._open[target.name]

    def drop(self, name: str) -> None:
        """Let go of a target's agent; if it is wanted once more, another one is started."""
        agent = self._open.pop(name, None)
        if agent is not None:
            agent.close()
