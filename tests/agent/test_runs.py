"""A run under its supervisor in a real tmux: how it starts, what it says, how it ends."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from dflashctl.agent import launch, process, session
from dflashctl.agent.failures import AgentError
from dflashctl.agent.keeping import ClearCheckpoints
from dflashctl.agent.protocol import Outcome, StopRun, VerifyRun
from dflashctl.agent.session import Pane, leaders

from .conftest import R1, R2, Bench, read, trainer, until

IGNORES_INT = "trap '' INT; setsid sleep 1000 & while :; do sleep 0.1; done"


def failed(outcome: Outcome) -> tuple[str, dict]:
    assert outcome.failure is not None
    return outcome.failure.code, outcome.failure.detail


def test_a_run_starts_lives_and_is_seen(bench: Bench) -> None:
    outcome = bench.start(R1, "sleep 60", alive_for=0.3)
    assert outcome.failure is None
    seen = bench.observe()
    assert seen.state == "RUNNING"
    assert seen.run is not None
    assert seen.run.id == R1
    assert seen.run.pid is not None
    assert seen.session is not None
    assert not seen.session.adopted
    assert bench.sessions() == ["dflash"]


def test_the_environment_is_exactly_what_was_declared(bench: Bench) -> None:
    odd = "sp ace 'quote' \"double\" $(id) `id` \\ ; \n newline é {a,b} *"
    wanted = trainer(R1, ("sleep", "60"), env={"ODD": odd, "EMPTY": ""}, secrets={"KEY": "s3cret;"})
    assert bench.commit(wanted, VerifyRun(run_id=R1, alive_for_s=0)).failure is None
    run = bench.observe().run
    assert run is not None
    assert run.pid is not None
    live = process.environment(run.pid)
    assert live["ODD"] == odd
    assert live["EMPTY"] == ""
    assert live["KEY"] == "s3cret;"
    assert live[process.RUN_MARKER] == R1
    assert "TMUX" not in live


def test_a_minimal_environment_holds_nothing_of_ours(bench: Bench, monkeypatch) -> None:
    monkeypatch.setenv("OF_THE_AGENT", "1")
    bench.start(R1, "env > out; sleep 60", cwd=str(bench.folder))
    until(lambda: "TERM=" in read(bench.folder / "out"))
    names = {line.partition("=")[0] for line in read(bench.folder / "out").splitlines()}
    assert names - {"_", "PWD", "SHLVL", "OLDPWD"} == {
        "HOME", "USER", "LOGNAME", "SHELL", "LANG", "PATH", "TERM", process.RUN_MARKER,
    }  # fmt: skip


def test_secrets_are_in_no_record_and_in_no_command_line(bench: Bench) -> None:
    bench.start(R1, "sleep 60", secrets={"API_KEY": "hush-hush"})
    for path in bench.state.path.rglob("*"):
        if path.is_file():
            assert b"hush-hush" not in path.read_bytes(), path
    assert json.loads(bench.run(R1).run.read_text())["secrets"] == ["API_KEY"]
    everything = subprocess.run(
        ("ps", "-eo", "args"), capture_output=True, text=True, check=True
    ).stdout
    assert "hush-hush" not in everything
    assert "hush-hush" not in bench.tmux("show-environment", "-g").stdout


def test_a_later_session_of_the_same_server_inherits_nothing_of_the_run(bench: Bench) -> None:
    bench.start(R1, "sleep 60", env={"DECLARED": "1"})
    bench.tmux("new-session", "-d", "-s", "later", f"env > {bench.folder}/later; sleep 60")
    until(lambda: "TMUX=" in read(bench.folder / "later"))
    inherited = read(bench.folder / "later")
    assert "DECLARED" not in inherited
    assert process.RUN_MARKER not in inherited


def test_not_a_line_is_lost_at_the_start_or_at_the_end(bench: Bench) -> None:
    bench.start(R1, "seq 1 20000; echo the last line; exit 7")
    until(bench.run(R1).exit.exists)
    lines = bench.log(R1).splitlines()
    assert lines[:20000] == [str(n) for n in range(1, 20001)]
    assert lines[20000] == "the last line"


def test_output_in_any_encoding_reaches_the_log_byte_for_byte(bench: Bench) -> None:
    bench.start(R1, r"printf 'caf\xc3\xa9 \xe2\x94\x82 \xff\xfe end\n'; sleep 60")
    log = bench.run(R1).log
    until(lambda: log.exists() and b"end" in log.read_bytes())
    assert bench.run(R1).log.read_bytes() == "café │ ".encode() + b"\xff\xfe end\r\n"


@pytest.mark.parametrize(
    ("script", "code", "number", "state", "name"),
    [
        ("exit 0", 0, None, "FINISHED", "finished"),
        ("exit 3", 3, None, "FAILED", "failed"),
        ("exit 75", 75, None, "STOPPED", "interrupted"),
        ("kill -KILL $$", None, "KILL", "FAILED", "failed"),
        ("kill -SEGV $$", None, "SEGV", "FAILED", "failed"),
    ],
)
def test_how_a_run_ended_is_recorded(
    bench: Bench, script: str, code: int | None, number: str | None, state: str, name: str
) -> None:
    bench.start(R1, f"sleep 0.3; {script}")
    until(bench.run(R1).exit.exists)
    until(lambda: bench.observe().session is None)
    run = bench.observe().run
    assert run is not None
    assert (run.exit_code, run.signal, run.state, run.exit_name) == (code, number, state, name)
    assert run.ended_at is not None
    assert run.processes == 0


@pytest.mark.provokes("unverified.died_early")
def test_a_trainer_that_dies_early_fails_the_start_with_its_last_lines(bench: Bench) -> None:
    outcome = bench.start(R1, "echo loading; echo 'ValueError: no data' >&2; exit 1", alive_for=5)
    code, detail = failed(outcome)
    assert code == "died_early"
    assert detail["exit_code"] == 1
    assert detail["log"] == ["loading", "ValueError: no data"]
    assert outcome.observed.state == "FAILED"


def test_a_command_that_does_not_exist_is_named(bench: Bench) -> None:
    wanted = trainer(R1, ("no-such-trainer",))
    code, detail = failed(bench.commit(wanted, VerifyRun(run_id=R1, alive_for_s=5)))
    assert (code, detail["exit_code"]) == ("died_early", 127)
    assert detail["reason"] == "No such file or directory"
    assert "no-such-trainer" in detail["log"][-1]


def test_the_trainer_has_its_terminal_and_the_usual_signals(bench: Bench) -> None:
    code = (
        "import os, signal, sys, time\n"
        "print(os.isatty(0), os.isatty(1), os.tcgetpgrp(0) == os.getpgrp())\n"
        "status = open('/proc/self/status').read()\n"
        "mask = [l.split()[1] for l in status.splitlines() if l.startswith('SigBlk')][0]\n"
        "print(int(mask, 16)); print(os.umask(0))\n"
        "sys.stdout.flush(); time.sleep(60)\n"
    )
    here = os.umask(0o022)
    os.umask(here)
    bench.commit(trainer(R1, ("python3", "-c", code)))
    until(lambda: bench.log(R1).count("\n") == 3)
    assert bench.log(R1).splitlines() == ["True True True", "0", str(here)]


def test_what_python_ignores_is_not_ignored_by_the_trainer(bench: Bench) -> None:
    bench.start(R1, "grep SigIgn /proc/self/status; sleep 60")
    until(lambda: "SigIgn" in bench.log(R1))
    assert int(bench.log(R1).split()[1], 16) & (1 << (signal.SIGPIPE - 1)) == 0
    assert int(bench.log(R1).split()[1], 16) & (1 << (signal.SIGHUP - 1)) == 0


def test_a_stop_ends_the_whole_tree_even_what_ignores_it(bench: Bench) -> None:
    bench.start(R1, IGNORES_INT)
    until(lambda: (run := bench.observe().run) is not None and run.processes >= 3)
    tree = process.marked(process.table(), R1)
    outcome = bench.stop(R1, grace=0.3)
    assert outcome.failure is None
    assert not any(process.is_alive(p) for p in tree)
    run = outcome.observed.run
    assert run is not None
    assert (run.state, run.rung, run.stopped_by) == ("STOPPED", "TERM", "ada@desk")
    assert bench.sessions() == []


def test_a_stop_gives_the_trainer_its_grace_to_save(bench: Bench) -> None:
    bench.start(R1, "trap 'sleep 1; echo saved; exit 75' INT; while :; do sleep 0.1; done")
    time.sleep(0.3)
    run = bench.stop(R1).observed.run
    assert run is not None
    assert (run.exit_code, run.exit_name, run.rung) == (75, "interrupted", "signal")
    assert "saved" in bench.log(R1)


def test_workers_may_outlive_the_leader_until_the_grace_is_over(bench: Bench) -> None:
    worker = "trap 'sleep 1; echo worker saved; exit' INT; while :; do sleep 0.1; done"
    bench.start(R1, f"set -m; (trap '' INT; bash -c \"{worker}\") & sleep 60")
    time.sleep(0.5)
    worker_tree = process.marked(process.table(), R1)
    bench.stop(R1, grace=3)
    assert not any(process.is_alive(p) for p in worker_tree)


def test_a_neighbours_session_and_process_are_left_alone(bench: Bench) -> None:
    bench.tmux("new-session", "-d", "-s", "dflash-eval", "sleep 777")
    bench.tmux("new-session", "-d", "-s", "dflas", "sleep 778")
    neighbour = subprocess.Popen(("bash", "-c", "exec -a 'dflash r1 train.py' sleep 779"))
    try:
        bench.start(R1, "sleep 60")
        bench.stop(R1)
        assert sorted(bench.sessions()) == ["dflas", "dflash-eval"]
        assert neighbour.poll() is None
    finally:
        neighbour.kill()
        neighbour.wait()


def test_a_hand_started_session_is_adopted_and_stopped_like_any_other(bench: Bench) -> None:
    bench.tmux("new-session", "-d", "-s", "dflash", f'bash -c "{IGNORES_INT}"')
    until(lambda: (s := bench.observe().session) is not None and s.processes >= 3)
    seen = bench.observe()
    assert seen.state == "ADOPTED"
    assert seen.session is not None
    assert seen.session.adopted
    tree = process.tree(process.table(), [seen.session.pane_pid])
    assert bench.stop(None, grace=0.3).failure is None
    assert not any(process.is_alive(p) for p in tree)
    assert bench.sessions() == []


def test_a_job_typed_into_a_shell_is_stopped_and_its_shell_does_not_hold_it_up(
    bench: Bench,
) -> None:
    bench.tmux("new-session", "-d", "-s", "dflash", "bash --norc -i")
    bench.tmux("send-keys", "-t", "=dflash:", "trap '' TERM; sleep 1234", "Enter")
    until(lambda: (s := bench.observe().session) is not None and s.processes == 2)
    begun = time.monotonic()
    outcome = bench.stop(None, grace=20)
    assert outcome.failure is None
    assert time.monotonic() - begun < 10
    assert bench.sessions() == []


def test_the_pid_of_a_dead_pane_may_be_a_strangers(bench: Bench) -> None:
    rows = process.table()
    stranger = rows[os.getpid()]
    server = process.Process(1, 0) if stranger.parent != 1 else process.Process(2, 0)
    dead = Pane(server=server, pid=os.getpid(), created_at=0.0, attached=0, session="dflash")
    assert leaders([dead], rows) == set()


def test_a_stop_that_needs_the_last_rung_is_no_memory_kill(bench: Bench, monkeypatch) -> None:
    monkeypatch.setattr(process, "TERM_GRACE_S", 0.5)
    bench.start(R1, "trap '' INT TERM; while :; do sleep 0.1; done")
    time.sleep(0.2)
    run = bench.stop(R1, grace=0.2).observed.run
    assert run is not None
    assert (run.state, run.signal, run.oom) == ("STOPPED", "KILL", False)


def test_a_start_that_comes_too_late_is_taken_back(bench: Bench, monkeypatch) -> None:
    monkeypatch.setattr(launch, "APPEAR_S", 0.0)
    code, _ = failed(bench.commit(trainer(R1, ("sleep", "60"))))
    assert code == "start_failed"
    until(lambda: not process.marked(process.table(), R1))
    assert bench.sessions() == []


def test_secrets_do_not_stay_behind_when_a_start_fails(bench: Bench) -> None:
    bench.state.create()
    (bench.state.job("dflash") / "current").mkdir(parents=True)
    outcome = bench.commit(trainer(R1, ("sleep", "60"), secrets={"KEY": "hush"}))
    assert outcome.failure is not None
    assert not bench.run(R1).launch.exists()


def test_a_terminal_type_of_the_playbooks_own_wins(bench: Bench) -> None:
    wanted = trainer(R1, ("sleep", "60"), env={"TERM": "dumb"})
    assert bench.commit(wanted, VerifyRun(run_id=R1, alive_for_s=0)).failure is None


def test_a_tmux_server_that_does_not_answer_is_told_within_the_deadline(
    bench: Bench, monkeypatch
) -> None:
    monkeypatch.setattr(session, "CALL_S", 0.5)
    bench.start(R1, "sleep 60")
    server = process.Process(*json.loads(bench.run(R1).process.read_text())["tmux"])
    process.send(server, signal.SIGSTOP)
    try:
        with pytest.raises(AgentError, match="no_tmux"):
            bench.observe()
    finally:
        process.send(server, signal.SIGCONT)
    assert bench.observe().state == "RUNNING"


def test_a_session_killed_by_hand_is_a_stop_and_recorded(bench: Bench) -> None:
    bench.start(R1, "trap 'exit 75' INT; while :; do sleep 0.1; done")
    time.sleep(0.2)
    bench.tmux("kill-session", "-t", "=dflash")
    until(bench.run(R1).exit.exists)
    run = bench.observe().run
    assert run is not None
    assert (run.state, run.stopped_by) == ("STOPPED", "session closed")


def test_when_the_tmux_server_dies_the_run_ends_and_the_next_starts(bench: Bench) -> None:
    bench.start(R1, "sleep 60")
    record = json.loads(bench.run(R1).process.read_text())
    process.send(process.Process(*record["tmux"]), signal.SIGKILL)
    until(bench.run(R1).exit.exists)
    assert bench.observe().state == "STOPPED"
    assert bench.start(R2, "sleep 60", alive_for=0.2).failure is None


def test_a_trainer_without_its_supervisor_is_an_orphan_and_can_be_stopped(bench: Bench) -> None:
    bench.start(R1, "trap '' HUP; setsid sleep 1000 & while :; do sleep 0.1; done")
    time.sleep(0.3)
    record = json.loads(bench.run(R1).process.read_text())
    process.send(process.Process(*record["supervisor"]), signal.SIGKILL)
    until(lambda: bench.observe().state == "ORPHANED")
    tree = process.marked(process.table(), R1)
    assert tree
    outcome = bench.stop(R1, grace=0.3)
    assert outcome.failure is None
    assert outcome.observed.state == "STOPPED"
    assert not any(process.is_alive(p) for p in tree)


def test_nothing_of_a_tree_outlives_a_trainer_that_crashed(bench: Bench) -> None:
    bench.start(R1, "setsid sleep 1001 & sleep 0.3; exit 1")
    until(bench.run(R1).exit.exists, seconds=20)
    assert process.marked(process.table(), R1) == set()
    assert json.loads(bench.run(R1).exit.read_text())["leftover"] == 1


def test_running_is_still_running_when_the_socket_was_cleaned_away(bench: Bench) -> None:
    bench.start(R1, "sleep 60")
    Path(bench.socket).unlink()
    seen = bench.observe()
    assert seen.state == "RUNNING"
    assert seen.session is not None, "the server was asked to make its socket anew"
    assert bench.stop(R1).failure is None


def test_a_record_whose_pid_belongs_to_a_stranger_is_not_a_run(bench: Bench) -> None:
    bench.start(R1, "sleep 60")
    bench.stop(R1)
    stranger = subprocess.Popen(("sleep", "60"))
    try:
        folder = bench.run(R1)
        record = json.loads(folder.process.read_text())
        record["trainer"] = record["supervisor"] = [stranger.pid, 12345]
        folder.process.write_text(json.dumps(record))
        folder.exit.unlink()
        folder.stop.unlink()
        seen = bench.observe()
        assert seen.run is not None
        assert (seen.state, seen.run.processes) == ("FAILED", 0)
        assert bench.stop(R1).failure is None
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_run_of_an_earlier_boot_is_over(bench: Bench) -> None:
    bench.start(R1, "sleep 60")
    folder = bench.run(R1)
    record = json.loads(folder.process.read_text())
    bench.stop(R1)
    folder.exit.unlink()
    folder.stop.unlink()
    record["boot_id"] = "another"
    folder.process.write_text(json.dumps(record))
    run = bench.observe().run
    assert run is not None
    assert (run.state, run.rebooted) == ("FAILED", True)


def test_a_state_folder_with_formats_and_blanks_in_its_name_works(bench: Bench) -> None:
    bench.state_name = "st %H #S #{pane_id} é 'q'"
    assert bench.start(R1, "echo hello; sleep 60", alive_for=0.2).failure is None
    until(lambda: "hello" in bench.log(R1))


def test_settings_of_the_users_tmux_do_not_get_in_the_way(bench: Bench) -> None:
    (bench.folder / ".tmux.conf").write_text(
        "set -g destroy-unattached on\nset -g remain-on-exit on\nset -g base-index 1\n"
        "set -g default-shell /bin/false\n"
    )
    assert bench.start(R1, "sleep 60", alive_for=0.3).failure is None
    assert bench.stop(R1).failure is None
    assert bench.sessions() == []


def test_a_socket_that_tmux_cannot_make_is_told_in_its_words_at_once(bench: Bench) -> None:
    begun = time.monotonic()
    outcome = bench.commit(trainer(R1, ("sleep", "60")), tmux_socket="/nope/dir/socket")
    code, detail = failed(outcome)
    assert code == "start_failed"
    assert "/nope/dir/socket" in detail["reason"]
    assert time.monotonic() - begun < 5
    assert "no_socket_folder" in outcome.observed.problems


@pytest.mark.provokes("unverified.start_failed")
def test_a_second_start_under_a_living_session_is_refused(bench: Bench) -> None:
    bench.start(R1, "sleep 60")
    code, detail = failed(bench.start(R2, "sleep 60"))
    assert code == "start_failed"
    assert "still there" in detail["reason"]
    assert bench.observe().run is not None


def test_a_window_that_a_person_opened_beside_the_run_does_not_block_the_restart(
    bench: Bench,
) -> None:
    bench.start(R1, "sleep 60")
    bench.tmux("new-window", "-t", "=dflash:", "sleep 900")
    outcome = bench.commit(
        StopRun(session="dflash", run_id=R1, signal="INT", grace_s=1),
        trainer(R2, ("sleep", "60")),
        VerifyRun(run_id=R2, alive_for_s=0.2),
    )
    assert outcome.failure is None
    assert outcome.observed.state == "RUNNING"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_a_run_can_belong_to_another_user(bench: Bench) -> None:
    bench.folder.chmod(0o755)
    bench.start(R1, "id -un; sleep 60", user="nobody", cwd="/")
    until(lambda: "nobody" in bench.log(R1))
    assert bench.stop(R1).failure is None


def test_restarts_in_a_row_all_succeed(bench: Bench) -> None:
    for number in range(8):
        outcome = bench.commit(
            StopRun(session="dflash", run_id=f"r{number - 1}", signal="INT", grace_s=5),
            trainer(f"r{number}", ("sleep", "60")),
            VerifyRun(run_id=f"r{number}", alive_for_s=0),
        )
        assert outcome.failure is None, outcome
    assert bench.sessions() == ["dflash"]


@pytest.mark.provokes("unverified.no_user")
def test_a_user_who_is_not_there_starts_nothing(bench: Bench) -> None:
    outcome = bench.start(R1, "true", user="no-such-user")
    assert outcome.failure is not None
    assert (outcome.failure.code, outcome.failure.detail) == ("no_user", {"user": "no-such-user"})
    assert bench.sessions() == []


@pytest.mark.provokes("unverified.still_alive")
def test_what_not_even_kill_ends_is_told_by_its_pids(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.start(R1, "sleep 60")
    # As with a process that is stuck in the kernel: signals change nothing.
    with monkeypatch.context() as deaf:
        deaf.setattr(process, "send", lambda *_: None)
        deaf.setattr(process, "TERM_GRACE_S", 0.1)
        deaf.setattr(process, "KILL_GRACE_S", 0.1)
        outcome = bench.stop(R1, grace=0.1)
    assert outcome.failure is not None
    assert outcome.failure.code == "still_alive"
    assert outcome.failure.detail["pids"]
    assert outcome.observed.state == "RUNNING"
    assert bench.stop(R1).failure is None


def test_what_a_run_was_resumed_from_stays_known_when_it_is_written_into(bench: Bench) -> None:
    for step in (50, 100):
        (bench.checkpoints / f"step-{step}").mkdir()
    bench.start(R1, "sleep 60")
    for step in (100, 150):
        (bench.checkpoints / f"step-{step}").mkdir(exist_ok=True)
        os.utime(bench.checkpoints / f"step-{step}", (time.time() + 60,) * 2)
    store = bench.observe(whole_store=True).store
    assert store is not None
    assert store.resumed_from == "step-100"
    assert bench.stop(R1).failure is None


@pytest.mark.provokes("unverified.in_use")
def test_after_a_stop_in_vain_that_was_passed_over_no_checkpoint_moves(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    (bench.checkpoints / "step-100").mkdir(parents=True)
    bench.start(R1, "sleep 60")
    stop = StopRun(session="dflash", run_id=R1, signal="INT", grace_s=0.1)
    clear = ClearCheckpoints(path=str(bench.checkpoints), real_path=str(bench.checkpoints))
    with monkeypatch.context() as deaf:
        deaf.setattr(process, "send", lambda *_: None)
        deaf.setattr(process, "TERM_GRACE_S", 0.1)
        deaf.setattr(process, "KILL_GRACE_S", 0.1)
        outcome = bench.commit(stop, clear, may_fail=(0,))
    assert outcome.failure is not None
    assert outcome.failure.code == "in_use"
    assert (bench.checkpoints / "step-100").is_dir()
    assert bench.stop(R1).failure is None


@pytest.mark.provokes("unverified.system")
def test_what_the_system_refuses_in_the_middle_is_told_with_its_reason(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error", str(bench.folder))

    monkeypatch.setattr(launch, "_record", broken)
    outcome = bench.start(R1, "true")
    assert outcome.failure is not None
    assert outcome.failure.code == "system"
    assert outcome.failure.detail["reason"] == "Input/output error"
