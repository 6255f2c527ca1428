"""The record of a restart: what the watchdog does about a run that failed, and who forbids it.

It lies in the failed run's folder, as ``restart.json``: number, limit, due_at, came, why.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any

from dflashctl.agent import process, wire
from dflashctl.agent.failures import AgentError
from dflashctl.agent.journal import at_work_since, name_of
from dflashctl.agent.protocol import Who
from dflashctl.agent.records import RunFolder, StateFolder, read_json, write_json
from dflashctl.agent.watching import Attempt, RestartSeen


def watchdog(version: str) -> Who:
    """Whom a restart is made by."""
    return Who(user="watchdog", host=socket.gethostname(), version=version)


def see(folder: RunFolder) -> RestartSeen | None:
    """What is on record; one that waits for a watchdog that is gone is ``unwatched``."""
    with suppress(TypeError):
        record = read_json(folder.restart)
        if record is not None:
            found = RestartSeen(**record)
            if found.came == "waits" and not _is_watched(folder):
                return replace(found, came="unwatched")
            return found
    return None


def _is_watched(folder: RunFolder) -> bool:
    recorded = (read_json(folder.watchdog) or {}).get("process")
    return isinstance(recorded, list) and process.is_alive(process.Process(*recorded))


def write(folder: RunFolder, restart: RestartSeen) -> None:
    """Put it on record."""
    write_json(folder.restart, asdict(restart))


def cancel(folder: RunFolder, who: str) -> None:
    """Forbid it. One that is no more to come stays as it is."""
    found = see(folder)
    if found is not None and found.came in ("waits", "unwatched"):
        write(folder, replace(found, came="cancelled", why=who))


def attempt(record: dict[str, Any]) -> Attempt | None:
    """That the watchdog started a run, from its ``run.json``."""
    with suppress(wire.WireError):
        found = wire.from_json(Attempt, record.get("attempt"))
        return found if isinstance(found, Attempt) else None
    return None


def forbidden(state: StateFolder, job: str, run_id: str) -> str | None:
    """Who wants this run not to be started again: by a word, or by work on the job since."""
    folder, current = state.run(job, run_id), state.current(job)
    if current is None or current.id != run_id:
        return "another run"
    found, stop = see(folder), read_json(folder.stop)
    if stop is not None:
        return str(stop.get("by", "somebody"))
    if found is not None and found.came == "cancelled":
        return found.why
    ended_at = float((read_json(folder.exit) or {}).get("ended_at", 0.0))
    return at_work_since(state, job, ended_at, name_of(watchdog("")))


def still_wanted(state: StateFolder, job: str, made: Attempt) -> None:
    """Called with the target's lock held, just before the start.

    Raises:
        AgentError: ``stale``: somebody has forbidden it meanwhile.
    """
    if forbidden(state, job, made.of) is not None:
        raise AgentError("stale", changed=["restart"])
