"""The lock and the journal: one transaction at a time, and what a cut one was at."""

from __future__ import annotations

import fcntl
import json
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from dflashctl.agent.failures import AgentError
from dflashctl.agent.protocol import Who
from dflashctl.agent.records import StateFolder, read_json, write_json
from dflashctl.agent.seen import CutTransaction, LockSeen

# At least two seconds of tries; a few tenths where somebody is known to hold it.
TRIES, SURE = 100, 8


def name_of(who: Who) -> str:
    """The operator as a person writes it."""
    return f"{who.user}@{who.host}"


@contextmanager
def locked(state: StateFolder, transaction: str, who: Who) -> Iterator[None]:
    """Hold the target's lock. The kernel lets go of it whenever this process ends.

    Raises:
        AgentError: ``lock_held`` with the holder and since when.
    """
    state.create()
    handle = os.open(state.lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        if not _take(handle, state):
            holder = read_json(state.lock_holder) or {}
            raise AgentError(
                "lock_held",
                who=str(holder.get("who", "somebody")),
                since=float(holder.get("since", time.time())),
            )
        record = {"who": name_of(who), "since": time.time(), "transaction": transaction}
        with suppress(OSError):  # it is for messages; a full disk must not keep a stop from us
            write_json(state.lock_holder, record)
        try:
            yield
        finally:
            with suppress(OSError):  # what cannot be removed must not hide the outcome
                state.lock_holder.unlink(missing_ok=True)
    finally:
        os.close(handle)


def _take(handle: int, state: StateFolder) -> bool:
    """Take the lock. Whoever only looks at it (`holder`) has it for less than a moment.

    Lookers leave no record; a holder does, and is believed after a few tries.
    """
    for attempt in range(TRIES):
        with suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        if attempt >= SURE and state.lock_holder.exists():
            return False
        time.sleep(random.uniform(0.01, 0.05))  # noqa: S311 -- to miss lookers, not to hide  # nosec B311
    return False


def holder(state: StateFolder) -> LockSeen | None:
    """Who holds the lock now, without taking it from anybody."""
    try:
        handle = os.open(state.lock, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        # A shared lock fails exactly while an exclusive one is held, and two lookers at
        # once do not disturb each other.
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        record = read_json(state.lock_holder) or {}
        return LockSeen(
            who=str(record.get("who", "somebody")),
            since=float(record.get("since", time.time())),
            transaction=str(record.get("transaction", "")),
        )
    finally:
        os.close(handle)
    return None


class Journal:
    """A transaction's own record, one line a fact, on disk before the next fact begins.

    The job's folder names its newest transaction before that begins: times cannot tell the
    order of journals, as clocks are set back.
    """

    def __init__(self, state: StateFolder, job: str, transaction: str) -> None:
        self._path = _path(state, transaction)
        self._newest = state.newest_transaction(job)
        self._id = transaction

    def begin(self, who: Who, actions: list[str]) -> None:
        """Claim the id, name the transaction, write the first fact.

        Raises:
            AgentError: ``stale``: somebody asked what came of it and was told: nothing.
        """
        if not _claim(self._path):
            raise AgentError("stale", changed=["transaction"])
        named = {"id": self._id, "who": name_of(who), "at": time.time()}
        with suppress(OSError):  # a full disk must not keep a stop from us
            self._newest.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_json(self._newest, named)
        self.write("begin", job=self._newest.parent.name, who=named["who"], actions=actions)

    def write(self, fact: str, **data: Any) -> bool:
        """Append one fact and make it last; whether that was possible."""
        line = json.dumps({"at": time.time(), "fact": fact, **data}).encode() + b"\n"
        with suppress(OSError):
            handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                size = os.fstat(handle).st_size
                if os.write(handle, line) < len(line):
                    os.ftruncate(handle, size)  # half a fact would spoil the next one, too
                    return False
                os.fsync(handle)
            finally:
                os.close(handle)
            return True
        return False

    def end(self, **data: Any) -> None:
        """The last fact. Where it cannot be written, the transaction is not named any more.

        One that came to its end must not look like one that was cut.
        """
        if not self.write("end", **data):
            with suppress(OSError):
                self._newest.unlink(missing_ok=True)


def _path(state: StateFolder, transaction: str) -> Path:
    return state.journal / f"{transaction}.jsonl"


def _claim(journal: Path) -> bool:
    """Make a journal; False when there is one. Only one of all who try it is the first."""
    try:
        os.close(os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600))
    except FileExistsError:
        return False
    except OSError:
        return True  # as with every fact: what cannot be written keeps no work from being done
    return True


def withdraw(state: StateFolder, transaction: str) -> bool:
    """See to it that a transaction never begins; False when it has begun.

    Its commit may still be on its way, long after the connection that brought it has died.
    """
    with suppress(OSError):
        state.create()
    if not _claim(_path(state, transaction)):
        return False
    line = json.dumps({"at": time.time(), "fact": "withdrawn"}) + "\n"
    with suppress(OSError):
        _path(state, transaction).write_text(line, encoding="ascii")
    return True


def facts(state: StateFolder, transaction: str) -> list[dict[str, Any]]:
    """What a transaction wrote down so far; empty when it never began."""
    return _facts(_path(state, transaction))


def cut(state: StateFolder, job: str) -> CutTransaction | None:
    """The job's newest transaction, if it has no end and nobody is at work on it.

    First its name, then whether anybody is at work, then its facts: one that begins or ends
    in this very moment was not cut.
    """
    named = read_json(state.newest_transaction(job)) or {}
    if "id" not in named or holder(state) is not None:
        return None
    known = facts(state, str(named["id"]))
    if known and known[-1].get("fact") == "end":
        return None
    return CutTransaction(
        id=str(named["id"]),
        step=last_step(known),
        at=float((known[-1] if known else named)["at"]),
        who=str(named.get("who", "somebody")),
    )


def at_work_since(state: StateFolder, job: str, since: float, but: str) -> str | None:
    """Who, other than ``but``, has been at work on the job since a moment; None: nobody."""
    for path in state.journal.glob("*.jsonl"):
        if modified(path) > since:
            known = _facts(path)
            if known and known[0].get("job") == job and float(known[-1]["at"]) > since:
                who = str(known[0].get("who", "somebody"))
                if who != but:
                    return who
    return None


def last_step(known: list[dict[str, Any]]) -> str:
    """The action that a transaction was at last."""
    steps = [str(fact["action"]) for fact in known if fact.get("fact") == "step"]
    return steps[-1] if steps else "begin"


def is_over(path: Path) -> bool:
    """Whether the transaction of this journal came to its end, or never is to begin."""
    known = _facts(path)
    return bool(known) and known[-1].get("fact") in ("end", "withdrawn")


def modified(path: Path) -> float:
    """When a journal was last written to."""
    with suppress(OSError):
        return path.stat().st_mtime
    return 0.0


def _facts(path: Path) -> list[dict[str, Any]]:
    found = []
    with suppress(OSError):
        for line in path.read_bytes().splitlines():
            with suppress(ValueError):
                fact = json.loads(line)
                if isinstance(fact, dict):
                    found.append(fact)
    return found
