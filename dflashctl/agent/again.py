"""Starts a run that failed once more, from its newest complete checkpoint: the watchdog's part.

It is an ordinary transaction (`apply.perform`), with the release, the environment and the
boundaries of the run that failed. What is not known for certain is never acted on.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from dflashctl.agent import restarts
from dflashctl.agent.apply import perform
from dflashctl.agent.curves import in_words
from dflashctl.agent.failures import AgentError
from dflashctl.agent.ids import run_id, transaction_id
from dflashctl.agent.observe import observe
from dflashctl.agent.protocol import Commit, FileWanted, Look, StartRun
from dflashctl.agent.records import StateFolder
from dflashctl.agent.seen import Observed, RunSeen
from dflashctl.agent.watching import Attempt, Came, Restart, RestartSeen

LONGEST_S = 3600.0
# For so long another's lock, and changes just now, are waited out.
PATIENCE_S = 3600.0
POLL_S = 0.5
# These ask a program to end: somebody, or the machine that goes down, wanted it so.
_ASKED = {"INT": 130, "TERM": 143, "HUP": 129, "QUIT": 131}

Tell = Callable[[str, str], None]


def has_failed(run: RunSeen) -> bool:
    """Whether it ended by a fault: not finished, not stopped, not by anybody's word."""
    return run.state == "FAILED" and run.stopped_by is None


def against(seen: Observed, start: StartRun, had: str | None) -> str | None:
    """Why the run that failed may not be started again; None: it may.

    ``had``: a complete checkpoint that was there while it ran.
    """
    run, store = seen.run, seen.checkpoints
    if run is None or run.ended_at is None:
        return "nobody recorded how it ended"
    if run.exit_name == "refused":
        return f"exit code {run.exit_code} says that it refuses"
    if run.signal in _ASKED or run.exit_code in _ASKED.values():
        how = f"signal {run.signal}" if run.signal else f"exit code {run.exit_code}"
        return f"{how} is how somebody ends it by hand"
    if not _as_released(seen, start.release):
        return "files on the target are not those that it ran"
    if had is not None and (store is None or not store.complete):
        return f"its checkpoints are not there any more ({had} was)"
    return None


def taken(seen: Observed) -> str | None:
    """What has taken the place of the run, if anything has."""
    return f"the tmux session {seen.session.name} is in use" if seen.session else None


def _as_released(seen: Observed, release: tuple[FileWanted, ...]) -> bool:
    there = {file.dest: (file.sha256, file.mode) for file in seen.files}
    return all(there.get(file.dest) == (file.sha256, file.mode) for file in release)


def command_of(seen: Observed, start: StartRun) -> tuple[str, ...]:
    """The trainer's words: those that resume, where a complete checkpoint is there."""
    complete = seen.checkpoints is not None and seen.checkpoints.complete
    fresh = start.about.fresh or start.command
    return (start.about.resume or fresh) if complete else fresh


@dataclass(kw_only=True)
class Again:
    """One failed run, until it is started again or left alone.

    Attributes:
        had: a complete checkpoint that was there while it ran.
        tell: says what becomes of it: a code of `Came`, or ``failed``; and words.
    """

    start: StartRun
    limit: Restart
    look: Look
    state: StateFolder
    version: str
    had: str | None
    tell: Tell

    def run(self) -> None:
        """Wait, start it again, and go on until it has started or must not be."""
        before = self.start.about.attempt
        number = before.number + 1 if before else 1
        while True:
            if number > self.limit.limit:
                self._leave(number - 1, "given_up", f"the limit of {self.limit.limit} is reached")
                return
            why = against(self._observe(), self.start, self.had)
            if why is not None:
                self._leave(number, "given_up", why)
                return
            due_at = time.time() + min(LONGEST_S, self.limit.after_s * 2 ** (number - 1))
            self._record(number, due_at, "waits", "")
            wait_s = in_words(due_at - time.time())
            self.tell("waits", f"attempt {number} of {self.limit.limit} in {wait_s}")
            if not self._wait(due_at) or self._started(number, due_at):
                return
            number += 1

    def _observe(self) -> Observed:
        look = replace(self.look, files=self.start.release, gpus=False)
        return observe(look, self.state)

    def _wait(self, due_at: float) -> bool:
        """Until it is due; False when it was forbidden meanwhile."""
        while True:
            who = restarts.forbidden(self.state, self.look.job, self.start.run_id)
            if who is not None:
                self._leave(None, "cancelled", who)
                return False
            if time.time() >= due_at:
                return True
            time.sleep(min(POLL_S, max(0.0, due_at - time.time())))

    def _started(self, number: int, due_at: float) -> bool:
        """One attempt; whether there is no more to do."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            if not self._wait(0.0):
                return True
            seen = self._observe()
            why = against(seen, self.start, self.had) or taken(seen)
            if why is not None:
                self._leave(number, "given_up", why)
                return True
            try:
                problem, new = self._commit(seen, number)
            except AgentError as error:
                problem, new = error.failure.code, None
            if problem is None and new is not None:
                self._record(number, due_at, "started", new)
                self.tell("started", f"attempt {number} of {self.limit.limit}: run {new}")
                return True
            if problem not in ("lock_held", "stale") or time.monotonic() > deadline:
                self.tell("failed", f"attempt {number} of {self.limit.limit}: {problem}")
                return False
            time.sleep(2.0)

    def _commit(self, seen: Observed, number: int) -> tuple[str | None, str | None]:
        job, now = self.look.job, datetime.now(timezone.utc)
        attempt = Attempt(of=self.start.run_id, number=number, limit=self.limit.limit)
        start = replace(
            self.start,
            run_id=run_id(job, now, secrets.choice),
            command=command_of(seen, self.start),
            about=replace(self.start.about, attempt=attempt),
        )
        commit = Commit(
            transaction=transaction_id(job, now, secrets.choice),
            look=replace(self.look, files=self.start.release, gpus=False),
            fingerprint=seen.fingerprint,
            actions=(start,),
            who=restarts.watchdog(self.version),
        )
        outcome = perform(commit, self.state, lambda _: None)
        failure = outcome.failure
        if failure is None:
            return None, start.run_id
        return str(failure.detail.get("reason") or failure.code), None

    def _record(self, number: int, due_at: float, came: Came, why: str) -> None:
        folder = self.state.run(self.look.job, self.start.run_id)
        limit = self.limit.limit
        restarts.write(
            folder, RestartSeen(number=number, limit=limit, due_at=due_at, came=came, why=why)
        )

    def _leave(self, number: int | None, came: Came, why: str) -> None:
        """It is left alone: on record, and told."""
        folder = self.state.run(self.look.job, self.start.run_id)
        found = restarts.see(folder)
        due_at = found.due_at if found else time.time()
        self._record(number or (found.number if found else 1), due_at, came, why)
        words = {"cancelled": f"by {why}"}.get(came, why)
        self.tell(came, words)
