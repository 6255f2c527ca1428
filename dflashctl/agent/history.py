"""The runs on record: which there are, all of one, and the contents of what they ran."""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from dataclasses import replace
from typing import Any

from dflashctl.agent import files, process, restarts, runs, wire
from dflashctl.agent.failures import AgentError
from dflashctl.agent.recorded import (
    Facts,
    FileKept,
    ListRuns,
    ReadBlobs,
    RecallRun,
    RunRecord,
    RunsListed,
    Source,
    Texts,
)
from dflashctl.agent.records import RunFolder, StateFolder, read_json
from dflashctl.agent.seen import MetricsSeen, RunSeen
from dflashctl.agent.series import metrics_seen, read_progress

BUCKETS = "DFLASH_BUCKETS"


def answer(
    request: ListRuns | RecallRun | ReadBlobs, state: StateFolder
) -> RunsListed | RunRecord | Texts:
    """The answer to a question about the past. Raises AgentError: ``no_run``."""
    match request:
        case ListRuns():
            return listed(request, state)
        case RecallRun():
            return recall(request, state)
        case ReadBlobs():
            return read_blobs(request, state)


def listed(request: ListRuns, state: StateFolder) -> RunsListed:
    """Every run of the job, the oldest first."""
    rows, now = process.table(), time.time()
    found, metrics = [], {}
    for folder in state.runs(request.job):
        seen = _see(folder, rows, now)
        if seen is not None:
            found.append(seen)
            if (last := _metrics(folder)) is not None:
                metrics[seen.id] = last
    current = state.current(request.job)
    return RunsListed(
        now=now,
        current=current.id if current else None,
        runs=tuple(sorted(found, key=lambda run: (run.started_at, run.id))),
        metrics=metrics,
    )


def _metrics(folder: RunFolder) -> MetricsSeen | None:
    """The last that it printed. Trends are left out: they are for a run that goes on."""
    progress = read_progress(read_json(folder.state) or {})
    if progress is None:
        return None
    return replace(metrics_seen(progress), loss_trend=(), tokens_per_s_trend=())


def _see(folder: RunFolder, rows: process.Table, now: float) -> RunSeen | None:
    try:
        return runs.see(folder, runs.alive(folder, rows), now)
    except (KeyError, TypeError, ValueError):  # a record that is none
        return None


def recall(request: RecallRun, state: StateFolder) -> RunRecord:
    """All that is on record of one run.

    Raises:
        AgentError: ``no_run``.
    """
    folder = state.run(request.job, request.run_id)
    record = None if os.sep in request.run_id else read_json(folder.run)
    now = time.time()
    seen = _see(folder, process.table(), now) if record else None
    if record is None or seen is None:
        raise AgentError("no_run", run_id=request.run_id)
    kept = _files(folder, state)
    return RunRecord(
        now=now,
        run=seen,
        cwd=record.get("cwd"),
        user=record.get("user"),
        env_base=record.get("env_base") or "login",
        secrets=tuple(record.get("secrets") or ()),
        signal=record.get("signal") or "INT",
        grace_s=float(record.get("grace_s") or 0.0),
        exit_codes=runs.known_endings(record.get("exit_codes") or {}),
        fresh=tuple(record.get("fresh") or seen.command),
        resume=_words(record.get("resume")),
        files=kept,
        source=_part(Source, folder.source),
        facts=_part(Facts, folder.facts),
        version=record.get("version"),
        transaction=record.get("transaction"),
        resumed_from=record.get("resumed_from"),
        checkpoints=record.get("checkpoints"),
        repeats=record.get("repeats"),
        boundaries=_boundaries(seen.env, kept, state),
        metrics=_metrics(folder),
        attempt=restarts.attempt(record),
        restart=restarts.see(folder),
    )


def _words(value: Any) -> tuple[str, ...] | None:
    return tuple(value) if value else None


def _part(kind: Any, path: Any) -> Any:
    """A part of the record that was written in the words of the wire; None if it is not there."""
    with suppress(wire.WireError):
        return wire.from_json(kind, read_json(path))
    return None


def _files(folder: RunFolder, state: StateFolder) -> tuple[FileKept, ...]:
    found = (read_json(folder.release) or {}).get("files", [])
    return tuple(
        FileKept(
            dest=file["dest"],
            sha256=file["sha256"],
            size=file["size"],
            mode=file["mode"],
            kept=state.blob(file["sha256"]).exists(),
        )
        for file in found
    )


def _boundaries(
    env: dict[str, str], kept: tuple[FileKept, ...], state: StateFolder
) -> tuple[int, ...] | None:
    """Those of the buckets that the run was given, from the file of its release."""
    for file in kept:
        if f"/{env.get(BUCKETS)}".endswith(f"/{file.dest}"):
            with suppress(OSError, ValueError, TypeError, KeyError):
                value = json.loads(state.blob(file.sha256).read_bytes())
                return tuple(int(boundary) for boundary in value["boundaries"])
    return None


def read_blobs(request: ReadBlobs, state: StateFolder) -> Texts:
    """The texts among the kept files that were asked for."""
    texts: dict[str, str] = {}
    room = files.TEXTS_AT_MOST
    for sha256 in dict.fromkeys(request.sha256s):
        if not sha256.isalnum():
            continue
        text = files.read_text(state.blob(sha256), min(request.limit, room))
        if text is not None:
            texts[sha256] = text
            room -= len(text.encode())
    return Texts(texts=texts)
