"""status --watch: look again and again, also across a lost link, until Ctrl-C."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dflashctl.errors import DflashError, TargetLacks, TryAgain, Unreachable, worst

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from dflashctl.agent.protocol import Look
    from dflashctl.agent.seen import Observed
    from dflashctl.cli.call import Call
    from dflashctl.cli.reach import Reach
    from dflashctl.inventory.model import Route, Target
    from dflashctl.view.status import Report

EVERY_S = 2.0
RETRY_S = 3.0
# An agent at work gives a sign of life every 5 s; a link that is silent for longer is dead,
# though the system may take its time to say so.
LATE_S = 12.0
_HEAL = (Unreachable, TargetLacks, TryAgain)


class SharedWay:
    """One way to a host for all who look at targets on it; one that broke is replaced.

    Each with a connection of its own would be more than an sshd lets in at once.
    """

    def __init__(self, make: Callable[[], Reach]) -> None:
        self._make, self._lock = make, threading.Lock()
        self._now: Reach | None = None
        self._users: dict[int, int] = {}

    @contextmanager
    def use(self) -> Iterator[Reach]:
        """The way, for as long as it holds; whoever leaves it last closes it."""
        with self._lock:
            if self._now is None:
                self._now = self._make().__enter__()
            reach = self._now
            self._users[id(reach)] = self._users.get(id(reach), 0) + 1
        try:
            yield reach
        except Unreachable:
            with self._lock:
                if self._now is reach:
                    self._now = None
            raise
        finally:
            with self._lock:
                self._users[id(reach)] -= 1
                is_last = not self._users[id(reach)]
                if is_last:
                    del self._users[id(reach)]
                    self._now = None if self._now is reach else self._now
            if is_last:
                reach.__exit__(None, None, None)


class Watcher:
    """Looks at one target from a thread of its own; `report` is what is known right now."""

    def __init__(self, target: Target, look: Look, way: SharedWay) -> None:
        self._target, self._look, self._way = target, look, way
        self._stop, self.first = threading.Event(), threading.Event()
        self._asked = time.monotonic()
        self._seen: tuple[Observed, float] | None = None
        self._error: DflashError | None = None
        self.fatal: DflashError | None = None
        self._fault: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=target.name, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stop looking; a look that hangs is left to itself."""
        self._stop.set()

    def report(self) -> Report:
        """The newest state, or why there is none, with the last known one.

        Any other exception than a DflashError is a fault of ours and is raised.
        """
        from dflashctl.cli.health import report
        from dflashctl.view.status import Report

        if self._fault is not None:
            raise self._fault
        now, seen, error = time.monotonic(), self._seen, self.fatal or self._error
        late = now - self._asked
        if error is None and late > LATE_S:
            reason = f"no answer for {late:.0f} s"
            error = Unreachable(target=self._target.name, address=self._target.name, reason=reason)
        if error is None and seen is not None:
            return report(self._target, seen[0])
        return Report(
            target=self._target.name,
            error=error,
            last=seen[0] if seen else None,
            last_age_s=now - seen[1] if seen else None,
        )

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._asked = time.monotonic()
                with self._way.use() as reach, reach.agent(self._target, self._look) as agent:
                    while not self._stop.is_set():
                        self._asked = time.monotonic()
                        seen = agent.observe(self._look)
                        self._seen, self._error = (seen, time.monotonic()), None
                        self.first.set()
                        self._rest(EVERY_S)
            except _HEAL as error:
                self._error = error
                self.first.set()
                self._rest(RETRY_S)
            except DflashError as error:
                self.fatal = error
                self.first.set()
                return
            except Exception as error:
                self._fault = error
                self.first.set()
                return

    def _rest(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self._stop.is_set() and (left := until - time.monotonic()) > 0:
            self._asked = time.monotonic()  # who rests is not late
            self._stop.wait(min(left, 1.0))


def watch(call: Call, targets: Sequence[Target], look: Callable[[Target], Look]) -> int:
    """Show the state of the targets again and again; 130 after Ctrl-C."""
    from dflashctl.inventory.select import in_short

    ways: dict[Route, SharedWay] = {}
    watchers = [
        Watcher(target, look(target), ways.setdefault(_host(target), SharedWay(call.reach)))
        for target in targets
    ]
    try:
        with call.screen.waiting(f"looking at {in_short(targets)}"):
            for watcher in watchers:
                watcher.first.wait()
        if call.json:
            _objects(call, watchers)
        elif call.screen.redraws:
            _screen(call, watchers)
        else:
            _blocks(call, watchers)
    except KeyboardInterrupt:  # the way to end it
        return 130
    finally:
        for watcher in watchers:
            watcher.end()
    raise AssertionError("watching has no end of its own")


def _host(target: Target) -> Route:
    from dflashctl.inventory.model import InContainer

    return target.route.host if isinstance(target.route, InContainer) else target.route


def _reports(watchers: Sequence[Watcher]) -> tuple[Report, ...]:
    """How they stand. Of several, one that can never be reached keeps the others from nothing.

    Raises:
        DflashError: one that no waiting heals, if all have such a one.
    """
    from dflashctl.cli.health import together

    beyond = [watcher.fatal for watcher in watchers if watcher.fatal is not None]
    if len(beyond) == len(watchers):
        raise beyond[0]
    return together([watcher.report() for watcher in watchers])


def _objects(call: Call, watchers: Sequence[Watcher]) -> None:
    """One object a line."""
    from dflashctl.cli.health import exit_code
    from dflashctl.view import json
    from dflashctl.view.nodes import runs_object

    while True:
        reports = _reports(watchers)
        code = worst([exit_code(one) for one in reports])
        shapes = {one.target: json.status_object(one) for one in reports}
        runs, again = runs_object(reports), call.screen.again()
        call.screen.write(json.envelope("status", code, shapes, again=again, runs=runs))
        rest(EVERY_S)


def _blocks(call: Call, watchers: Sequence[Watcher]) -> None:
    """Without a terminal: one status after the other."""
    from dflashctl.view.live import screenful

    while True:
        reports = _reports(watchers)
        call.screen.show(screenful(reports, call.screen.out, call.inventory.groups))
        call.screen.write("\n")
        rest(EVERY_S)


def _screen(call: Call, watchers: Sequence[Watcher]) -> None:
    """A screen of its own that is drawn anew every second."""
    from dflashctl.view.live import live_screen

    with live_screen(call.screen, call.inventory.groups) as draw:
        while True:
            draw(_reports(watchers))
            rest(1.0)


def rest(seconds: float) -> None:
    """Wait for the next drawing."""
    time.sleep(seconds)
