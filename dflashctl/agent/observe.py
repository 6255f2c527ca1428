"""One look at a target: sessions, run, processes, GPUs, files, checkpoints, disk.

It takes no lock and changes nothing (a tmux server whose socket was cleaned away is asked
to make it anew; that is all).
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import pwd
import shutil
import socket
import subprocess
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from dflashctl.agent import (
    checkpoints,
    dataset,
    driver,
    files,
    gpu,
    journal,
    library,
    network,
    optimize,
    process,
    restarts,
    runs,
    store,
    tidy,
)
from dflashctl.agent.evidence import evidence
from dflashctl.agent.failures import existing_parent
from dflashctl.agent.keeping import StoreSeen
from dflashctl.agent.login import known_terminal
from dflashctl.agent.process import Process, Table
from dflashctl.agent.protocol import Look, Probe
from dflashctl.agent.records import RunFolder, StateFolder, read_json
from dflashctl.agent.seen import (
    LIVE_STATES,
    CheckpointsSeen,
    DiskSeen,
    FileSeen,
    GpusSeen,
    MetricsSeen,
    Observed,
    ProbeSeen,
    RunSeen,
    SessionSeen,
    State,
    VerdictSeen,
)
from dflashctl.agent.series import metrics_seen, read_progress
from dflashctl.agent.session import Pane, Tmux, leaders
from dflashctl.agent.verdicts import judge
from dflashctl.agent.watching import RestartSeen

PROBE_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """The moving part of a look: who lives, in which session."""

    run: RunSeen | None
    who: runs.Alive | None
    panes: tuple[Pane, ...]
    session: SessionSeen | None
    members: frozenset[Process]


def scene(look: Look, state: StateFolder, tmux: Tmux) -> Scene:
    """The newest run and the session by its name, with all processes that are theirs."""
    rows = process.table()
    folder = state.current(look.job)
    who = runs.alive(folder, rows) if folder else None
    run = runs.see(folder, who, time.time()) if folder and who else None
    panes = tmux.session(look.session)
    if not panes and who and who.supervisor and who.tmux:
        tmux.revive(who.tmux)
        panes = tmux.session(look.session)
    if run and folder and run.state == "STARTING" and not panes and not _at_work(folder, state):
        run = replace(run, state="FAILED")  # whoever was to start it was cut before that
    ours = who.supervisor.pid if who and who.supervisor else None
    adopted = bool(panes) and all(pane.pid != ours for pane in panes)
    first = [leader.pid for leader in leaders(panes, rows)] if adopted else []
    hand = frozenset(process.tree(rows, first))
    return Scene(
        run=run,
        who=who,
        panes=panes,
        session=_session(look.session, panes, hand, rows) if panes else None,
        members=hand | (who.members if who else frozenset()),
    )


def _at_work(folder: RunFolder, state: StateFolder) -> bool:
    """Whether the transaction that starts this run holds the lock (for a moment unnamed)."""
    now = journal.holder(state)
    started_by = (read_json(folder.run) or {}).get("transaction")
    return now is not None and now.transaction in ("", started_by)


def _session(
    name: str, panes: tuple[Pane, ...], hand: frozenset[Process], rows: Table
) -> SessionSeen:
    first = panes[0]
    row = rows.get(first.pid)
    return SessionSeen(
        name=name,
        pane_pid=first.pid,
        created_at=first.created_at,
        attached=first.attached,
        adopted=bool(hand),
        command=_command_line(first.pid) or (row.name if row else ""),
        processes=len(hand),
    )


def _command_line(pid: int) -> str:
    with suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return b" ".join(words).decode("utf-8", "replace").strip()[:200]
    return ""


def job_state(view: Scene, was_cut: bool) -> State:
    """The job's state: what lives comes first, then what was cut, then what has been."""
    if view.run is not None and view.run.state in ("STARTING", "RUNNING", "ORPHANED"):
        return view.run.state
    if view.session is not None and view.session.adopted:
        return "ADOPTED"
    if was_cut:
        return "INTERRUPTED"
    return view.run.state if view.run is not None else "NONE"


