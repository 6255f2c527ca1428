"""A run's output on its way to the screen: as text, as objects, or as one object."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Protocol

from dflashctl.agent.protocol import LogEnd
from dflashctl.plan.look import look_for
from dflashctl.view import json
from dflashctl.view.outcome import ending
from dflashctl.view.sanitize import Cleaner

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dflashctl.agent.protocol import Logs, LogText
    from dflashctl.cli.call import Call
    from dflashctl.link.client import Agent
    from dflashctl.plan.model import Desired
    from dflashctl.view.console import Screen


class Sink(Protocol):
    """Where a run's output goes."""

    def text(self, piece: str) -> None:
        """A piece of it, cut anywhere."""

    def end(self, end: LogEnd) -> None:
        """No more will come."""


def sink(call: Call, target: str, request: Logs, raw: bool = False) -> Sink:
    """What the options ask for."""
    if raw:
        return _Raw(call.screen)
    if not call.json:
        return _Text(call.screen)
    return _Lines(call.screen, target) if request.follow else _Whole(call.screen, target)


def print_all(to: Sink, pieces: Iterable[LogText | LogEnd]) -> LogEnd:
    """Hand every piece on; the end is the answer."""
    for piece in pieces:
        if isinstance(piece, LogEnd):
            to.end(piece)
            return piece
        to.text(piece.text)
    raise AssertionError("a log that has no end")


def tell_end(call: Call, agent: Agent, desired: Desired, end: LogEnd) -> None:
    """Say how a followed run ended."""
    seen = agent.observe(look_for(desired, gpus=False))
    call.screen.say(f"run {end.run_id} {ending(seen, end)}")


class _Text:
    """As it was printed, without what moves cursors."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        # On a terminal a progress bar goes on redrawing its line.
        self._cleaner = Cleaner("\r" if sys.stdout.isatty() else "\n")

    def text(self, piece: str) -> None:
        self._screen.write(self._cleaner.feed(piece))

    def end(self, _: LogEnd) -> None:
        self._screen.write(self._cleaner.end())


class _Raw:
    """As it was printed, for who asked for just that."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    def text(self, piece: str) -> None:
        self._screen.write(piece)

    def end(self, _: LogEnd) -> None:
        pass


class _Lines:
    """One object a line of output, and one for the end."""

    def __init__(self, screen: Screen, target: str) -> None:
        self._screen = screen
        self._target = target
        self._cleaner = Cleaner()
        self._rest = ""

    def text(self, piece: str) -> None:
        *lines, self._rest = (self._rest + self._cleaner.feed(piece)).split("\n")
        for line in lines:
            self._screen.write(json.log_event(self._target, "line", text=line))

    def end(self, end: LogEnd) -> None:
        self.text("\n" if self._rest else "")
        closing = json.log_event(self._target, "end", run_id=end.run_id, state=end.state)
        self._screen.write(closing)


class _Whole:
    """All of it in the one object of the command."""

    def __init__(self, screen: Screen, target: str) -> None:
        self._screen = screen
        self._target = target
        self._cleaner = Cleaner()
        self._parts: list[str] = []

    def text(self, piece: str) -> None:
        self._parts.append(self._cleaner.feed(piece))

    def end(self, end: LogEnd) -> None:
        text = "".join((*self._parts, self._cleaner.end()))
        self._screen.write(json.envelope("logs", 0, {self._target: whole(text, end)}))


def whole(text: str, end: LogEnd) -> dict[str, Any]:
    """A clean log as JSON has it."""
    lines = text.removesuffix("\n").split("\n") if text else []
    return {"run_id": end.run_id, "state": end.state, "lines": lines, "error": None}


class NamedText:
    """Whole lines, each behind the name of its target."""

    def __init__(self, screen: Screen, name: str) -> None:
        self._screen, self._name = screen, name
        self._cleaner = Cleaner()
        self._rest = ""

    def text(self, piece: str) -> None:
        """A piece of it, cut anywhere."""
        *lines, self._rest = (self._rest + self._cleaner.feed(piece)).split("\n")
        if lines:
            self._screen.write("".join(f"{self._name}  {line}\n" for line in lines))

    def end(self, _: LogEnd) -> None:
        """No more will come."""
        self.text("\n" if self._rest else "")
