"""What of our own records goes, so that nothing grows without end. The target's lock is held.

The rules: of each job's runs the last `RUNS_KEPT` stay, with the contents of their files;
older ones go by a step of a plan, at least `FORGOTTEN_AT_ONCE` together. What no record
needs is swept at the end of every transaction: contents of files that no run has used, and
what only such runs imported (after a week), staging folders that were left behind (after a
day), finished journals beyond the newest `JOURNALS_KEPT`, and agents that were not used for a
month.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from dflashctl.agent import journal, process, runs
from dflashctl.agent.records import RunFolder, StateFolder, read_json

RUNS_KEPT = 50
FORGOTTEN_AT_ONCE = 10
JOURNALS_KEPT = 200
DAY_S = 86400.0
BLOBS_S, STAGING_S, AGENTS_S = 7 * DAY_S, DAY_S, 30 * DAY_S
_AGENT = re.compile(r"[0-9a-f]{64}(-[0-9a-f]{16}(-bad)?)?")


def forgettable(
    state: StateFolder, job: str, kept_since: Callable[[], Iterable[float]] = tuple
) -> tuple[str, ...]:
    """The job's runs that may be forgotten, the oldest first; none while there are few.

    ``kept_since``: when its checkpoints were archived or cleared. The run of that time is
    kept, so that a rollback can use them. So are the current run and whatever lives.
    """
    # An id begins with the time.
    folders = sorted(state.runs(job), key=lambda folder: folder.id)
    old = folders[:-RUNS_KEPT]
    if len(old) < FORGOTTEN_AT_ONCE:
        return ()
    current = state.current(job)
    kept = {current.id if current else "", *_at(folders, kept_since())}
    rows = process.table()
    return tuple(folder.id for folder in old if folder.id not in kept and not _lives(folder, rows))


def _at(folders: list[RunFolder], moments: Iterable[float]) -> Iterator[str]:
    """The run that was the newest at each of these moments."""
    moments = tuple(moments)
    if not moments:
        return
    started = [(float((read_json(f.run) or {}).get("started_at", 0)), f.id) for f in folders]
    for moment in moments:
        before = [pair for pair in started if pair[0] <= moment]
        if before:
            yield max(before)[1]


def _lives(folder: RunFolder, rows: process.Table) -> bool:
    who = runs.alive(folder, rows)
    return who.supervisor is not None or bool(who.members)


def forget(state: StateFolder, job: str, ids: Iterable[str]) -> tuple[int, int]:
    """Remove these runs' records, and the contents of files that no other run has.

    Returns how many runs went and how many bytes of contents.
    """
    rows, count, theirs = process.table(), 0, set[str]()
    current = state.current(job)
    for run_id in ids:
        folder = state.run(job, run_id)
        if not folder.run.exists() or _lives(folder, rows) or (current and current.id == run_id):
            continue
        theirs |= _contents(folder) or set()
        folder.run.unlink()  # from here on there is no such run, wherever we are cut
        shutil.rmtree(folder.path, ignore_errors=True)
        count += 1
    used = _used(state)
    if used is None:
        return count, 0
    return count, sum(_remove(state.blob(sha256)) for sha256 in theirs - used)


def _contents(folder: RunFolder) -> set[str] | None:
    """The hashes of a run's files; None when its record does not say."""
    try:
        return {str(file["sha256"]) for file in (read_json(folder.release) or {})["files"]}
    except (KeyError, TypeError):
        return None


def _used(state: StateFolder) -> set[str] | None:
    """What any run of any job has; None when a record cannot be read: then nothing goes."""
    used: set[str] = set()
    for record in (state.path / "jobs").glob("*/runs/*/run.json"):
        theirs = _contents(RunFolder(path=record.parent))
        if theirs is None:
            return None
        used |= theirs
    return used


def _remove(path: Path) -> int:
    """Remove a file; its size, or 0 when that was not possible."""
    with suppress(OSError):
        size = path.stat().st_size
        path.unlink()
        return size
    return 0


def sweep(state: StateFolder) -> dict[str, int]:
    """Remove what no record needs; how many of each kind went."""
    now = time.time()
    swept = {
        "blobs": sum(_remove(path) >= 0 for path in _old_blobs(state, now)),
        "libraries": _drop(_old_libraries(state, now)),
        "staging": _drop(_older(state.path / "staging", now - STAGING_S)),
        "runs": _drop(_half_gone(state, now - STAGING_S)),
        "journals": sum(_remove(path) >= 0 for path in _old_journals(state)),
        "agents": _drop(_old_agents(now)),
    }
    return {kind: count for kind, count in swept.items() if count}


def _drop(folders: Iterable[Path]) -> int:
    count = 0
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
        count += 1
    return count


def _older(folder: Path, than: float) -> list[Path]:
    """What lies in a folder and was last changed before a moment."""
    found = []
    with suppress(OSError):
        for path in folder.iterdir():
            with suppress(OSError):
                if path.lstat().st_mtime < than:
                    found.append(path)
    return found


def _old_blobs(state: StateFolder, now: float) -> list[Path]:
    old = _older(state.blobs, now - BLOBS_S)
    used = _used(state) if old else None
    return [] if used is None else [path for path in old if path.name not in used]


def _old_libraries(state: StateFolder, now: float) -> list[Path]:
    """Folders that runs imported from (dflashctl.agent.library), and none on record does."""
    old, used = _older(state.path / "lib", now - BLOBS_S), set[str]()
    for record in (state.path / "jobs").glob("*/runs/*/release.json") if old else ():
        files = (read_json(record) or {}).get("files")
        if files is None:
            return []
        used |= {str(file["dest"]).split("/")[0] for file in files}
    return [path for path in old if path.name not in used]


def _half_gone(state: StateFolder, than: float) -> list[Path]:
    """Folders of runs that were being forgotten, or never came to be."""
    folders = [path for jobs in (state.path / "jobs").glob("*/runs") for path in _older(jobs, than)]
    return [path for path in folders if not (path / "run.json").exists()]


def _old_journals(state: StateFolder) -> list[Path]:
    paths = sorted(state.journal.glob("*.jsonl"), key=journal.modified, reverse=True)
    return [path for path in paths[JOURNALS_KEPT:] if journal.is_over(path)]


def _old_agents(now: float) -> list[Path]:
    """Bundles beside our own that nobody has used for long: the loader dates each use."""
    ours = Path(__file__).resolve().parents[2]
    if not _AGENT.fullmatch(ours.name) or ours.parent.name != "dflashctl":
        return []  # not run from a bundle
    old = _older(ours.parent, now - AGENTS_S)
    return [path for path in old if path != ours and _AGENT.fullmatch(path.name)]