def briefly(look: Look) -> Look:
    """The same look without what takes time or room and decides nothing in a transaction."""
    return replace(look, gpus=False, probe=None, driver=False, texts=0, dataset=None, network=False)


def observe(look: Look, state: StateFolder) -> Observed:
    """The whole look."""
    question = gpu.Question() if look.gpus else None
    tmux = Tmux(look.tmux_socket)
    view = scene(look, state, tmux)
    asked = look.files
    look = replace(look, files=tuple(library.placed(look.files, state, look.user)))
    seen_files = tuple(files.see_all(look.files, state, look.texts))
    starts = store.run_starts(state, look.job) if look.checkpoints else []
    seen_checkpoints = (
        checkpoints.see(look.checkpoints, state, [file.dest for file in look.files], starts)
        if look.checkpoints
        else None
    )
    live = view.run if view.run and view.run.state in LIVE_STATES else None
    cut = journal.cut(state, look.job)
    gpus = gpu.seen(question, view.members) if question else None
    disks = _disks(look, state)
    metrics, verdicts = _judged(look, state, view, gpus, (seen_checkpoints, disks))
    return Observed(
        fingerprint=fingerprint(view, seen_files, seen_checkpoints),
        now=time.time(),
        hostname=socket.gethostname(),
        user=pwd.getpwuid(os.getuid()).pw_name,
        boot_id=process.boot_id(),
        state_dir=str(state.path),
        python=platform.python_version(),
        tmux=Tmux.version(),
        scp=shutil.which("scp") is not None,
        state=job_state(view, cut is not None),
        run=view.run,
        metrics=metrics,
        verdicts=verdicts,
        session=view.session,
        gpus=gpus,
        files=tuple(
            replace(seen, dest=file.dest) for seen, file in zip(seen_files, asked, strict=True)
        ),
        checkpoints=seen_checkpoints,
        store=_store(look, state, starts, live) if look.whole_store else None,
        disks=disks,
        probe=_probe(look.probe) if look.probe else None,
        cut=cut,
        lock=journal.holder(state),
        terminal=known_terminal(look.term) if look.term else None,
        problems=tuple(_problems(look)),
        forgettable=tidy.forgettable(
            state, look.job, lambda: checkpoints.kept_since(look.checkpoints)
        ),
        absent=tuple(path for path in look.paths if not _is_there(path)),
        dataset=dataset.fingerprint(look.dataset) if look.dataset else None,
        optimizer=optimize.see(look.job, state),
        driver=driver.see() if look.driver else None,
        restart=_restart(look, state, view),
        interfaces=network.interfaces() if look.network else (),
    )


def _restart(look: Look, state: StateFolder, view: Scene) -> RestartSeen | None:
    """What is done about the newest run's failure, if it failed and nothing else lives."""
    folder = state.current(look.job)
    if folder is None or view.run is None or view.run.state in LIVE_STATES:
        return None
    return restarts.see(folder)


def _store(
    look: Look, state: StateFolder, starts: list[float], live: RunSeen | None
) -> StoreSeen | None:
    """The whole list. What the live run was resumed from is told by its own record.

    The times of checkpoints tell it only where there is none: trainers write into old ones.
    """
    if look.checkpoints is None:
        return None
    store = checkpoints.see_all(look.checkpoints, starts, live, look.metric)
    record = read_json(state.run(look.job, live.id).run) if live else None
    name = (record or {}).get("resumed_from")
    known = any(one.name == name for one in store.checkpoints)
    return replace(store, resumed_from=name) if known else store


