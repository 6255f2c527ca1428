"""The transaction: lock, journal, steps, outcome. Once begun it goes on to its end."""

from __future__ import annotations

import signal
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from dflashctl.agent import (
    execute,
    files,
    gpu,
    keeper,
    launch,
    library,
    process,
    restarts,
    runs,
    store,
    tidy,
)
from dflashctl.agent.failures import AgentError, from_os_error
from dflashctl.agent.journal import (
    Journal,
    facts,
    holder,
    last_step,
    locked,
    name_of,
    withdraw,
)
from dflashctl.agent.observe import briefly, observe, scene
from dflashctl.agent.process import Process
from dflashctl.agent.protocol import (
    Action,
    Ask,
    CancelRestart,
    Commit,
    Event,
    ExecuteCommand,
    Failure,
    ForgetRuns,
    Look,
    Outcome,
    PlaceFiles,
    Receive,
    StartRun,
    StepBegun,
    StepDone,
    StepNote,
    StepPassed,
    StepProgress,
    StopRun,
    VerifyRun,
)
from dflashctl.agent.records import StateFolder, read_json, write_json
from dflashctl.agent.seen import LIVE_STATES, Observed
from dflashctl.agent.session import Tmux, leaders

SUPERVISOR_S = 15.0
GPU_RELEASE_S = 20.0


def perform(commit: Commit, state: StateFolder, emit: Callable[[Event], None]) -> Outcome:
    """Take the lock, make sure that nothing has changed, do every step, report.

    A step that fails ends the transaction: what was done stays, is journalled, and the
    outcome says what state things are in.

    Raises:
        AgentError: ``lock_held``, ``stale`` or ``bad_upload``: nothing was touched then.
    """
    try:
        with locked(state, commit.transaction, commit.who):
            _check_unchanged(commit, state)
            return _Transaction(commit=commit, state=state, emit=emit).run()
    finally:
        files.drop_staging(state, commit.transaction)


def what_came_of(ask: Ask, state: StateFolder, emit: Callable[[Event], None]) -> Outcome:
    """The end of a transaction, from its journal, once nobody is at work on it any more.

    Raises:
        AgentError: ``not_begun`` when the transaction never came to hold the lock.
    """
    if withdraw(state, ask.transaction):
        raise AgentError("not_begun")
    # Whoever has a journal held the lock when it was made; for a moment without a name.
    while (now := holder(state)) is not None and now.transaction in ("", ask.transaction):
        time.sleep(0.1)
    known = facts(state, ask.transaction)
    if known and known[-1]["fact"] == "withdrawn":
        raise AgentError("not_begun")
    failure: Failure | None = None
    for fact in known:
        if fact["fact"] == "done":
            emit(
                StepDone(
                    index=fact["index"],
                    seconds=fact["seconds"],
                    result=fact["result"],
                    facts=fact["facts"],
                )
            )
        elif fact["fact"] == "passed":
            passed = Failure(code=fact["code"], detail=fact["detail"])
            emit(StepPassed(index=fact["index"], seconds=fact["seconds"], failure=passed))
        elif fact["fact"] == "failed":
            failure = Failure(code=fact["code"], detail=fact["detail"])
    begun = [fact for fact in known if fact["fact"] == "step"]
    if failure is None and (not known or known[-1]["fact"] != "end"):
        failure = Failure(code="cut_off", detail={"step": last_step(known)})
    return Outcome(
        run_id=known[-1].get("run_id") if known else None,
        failed_at=(begun[-1]["index"] if begun else 0) if failure else None,
        failure=failure,
        observed=_last_look(ask.look, state),
    )


def _last_look(look: Look, state: StateFolder) -> Observed:
    """What there is after a transaction.

    Raises:
        AgentError: ``unseen``: it cannot be looked at now. The transaction is over all the
            same: it may be asked for again.
    """
    try:
        return observe(briefly(look), state)
    except AgentError as error:
        why = error.failure.detail.get("reason") or error.failure.code
        raise AgentError("unseen", reason=why) from error
    except OSError as error:
        raise AgentError("unseen", reason=str(error)) from error


def _check_unchanged(commit: Commit, state: StateFolder) -> None:
    now = observe(briefly(commit.look), state).fingerprint
    then = commit.fingerprint
    changed = sorted(name for name in now if now[name] != then.get(name))
    if changed:
        raise AgentError("stale", changed=changed)


