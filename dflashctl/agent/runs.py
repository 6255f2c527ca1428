"""What has become of a run: its records set beside the processes that really live."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, get_args

from dflashctl.agent import cgroup, library, process, wire
from dflashctl.agent.fabric import Node
from dflashctl.agent.process import Process, Table
from dflashctl.agent.protocol import FileWanted
from dflashctl.agent.records import RunFolder, read_json
from dflashctl.agent.rootcause import first_failure
from dflashctl.agent.seen import Ending, RunSeen, State

# How long a run may take from its record to its first process.
LAUNCH_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Alive:
    """Who of a run lives: the processes recorded at its start, and everyone of its tree.

    ``members`` are all processes that may be signalled for it, without the supervisor,
    which is left to write the record of the end.
    """

    supervisor: Process | None
    tmux: Process | None
    trainer: Process | None
    members: frozenset[Process]
    started: bool
    rebooted: bool


def _recorded(record: dict[str, Any], name: str, rows: Table) -> Process | None:
    value = record.get(name)
    if not isinstance(value, list) or len(value) != 2:
        return None
    noted = Process(*value)
    row = rows.get(noted.pid)
    return noted if row is not None and row.process == noted else None


def alive(folder: RunFolder, rows: Table) -> Alive:
    """Find the run's processes: by the recorded pids of this boot, and by its marker."""
    record = read_json(folder.process) or {}
    rebooted = bool(record) and record.get("boot_id") != process.boot_id()
    if rebooted:
        record = {}
    supervisor = _recorded(record, "supervisor", rows)
    trainer = _recorded(record, "trainer", rows)
    roots = [p.pid for p in (supervisor, trainer) if p is not None]
    members = process.tree(rows, roots) | process.marked(rows, folder.id)
    return Alive(
        supervisor=supervisor,
        tmux=_recorded(record, "tmux", rows),
        trainer=trainer,
        members=frozenset(members - {supervisor}),
        started=bool(record),
        rebooted=rebooted,
    )


def ending(code: int | None, meanings: dict[str, Ending]) -> Ending | None:
    """What an exit code means: 0 is finished, the playbook may name others."""
    if code is None:
        return None
    if code == 0:
        return "finished"
    # A later version may know of endings that this one does not.
    return known_endings(meanings).get(str(code), "failed")


def known_endings(meanings: dict[str, Any]) -> dict[str, Ending]:
    """Of what is on record, the endings that this version knows."""
    return {code: name for code, name in meanings.items() if name in get_args(Ending)}


def state_of(
    *, exit_name: Ending | None, over: bool, asked: bool, who: Alive, fresh: bool
) -> State:
    """The run's state from the facts.

    ``over``: there is a record of its end; ``asked``: somebody asked for it; ``fresh``:
    it was recorded so recently that its processes may not be there yet.
    """
    if over and not who.members:
        if asked or exit_name == "interrupted":
            return "STOPPED"
        return "FINISHED" if exit_name == "finished" else "FAILED"
    if who.supervisor is not None:
        if not who.started:
            return "STARTING"
        # The trainer is gone and what it left is being ended, or the record being written.
        return "ORPHANED" if who.members and who.trainer is None else "RUNNING"
    if who.members:
        return "ORPHANED"
    if fresh:
        return "STARTING"
    return "STOPPED" if asked else "FAILED"


def see(folder: RunFolder, who: Alive, now: float) -> RunSeen | None:
    """The run as its records and the process table tell; None without its record.

    What another version did not record is passed over. A record that was damaged is none, but
    what lives must be told all the same.
    """
    run = read_json(folder.run) or {}
    if not isinstance(run.get("started_at"), int | float):
        if not (who.supervisor or who.members):
            return None
        run = {"started_at": folder.path.stat().st_mtime}
    started, end, stop = read_json(folder.process), read_json(folder.exit), read_json(folder.stop)
    over = end is not None
    code = end.get("exit_code") if end else None
    name = ending(code, run.get("exit_codes") or {})
    if end and name is None:
        name = "failed"
    fresh = started is None and abs(now - float(run["started_at"])) < LAUNCH_S
    oom = end.get("oom") if end else None
    if end is None and started and not (who.rebooted or who.supervisor or who.members):
        # Nobody was left to record the end.
        counted = started.get("oom_kills")
        oom = cgroup.killed_since(cgroup.Kills(*counted) if counted else None)
    asked = stop is not None and not oom
    node = _node(run)
    trainer = (started or {}).get("trainer")
    return RunSeen(
        id=folder.id,
        state=state_of(exit_name=name, over=over, asked=asked, who=who, fresh=fresh),
        pid=trainer[0] if trainer else None,
        started_at=float(run["started_at"]),
        ended_at=float(end["ended_at"]) if end else None,
        exit_code=code,
        exit_name=name,
        signal=signal_name(end.get("signal")) if end else None,
        oom=oom,
        stopped_by=stop.get("by") if stop else None,
        rung=stop.get("rung") if stop else None,
        rebooted=who.rebooted and not over,
        processes=len(who.members),
        session=run.get("session") or folder.path.parent.parent.name,
        command=tuple(run.get("command") or ()),
        env=run.get("env") or {},
        release=run.get("release") or "",
        started_by=run.get("started_by") or "",
        buckets=library.boundaries(run.get("env") or {}),
        node=node,
        first_failure=first_failure(folder.log) if node and over and code else None,
    )


def _node(record: dict[str, Any]) -> Node | None:
    """The target's place in a run over several, from its ``run.json``."""
    with suppress(wire.WireError):
        found = wire.from_json(Node | None, record.get("node"))
        return found if isinstance(found, Node) else None
    return None


def signal_name(number: int | None) -> str | None:
    """A signal as people write it: ``KILL``."""
    return None if number is None else process.signal_name(number)


def release_id(files: Iterable[FileWanted], command: tuple[str, ...]) -> str:
    """Names a release by its content: the first 12 digits of a SHA-256 over it."""
    content = {"files": sorted((f.dest, f.sha256, f.mode) for f in files), "command": command}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]
