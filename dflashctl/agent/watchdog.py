"""Watches a run on its own target, so that somebody is told with no operator's machine on.

Run by tmux, in a session of its own, as ``python3 watchdog.py <run folder>``. It looks as
`status` does, judges as `status` does, tells what is new, and ends with the run. Where the
playbook asks for it, it starts a run that failed once more (`again`).
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from dflashctl.agent import process, wire
from dflashctl.agent.again import Again, Tell, has_failed
from dflashctl.agent.notify import deliver, text
from dflashctl.agent.observe import observe
from dflashctl.agent.prometheus import exposition
from dflashctl.agent.protocol import Look, StartRun
from dflashctl.agent.records import RunFolder, StateFolder, read_json, write_json
from dflashctl.agent.seen import LIVE_STATES, Observed, RunSeen, VerdictSeen
from dflashctl.agent.session import clean_environment
from dflashctl.agent.watching import Channel, Event, Notice, Watch

# A verdict is over when so many looks in a row did not give it.
CLEAR = 3
# What could not be told is tried again with every look, but not for ever.
TRIES = 20
LAST_TRIES_S = 60.0
POLL_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What the watchdog is started with; the file is gone once read.

    ``start``: how the run was started, secrets and all, if it is to be started again when it
    fails; by the tool of that ``version``.
    """

    look: Look
    state_dir: str
    watch: Watch
    start: StartRun | None = None
    version: str = ""


class Watchman:
    """Turns looks into notices: each verdict once when it comes and once when it goes."""

    def __init__(self, job: str, host: str) -> None:
        self._job, self._host = job, host
        self._known: dict[str, VerdictSeen] = {}
        self._missed: dict[str, int] = {}

    def see(self, seen: Observed, run_id: str) -> list[Notice]:
        """What is new in this look."""
        run = seen.run
        if run is None or run.id != run_id:
            return []
        if run.state not in LIVE_STATES:
            return [self.notice("ended", run.state, _ending(run, seen.verdicts), seen)]
        now = {verdict.code: verdict for verdict in _verdicts(seen)}
        found = [
            self.notice("verdict", code, verdict.evidence, seen)
            for code, verdict in now.items()
            if code not in self._known
        ]
        for code in [code for code in self._known if code not in now]:
            self._missed[code] = self._missed.get(code, 0) + 1
            if self._missed[code] >= CLEAR:
                del self._known[code], self._missed[code]
                found.append(self.notice("cleared", code, "", seen))
        for code, verdict in now.items():
            self._known[code] = verdict
            self._missed.pop(code, None)
        return found

    def notice(self, event: Event, code: str, evidence: str, seen: Observed) -> Notice:
        """What is told of the run."""
        return Notice(
            event=event,
            code=code,
            evidence=evidence,
            job=self._job,
            run=seen.run.id if seen.run else None,
            host=self._host,
            progress=_progress(seen),
            at=seen.now,
        )


def _verdicts(seen: Observed) -> Iterator[VerdictSeen]:
    yield from seen.verdicts
    if seen.state == "ORPHANED":
        evidence = "its processes live without their supervisor or session"
        yield VerdictSeen(code="orphaned", since=None, evidence=evidence)
    if seen.gpus is not None and seen.gpus.status in ("unresponsive", "unreadable"):
        evidence = seen.gpus.error or "nvidia-smi gives no answer"
        yield VerdictSeen(code=f"gpus_{seen.gpus.status}", since=None, evidence=evidence)


def _ending(run: RunSeen, verdicts: tuple[VerdictSeen, ...]) -> str:
    """How it ended, in words."""
    if run.stopped_by:
        return f"stopped by {run.stopped_by}"
    if run.oom:
        return "the kernel ended it for want of memory"
    if run.signal:
        return f"ended by signal {run.signal}"
    if run.exit_code is not None:
        return f"exit code {run.exit_code}"
    return verdicts[0].evidence if verdicts else "nobody recorded how"


def _progress(seen: Observed) -> str:
    metrics = seen.metrics
    if metrics is None or metrics.step is None:
        return ""
    total = f" of {metrics.total_steps:.0f}" if metrics.total_steps else ""
    loss = f", loss {metrics.loss_smoothed:.4g}" if metrics.loss_smoothed is not None else ""
    return f"step {metrics.step:.0f}{total}{loss}"