# What a step reports: one phrase for people, facts for programs.
Result = tuple[str, dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Transaction:
    commit: Commit
    state: StateFolder
    emit: Callable[[Event], None]

    def run(self) -> Outcome:
        commit = self.commit
        journal = Journal(self.state, commit.look.job, commit.transaction)
        names = [type(action).__name__ for action in commit.actions]
        journal.begin(commit.who, names)
        failure, failed_at = None, None
        for index, action in enumerate(commit.actions):
            journal.write("step", index=index, action=names[index])
            self.emit(StepBegun(index=index))
            begun = time.monotonic()
            failure, result = self._attempt(index, action)
            took = round(time.monotonic() - begun, 3)
            if failure is not None and index in commit.may_fail:
                told = {"code": failure.code, "detail": failure.detail}
                journal.write("passed", index=index, seconds=took, **told)
                self.emit(StepPassed(index=index, seconds=took, failure=failure))
                failure = None
                continue
            if failure is not None:
                failed_at = index
                journal.write("failed", index=index, code=failure.code, detail=failure.detail)
                break
            journal.write("done", index=index, seconds=took, result=result[0], facts=result[1])
            self.emit(StepDone(index=index, seconds=took, result=result[0], facts=result[1]))
        starts = [a.run_id for a in commit.actions[:failed_at] if isinstance(a, StartRun)]
        run_id = starts[0] if starts else None
        with suppress(OSError):  # what could not be tidied today is tidied another time
            if swept := tidy.sweep(self.state):
                journal.write("swept", **swept)
        journal.end(ok=failure is None, run_id=run_id)
        return Outcome(
            run_id=run_id,
            failed_at=failed_at,
            failure=failure,
            observed=_last_look(commit.look, self.state),
        )

    def _attempt(self, index: int, action: Action) -> tuple[Failure | None, Result]:
        """Do one action; whatever goes wrong becomes a `Failure`, so that the journal ends."""
        try:
            return None, self._do(index, action)
        except AgentError as error:
            return error.failure, ("", {})
        except OSError as error:
            return from_os_error(error, self.state.path).failure, ("", {})
        except Exception:
            return Failure(code="internal", detail={"traceback": traceback.format_exc()}), ("", {})

    def _do(self, index: int, action: Action) -> Result:
        match action:
            case Receive():
                received = files.receive(self.state, self.commit.transaction, action.files)
                return f"{len(action.files)} verified", {"bytes": received}
            case StopRun():
                return self._stop(action, lambda text: self.emit(StepNote(index=index, text=text)))
            case PlaceFiles():
                wanted = library.placed(action.files, self.state, self.commit.look.user)
                files.place(self.state, wanted)
                return f"{len(action.files)} in place", {}
            case StartRun():
                return self._start(action)
            case VerifyRun():
                return self._verify(action)
            case ForgetRuns() | ExecuteCommand() | CancelRestart():
                return self._beside(index, action)
            case _:
                if keeper.moves(action):
                    self._check_nothing_lives()
                return keeper.perform(action, self._desk(index))

    def _check_nothing_lives(self) -> None:
        """No checkpoint moves under a run, also where a stop was tried in vain and passed over."""
        view = scene(self.commit.look, self.state, Tmux(self.commit.look.tmux_socket))
        by_hand = view.session is not None and view.session.adopted
        if by_hand or (view.run is not None and view.run.state in LIVE_STATES):
            raise AgentError("in_use", pids=sorted(member.pid for member in view.members))

    def _beside(self, index: int, action: ForgetRuns | ExecuteCommand | CancelRestart) -> Result:
        """What touches no run that lives."""
        if isinstance(action, CancelRestart):
            folder = self.state.run(self.commit.look.job, action.run_id)
            restarts.cancel(folder, name_of(self.commit.who))
            return "cancelled", {}
        if isinstance(action, ForgetRuns):
            count, freed = tidy.forget(self.state, self.commit.look.job, action.run_ids)
            return f"{count} forgotten", {"count": count, "bytes": freed}
        said = execute.execute(action, lambda text: self.emit(StepNote(index=index, text=text)))
        return said.rpartition("\n")[2], {"output": said}

    def _desk(self, index: int) -> keeper.Desk:
        emit, state = self.emit, self.state
        return keeper.Desk(
            transaction=self.commit.transaction,
            starts=store.run_starts(state, self.commit.look.job),
            progress=keeper.seldom(
                lambda done, total: emit(StepProgress(index=index, done=done, total=total))
            ),
            note=lambda text: emit(StepNote(index=index, text=text)),
        )

    def _stop(self, action: StopRun, note: Callable[[str], None]) -> Result:
        """End our run and whatever sits in its session, and prove that it is gone."""
        look, tmux = self.commit.look, Tmux(self.commit.look.tmux_socket)
        view = scene(look, self.state, tmux)
        folder = self.state.current(look.job)
        request = {"by": name_of(self.commit.who), "at": time.time(), "signal": action.signal}
        ours = view.run is not None and view.run.id == action.run_id and folder is not None
        if ours and folder and not folder.exit.exists():
            with suppress(OSError):
                write_json(folder.stop, request)
        panes = tmux.session(action.session)
        supervisor = view.who.supervisor if view.who else None
        spared = frozenset({supervisor} if supervisor else ())
        rows = process.table()
        roots = leaders(panes, rows)
        if supervisor in roots:
            roots = {supervisor}  # further panes of our session go with it
        # A shell that gave its terminal to a job outlives the job: it goes with its session.
        shells = frozenset(roots - process.foreground(rows, roots)) - spared

        def find(rows: process.Table) -> set[Process]:
            found = process.tree(rows, [p.pid for p in roots if process.is_alive(p)])
            if folder is not None and ours:
                found |= runs.alive(folder, rows).members
            return found - spared - shells

        rung, alive = process.end(
            find, process.foreground, _signal(action.signal), action.grace_s, note, spared
        )
        if alive:
            raise AgentError("still_alive", pids=sorted(p.pid for p in alive))
        self._await_supervisor(supervisor)
        tmux.close(action.session)
        process.end(lambda _: set(shells), lambda _, alive: alive, _signal("HUP"), 2.0, note)
        for server in {pane.server for pane in panes}:
            tmux.settle(server)
        if ours and folder:
            asked = read_json(folder.stop)
            if asked is not None:
                with suppress(OSError):
                    write_json(folder.stop, {**asked, "rung": rung})
        how = {"gone": "was over", "signal": f"by {action.signal}"}.get(rung, f"by {rung}")
        return f"gone, {how}", {"rung": rung}

    def _await_supervisor(self, supervisor: Process | None) -> None:
        """It writes the record of the end and goes; if it does not, it is ended."""
        if supervisor is None:
            return
        deadline = time.monotonic() + SUPERVISOR_S
        while process.is_alive(supervisor) and time.monotonic() < deadline:
            time.sleep(process.POLL_S)
        process.end(
            lambda _: {supervisor}, lambda _, alive: alive, _signal("KILL"), 1.0, lambda _: None
        )

    def _await_gpus(self) -> None:
        """Nothing starts on a held GPU; it is not free at the very moment its holder goes."""
        deadline = time.monotonic() + GPU_RELEASE_S
        while held := gpu.holders(()):
            if time.monotonic() > deadline:
                holders = [
                    {"pid": h.pid, "name": h.name, "user": h.user, "devices": h.devices}
                    for h in held
                ]
                raise AgentError("gpu_held", holders=holders)
            time.sleep(0.2)

    def _start(self, action: StartRun) -> Result:
        if action.about.attempt is not None:
            restarts.still_wanted(self.state, self.commit.look.job, action.about.attempt)
        if action.free_gpus:
            self._await_gpus()
        tmux = Tmux(self.commit.look.tmux_socket)
        folder = launch.start(action, self.commit, self.state, tmux)
        record = read_json(folder.process) or {}
        pid = record["trainer"][0] if record.get("trainer") else None
        facts = {"run_id": action.run_id, "pid": pid, "session": action.session}
        return action.run_id if pid is None else f"{action.run_id}, pid {pid}", facts

    def _verify(self, action: VerifyRun) -> Result:
        starts = [a for a in self.commit.actions if isinstance(a, StartRun)]
        wanted = next(a for a in starts if a.run_id == action.run_id)
        folder = self.state.run(self.commit.look.job, action.run_id)
        pid = launch.verify(action, wanted, folder, self.state)
        told = f", {action.metric} printed" if action.metric else ""
        text = f"alive after {action.alive_for_s:g} s{told}, environment as declared"
        return text, {"pid": pid}


def _signal(name: str) -> int:
    return int(getattr(signal, f"SIG{name}"))