def _judged(
    look: Look,
    state: StateFolder,
    view: Scene,
    gpus: GpusSeen | None,
    storage: tuple[CheckpointsSeen | None, tuple[DiskSeen, ...]],
) -> tuple[MetricsSeen | None, tuple[VerdictSeen, ...]]:
    """The newest run's progress, and what speaks against it."""
    folder = state.current(look.job)
    if folder is None or view.run is None or (view.session and view.session.adopted):
        return None, ()  # of a job that was started by hand nothing is on record
    progress = read_progress(read_json(folder.state) or {})
    metrics = metrics_seen(progress) if progress else None
    store, disks = storage
    free = next(
        (
            disk.free
            for disk in disks
            if disk.path == (look.checkpoints.path if look.checkpoints else None)
        ),
        None,
    )
    found = evidence(folder, view.run, progress, gpus, store, free)
    return metrics, judge(found)


def fingerprint(
    view: Scene, seen_files: tuple[FileSeen, ...], seen_checkpoints: CheckpointsSeen | None
) -> dict[str, str]:
    """Digests, by subject, of all that a plan depends on and that should not change meanwhile."""
    run, session, there = view.run, view.session, seen_checkpoints
    # Once started, a run that settles from STARTING to RUNNING is the same sight.
    live = run is not None and run.state in ("STARTING", "RUNNING")
    subjects: dict[str, object] = {
        "run": (run.id, "live" if live else run.state, run.pid) if run else None,
        "session": (session.pane_pid, session.adopted) if session else None,
        "files": [(f.real_dest, f.sha256, f.mode, f.problem, f.stored) for f in seen_files],
        "checkpoints": (
            (there.real_path, there.exists, there.problem, there.mount_point) if there else None
        ),
    }
    return {
        name: hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]
        for name, value in subjects.items()
    }


def _disks(look: Look, state: StateFolder) -> tuple[DiskSeen, ...]:
    """Room where records, checkpoints, pushed files and the run live."""
    folder = look.checkpoints.path if look.checkpoints else None
    # A file is written beside its place; a link may lead to another disk.
    files = (
        file.dest if os.path.islink(file.dest) else os.path.dirname(file.dest)
        for file in look.files
    )
    places = [str(state.path), folder, look.cwd, *files]
    seen = []
    for place in dict.fromkeys(place for place in places if place):
        with suppress(OSError):
            usage = shutil.disk_usage(existing_parent(Path(place)))
            seen.append(DiskSeen(path=place, free=usage.free, total=usage.total))
    return tuple(seen)


def _probe(probe: Probe) -> ProbeSeen:
    """Start the interpreter and find the modules, as the trainer would."""
    code = (
        "import importlib, json, platform, sys\n"
        "missing = []\n"
        "for name in sys.argv[1:]:\n"
        "    try: importlib.import_module(name)\n"
        "    except Exception as error: missing.append(f'{name} ({type(error).__name__})')\n"
        "print('\\n' + json.dumps([platform.python_version(), missing]))\n"
    )
    version, missing, problem = None, (), None
    try:
        done = subprocess.run(
            (probe.python, "-c", code, *probe.imports),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PROBE_S,
            check=True,
            env={**os.environ, **probe.env},
        )
        version, absent = json.loads(done.stdout.splitlines()[-1])
        missing = tuple(absent)
    except FileNotFoundError:
        problem = "not_found"
    except PermissionError:
        problem = "not_executable"
    except subprocess.TimeoutExpired:
        problem = "timeout"
    except (subprocess.CalledProcessError, OSError, ValueError, IndexError):
        problem = "fails"
    return ProbeSeen(python=probe.python, version=version, missing=missing, problem=problem)


def _is_there(path: str) -> bool:
    """Whether a path leads to something, or a program of that name is found."""
    return os.path.exists(path) if "/" in path else shutil.which(path) is not None


def _problems(look: Look) -> Iterable[str]:
    socket = look.tmux_socket or ""
    if "/" in socket and not os.path.isdir(os.path.dirname(socket)):
        yield "no_socket_folder"
    if look.cwd is not None and not os.path.isdir(look.cwd):
        yield "no_cwd"
    if look.user is not None:
        try:
            account = pwd.getpwnam(look.user)
        except KeyError:
            yield "no_user"
        else:
            if os.getuid() not in (0, account.pw_uid):
                yield "cannot_become_user"
