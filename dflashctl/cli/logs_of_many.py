"""logs of several targets: one after the other, or followed all at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dflashctl.agent.protocol import LogEnd
from dflashctl.cli.logstream import NamedText, print_all, sink, tell_end, whole
from dflashctl.cli.reach import Agents
from dflashctl.cli.reading import read_each
from dflashctl.errors import DflashError, NothingRuns, worst
from dflashctl.link.fanout import each
from dflashctl.view.outcome import show_error
from dflashctl.view.sanitize import clean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dflashctl.agent.protocol import Logs, LogText
    from dflashctl.cli.call import Call
    from dflashctl.plan.model import Desired

_Read = tuple[str, LogEnd]


def show(call: Call, wanted: tuple[Desired, ...], request: Logs) -> int:
    """Print what there is of each."""

    def read(agents: Agents, desired: Desired) -> _Read:
        parts: list[str] = []
        for piece in _pieces(agents, desired, request):
            if isinstance(piece, LogEnd):
                return clean("".join(parts)), piece
            parts.append(piece.text)
        raise AssertionError("a log that has no end")

    return read_each(
        call,
        wanted,
        read,
        lambda _, found: whole(*found),
        lambda _, found: call.screen.write(found[0]),
    )


def follow(call: Call, wanted: tuple[Desired, ...], request: Logs) -> int:
    """Print what comes of any, until the last run ends, or Ctrl-C."""
    width = max(len(one.target.name) for one in wanted)
    with call.reach() as reach, Agents(reach) as agents:

        def watch(desired: Desired) -> LogEnd:
            name = desired.target.name
            named = NamedText(call.screen, f"{name:<{width}}")
            to = sink(call, name, request) if call.json else named
            return print_all(to, _pieces(agents, desired, request))

        try:
            ended = each(wanted, watch, at_once=len(wanted))
        except KeyboardInterrupt:  # the way to end -f: nothing to explain
            return 130
        for desired, end in zip(wanted, ended, strict=True):
            name = desired.target.name
            if isinstance(end, DflashError):
                show_error(call.screen, end, again=call.same_again(name))
            else:
                tell_end(call, agents.at(desired.target), desired, end)
    return worst([0, *(end.exit_code for end in ended if isinstance(end, DflashError))])


def _pieces(agents: Agents, desired: Desired, request: Logs) -> Iterator[LogText | LogEnd]:
    """Raises NothingRuns: there is no such run."""
    try:
        yield from agents.at(desired.target, request).logs(request)
    except NothingRuns as error:
        error.run_id = request.run_id
        raise
