"""Starting a run under its supervisor, and proving that it lives with its environment."""

from __future__ import annotations

import json
import os
import pwd
import shlex
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

from dflashctl.agent import (
    checkpoints,
    facts,
    files,
    library,
    login,
    process,
    runs,
    store,
    wire,
)
from dflashctl.agent.failures import AgentError, from_os_error
from dflashctl.agent.journal import name_of
from dflashctl.agent.process import RUN_MARKER
from dflashctl.agent.protocol import Commit, StartRun, VerifyRun
from dflashctl.agent.records import RunFolder, StateFolder, read_json, write_atomically, write_json
from dflashctl.agent.session import Tmux

APPEAR_S = 15.0
# How often a session is asked for whose supervisor has said nothing yet.
GONE_S = 0.5
SETTLE_S = 2.0
TAIL_LINES = 20
CONCEALED = 6


def start(wanted: StartRun, commit: Commit, state: StateFolder, tmux: Tmux) -> RunFolder:
    """Record the run, make it the current one, and start its supervisor in a new session.

    Raises:
        AgentError: ``no_user``, ``start_failed``, or what the disk refused. The run's
            record then says that it did not start.
    """
    if tmux.session(wanted.session):
        raise AgentError("start_failed", reason=f"a session {wanted.session} is still there")
    account = _account(wanted.user)
    folder = state.run(commit.look.job, wanted.run_id)
    try:
        folder.path.mkdir(parents=True, mode=0o700)
        _record(wanted, commit, folder, state)
        environment = _write_launch(wanted, folder, account, state)
        state.set_current(commit.look.job, wanted.run_id)
    except OSError as error:
        folder.launch.unlink(missing_ok=True)
        raise from_os_error(error, folder.path) from error
    question = facts.Question(wanted.about.python or "python3", environment)
    try:
        pipe = shlex.join(own_words("collect", folder.path))
        tmux.start(wanted.session, own_words("supervise", folder.path), pipe)
        _await_supervisor(folder, lambda: bool(tmux.session(wanted.session)))
        if wanted.watch is not None:
            _begin_watching(wanted, commit, folder, state, tmux)
    except AgentError as error:
        folder.launch.unlink(missing_ok=True)
        folder.orders.unlink(missing_ok=True)
        tmux.close(wanted.session)  # a start that comes too late is none
        if not folder.exit.exists():
            end = {"exit_code": None, "signal": None, "oom": None, "ended_at": time.time()}
            write_json(folder.exit, {**end, "error": error.failure.detail.get("reason")})
        raise
    finally:
        with suppress(OSError):
            write_json(folder.facts, wire.to_json(question.answer(wanted.about.gpus)))
    return folder


def _account(user: str | None) -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(user) if user else pwd.getpwuid(os.getuid())
    except KeyError:
        raise AgentError("no_user", user=user) from None


def _begin_watching(
    wanted: StartRun, commit: Commit, folder: RunFolder, state: StateFolder, tmux: Tmux
) -> None:
    """Start the watchdog in a session of its own, which ends with the run.

    Its orders are a file for it alone, since the addresses in them may be secrets, as are the
    variables of a run that it may have to start again.
    """
    from dflashctl.agent.observe import briefly  # they look through us, too
    from dflashctl.agent.watchdog import Orders

    assert wanted.watch is not None, "the caller has looked"
    look = replace(briefly(commit.look), gpus=True, files=(), exit_codes=wanted.exit_codes)
    again = wanted if wanted.watch.restart else None
    orders = Orders(
        look=look,
        state_dir=str(state.path),
        watch=wanted.watch,
        start=again,
        version=commit.who.version,
    )
    write_json(folder.orders, wire.to_json(orders))
    # It needs libtmux, which may be installed as packages are.
    words = tuple(word for word in own_words("watchdog", folder.path) if word != "-S")
    tmux.start_beside(f"{wanted.session}-watch-{folder.id[-4:]}", words)


def own_words(program: str, folder: Path) -> tuple[str, ...]:
    """The words that run a program of this package for a folder of records."""
    script = Path(__file__).with_name(f"{program}.py")
    return (sys.executable, "-I", "-S", "-X", "utf8", str(script), str(folder))


def _record(wanted: StartRun, commit: Commit, folder: RunFolder, state: StateFolder) -> None:
    """What the run is. Of secrets only the names are kept."""
    for file in library.placed(wanted.release, state, wanted.user):
        files.keep_as_blob(state, file)
    about, kept = wanted.about, commit.look.checkpoints
    record = {
        "id": wanted.run_id,
        "job": commit.look.job,
        "session": wanted.session,
        "command": wanted.command,
        "launcher": wanted.launcher,
        "cwd": wanted.cwd,
        "user": wanted.user,
        "env_base": wanted.env_base,
        "env": wanted.env,
        "secrets": sorted(wanted.secrets),
        "signal": wanted.signal,
        "grace_s": wanted.grace_s,
        "exit_codes": wanted.exit_codes,
        "release": runs.release_id(wanted.release, about.fresh or wanted.command),
        "started_at": time.time(),
        "started_by": name_of(commit.who),
        "version": commit.who.version,
        "transaction": commit.transaction,
        "fresh": about.fresh,
        "resume": about.resume,
        "repeats": about.repeats,
        "attempt": wire.to_json(about.attempt),
        "node": wire.to_json(about.node),
        "metrics": about.metrics,
        "checkpoints": kept.path if kept else None,
        "resumed_from": checkpoints.newest(kept, store.run_starts(state, commit.look.job)),
    }
    if about.source is not None:
        write_json(folder.source, wire.to_json(about.source))
    write_json(folder.release, {"files": [asdict(file) for file in wanted.release]})
    write_json(folder.run, record)