class Post:
    """Sends notices, tries again what could not be sent, and keeps a record of both."""

    def __init__(self, channels: tuple[Channel, ...], record: Path) -> None:
        self._channels, self._record = channels, record
        self._waiting: list[tuple[Channel, Notice, int]] = []

    def add(self, notice: Notice) -> None:
        """A notice for every channel."""
        print(text(notice), flush=True)  # noqa: T201 - for who attaches to its session
        self._write({"told": asdict(notice)})
        self._waiting += [(channel, notice, 0) for channel in self._channels]

    def send(self) -> bool:
        """Try all that waits; whether nothing waits any more."""
        rest = []
        for channel, notice, tries in self._waiting:
            problem = deliver(channel, notice)
            outcome = {"channel": channel.kind, "code": notice.code, "problem": problem}
            if problem is None or tries == 0 or tries + 1 == TRIES:
                self._write({"sent": outcome})
            if problem is not None and tries + 1 < TRIES:
                rest.append((channel, notice, tries + 1))
        self._waiting = rest
        return not rest

    def _write(self, row: dict[str, Any]) -> None:
        with suppress(OSError), self._record.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"at": round(time.time(), 3), **row}) + "\n")


def watch(folder: RunFolder) -> None:
    """Look, judge and tell until the run is over or another one is the newest."""
    clean_environment()
    raw = read_json(folder.orders)
    folder.orders.unlink(missing_ok=True)
    if raw is None:
        return
    orders: Orders = wire.from_json(Orders, raw)
    state = StateFolder(path=Path(orders.state_dir))
    me = process.look(os.getpid())
    write_json(folder.watchdog, {"process": me.process if me else None, "at": time.time()})
    watchman = Watchman(orders.look.job, socket.gethostname())
    post = Post(orders.watch.channels, folder.watched)
    had: str | None = None
    while True:
        seen = _look(orders.look, state)
        if seen is not None and seen.checkpoints is not None:
            had = seen.checkpoints.latest or had
        notices = watchman.see(seen, folder.id) if seen else []
        for notice in notices:
            post.add(notice)
        post.send()
        if seen is not None and orders.watch.textfile:
            _textfile(orders.watch.textfile, orders.look.job, seen)
        gone = seen is not None and (seen.run is None or seen.run.id != folder.id)
        if gone or any(notice.event == "ended" for notice in notices):
            break
        _rest(orders.watch.every_s, folder)
    if seen is not None and not gone:
        _start_again(orders, state, had, lambda code, why: _tell(post, watchman, seen, code, why))
    deadline = time.monotonic() + LAST_TRIES_S
    while not post.send() and time.monotonic() < deadline:
        time.sleep(5.0)


def _start_again(orders: Orders, state: StateFolder, had: str | None, tell: Tell) -> None:
    """Start the run again if that is asked for and it failed."""
    start, limit, seen = orders.start, orders.watch.restart, _look(orders.look, state)
    if start is None or limit is None or seen is None or seen.run is None:
        return
    if seen.run.id != start.run_id or not has_failed(seen.run):
        return
    again = Again(
        start=start,
        limit=limit,
        look=orders.look,
        state=state,
        version=orders.version,
        had=had,
        tell=tell,
    )
    try:
        again.run()
    except Exception as error:  # somebody must hear of it
        tell("failed", f"{type(error).__name__}: {error}")


def _tell(post: Post, watchman: Watchman, seen: Observed, code: str, why: str) -> None:
    post.add(watchman.notice("restart", code, why, seen))
    post.send()


def _look(look: Look, state: StateFolder) -> Observed | None:
    """A look; one that fails is no reason to stop watching."""
    with suppress(Exception):
        return observe(look, state)
    return None


def _rest(seconds: float, folder: RunFolder) -> None:
    """Until the next look, or until the run is over."""
    over, until = folder.exit.exists(), time.monotonic() + seconds
    while time.monotonic() < until and (over or not folder.exit.exists()):
        time.sleep(min(POLL_S, seconds))


def _textfile(path: str, job: str, seen: Observed) -> None:
    """Whole or not at all; readable for the exporter."""
    temporary = f"{path}.{os.getpid()}.new"
    with suppress(OSError):
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(exposition(job, seen, {}))
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)


if __name__ == "__main__":
    watch(RunFolder(path=Path(sys.argv[1])))