def _write_launch(
    wanted: StartRun, folder: RunFolder, account: pwd.struct_passwd, state: StateFolder
) -> dict[str, str]:
    """What only the supervisor may read, once: the whole environment, secrets included.

    Returns the environment without the secrets.
    """
    from_login = wanted.env_base == "login"
    base = login.login_environment(account) if from_login else login.minimal_environment(account)
    env = library.importing({**base, **wanted.env, **wanted.secrets}, wanted, state)
    other = account.pw_uid != os.getuid()
    launch = {
        "command": (*wanted.launcher, *wanted.command),
        "cwd": wanted.cwd or account.pw_dir,
        "user": [account.pw_name, account.pw_uid, account.pw_gid] if other else None,
        "env": {**env, RUN_MARKER: wanted.run_id},
        "signal": wanted.signal,
        "grace_s": wanted.grace_s,
    }
    write_atomically(folder.launch, json.dumps(launch).encode())
    return {name: value for name, value in env.items() if name not in wanted.secrets}


def _await_supervisor(folder: RunFolder, session: Callable[[], bool]) -> None:
    """Until it has recorded who runs, or how that ended."""
    began = asked = time.monotonic()
    while not folder.process.exists() and not folder.exit.exists():
        now = time.monotonic()
        if now - began > APPEAR_S:
            reason = f"the supervisor did not come up within {APPEAR_S:g} s"
            raise AgentError("start_failed", reason=reason)
        if now - asked > GONE_S:
            gone, asked = not session(), now
            if gone and not folder.process.exists() and not folder.exit.exists():
                raise AgentError("start_failed", reason="the supervisor ended without a record")
        time.sleep(0.01)


def verify(wanted: VerifyRun, start_of: StartRun, folder: RunFolder, state: StateFolder) -> int:
    """Watch the new run live for as long as the playbook asks; its pid when it did.

    Raises:
        AgentError: ``died_early`` with code, signal and last lines, ``env_mismatch``
            with the names of the variables that are not what was declared, or
            ``not_ready`` with the metric that was not printed in time.
    """
    begun = time.monotonic()
    lasts = max(wanted.alive_for_s, wanted.within_s if wanted.metric else 0.0)
    record = read_json(folder.process) or {}
    trainer = process.Process(*record["trainer"]) if record.get("trainer") else None
    if trainer is not None and process.is_alive(trainer):
        _check_environment(trainer, start_of, state)
    while True:
        end = read_json(folder.exit)
        if end is not None:
            number = end.get("signal")
            raise AgentError(
                "died_early",
                exit_code=end.get("exit_code"),
                signal=runs.signal_name(number),
                after_s=round(time.monotonic() - begun, 1),
                reason=end.get("error"),
                log=without(start_of.secrets, tail(folder, TAIL_LINES)),
            )
        over = time.monotonic() - begun >= wanted.alive_for_s
        if over and trainer is not None and process.is_alive(trainer):
            if wanted.metric is None or _has_printed(folder, wanted.metric):
                return trainer.pid
            if time.monotonic() - begun > lasts:
                raise AgentError(
                    "not_ready",
                    metric=wanted.metric,
                    within_s=lasts,
                    log=without(start_of.secrets, tail(folder, TAIL_LINES)),
                )
        elif over and time.monotonic() - begun > wanted.alive_for_s + APPEAR_S:
            raise AgentError("start_failed", reason="the trainer is gone and left no record")
        time.sleep(process.POLL_S)


def _has_printed(folder: RunFolder, metric: str) -> bool:
    last = (read_json(folder.state) or {}).get("last")
    return isinstance(last, dict) and metric in last


def _check_environment(trainer: process.Process, start_of: StartRun, state: StateFolder) -> None:
    """What is wrong must stay wrong: a shell that starts rewrites its own for a moment."""
    declared = library.importing({**start_of.env, **start_of.secrets}, start_of, state)
    declared[RUN_MARKER] = start_of.run_id

    def as_declared(name: str, value: str | None) -> bool:
        # What the login environment has goes on behind ours.
        more = name == library.PYTHON_PATH and f"{value}".startswith(f"{declared[name]}:")
        return value == declared[name] or more

    deadline = time.monotonic() + SETTLE_S
    while process.is_alive(trainer):
        actual = process.environment(trainer.pid)
        wrong = sorted(name for name in declared if not as_declared(name, actual.get(name)))
        if not wrong:
            return
        if time.monotonic() > deadline:
            raise AgentError("env_mismatch", names=wrong)
        time.sleep(process.POLL_S)


def without(secrets: dict[str, str], lines: list[str]) -> list[str]:
    """What a trainer printed, fit to be told and journalled: its secrets are not."""
    parts = {part for value in secrets.values() for part in value.splitlines()}
    # A short one would hide what it is not.
    for part in sorted((part for part in parts if len(part) >= CONCEALED), key=len, reverse=True):
        lines = [line.replace(part, "(secret)") for line in lines]
    return lines


def tail(folder: RunFolder, count: int) -> list[str]:
    """The last lines that a run printed, without our own."""
    with suppress(OSError), folder.log.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - (1 << 16)))
        text = file.read().decode("utf-8", "replace").replace("\r\n", "\n")
        lines = [line for line in text.split("\n") if line.strip()]
        return [line for line in lines if not line.startswith("[dflashctl] ")][-count:]
    return []
