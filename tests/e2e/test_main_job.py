"""The main job over each way to a target, typed as a person types it."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import time
from contextlib import suppress

import pytest

from tests.lab.terminal import on_terminal

from .conftest import Job, until

HAND_STARTED = """\
mkdir -p "$1/work/checkpoints/step-00000007"
echo w > "$1/work/checkpoints/step-00000007/weights"
echo x > "$1/work/checkpoints/.latest"
cat > "$1/old.sh" <<'END'
trap '' INT
setsid sh -c 'trap "" INT; echo $$ > "$0/child.pid"; while :; do sleep 0.2; done' "$1" &
echo $$ > "$1/old.pid"
while :; do sleep 0.2; done
END
"""


def start_by_hand(job: Job) -> list[int]:
    """What a person had before: a session that ignores INT, with a child of its own session."""
    tmp = job.route.tmp
    job.sh(HAND_STARTED, tmp)
    assert (
        job.route.tmux("new-session", "-d", "-s", "dflash", f"bash {tmp}/old.sh {tmp}").returncode
        == 0
    )
    pids = f"cat {tmp}/old.pid {tmp}/child.pid 2>/dev/null || true"
    until(lambda: len(job.sh(pids).split()) == 2)
    return [int(pid) for pid in job.sh(pids).split()]


def neighbours(job: Job) -> list[int]:
    """A session whose name only begins like ours, and a process that only looks like ours."""
    tmp = job.route.tmp
    job.route.tmux(
        "new-session", "-d", "-s", "dflash-eval", f"sh -c 'echo $$ > {tmp}/n1; sleep 600'"
    )
    job.sh(
        'cd "$1"; nohup setsid bash -c "echo \\$\\$ > n2; exec -a \'$2\' sleep 600" '
        ">/dev/null 2>&1 </dev/null &",
        tmp,
        "python train.py dflash",
    )
    pids = f"cat {tmp}/n1 {tmp}/n2 2>/dev/null || true"
    until(lambda: len(job.sh(pids).split()) == 2)
    return [int(pid) for pid in job.sh(pids).split()]


def test_the_missions_command_replaces_a_hand_started_run(job: Job) -> None:
    old = start_by_hand(job)
    others = neighbours(job)
    assert job.status()["state"] == "ADOPTED"

    answer = job.ok("deploy", "--restart", "--clear-checkpoints", "--json")

    (target,) = json.loads(answer)["targets"].values()
    now = job.status()
    assert now["state"] == "RUNNING"
    assert now["run"]["id"] == target["run_id"]
    environ = job.sh('tr "\\0" "\\n" < "/proc/$1/environ"', str(now["run"]["pid"]))
    assert "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True" in environ.splitlines()
    assert not any(job.alive(pid) for pid in old)
    assert all(job.alive(pid) for pid in others)
    assert "dflash-eval" in job.route.tmux("list-sessions").stdout
    assert job.sh('ls -A "$1"', job.checkpoints) == ""
    kept = job.sh(
        'cd "$1/work"; find . -path "*trash*" -name "step-*"; find . -name .latest', job.route.tmp
    )
    assert len(kept.split()) == 2, kept

    until(lambda: "step 3 " in job.ok("logs", "-n", "100000"))
    assert job.ok("logs", "-n", "1000").splitlines()[0] == "training 1 expandable_segments:True"

    stopped = job.dflashctl("stop")
    assert stopped.returncode == 0, stopped.stderr
    over = job.status()
    assert (over["state"], over["run"]["exit_code"]) == ("STOPPED", 75)
    assert over["run"]["exit_name"] == "interrupted"
    assert job.sh('ls "$1"', job.checkpoints).startswith("step-")
    assert job.dflashctl("status").returncode == 3
    assert "saved" in job.ok("logs"), "the output can be read after the end"


def test_a_changed_file_goes_over_and_an_unchanged_one_does_not(job: Job) -> None:
    job.ok("deploy")
    first = job.pid()
    job.write(version=2)
    told = job.dflashctl("deploy")
    assert told.returncode == 0
    assert "--restart" in told.stdout + told.stderr
    assert job.pid() == first, "without --restart the job goes on"
    assert job.sh('head -1 "$1"', job.train_py) == "VERSION = 2\n"
    job.ok("deploy", "--restart")
    until(lambda: "training 2" in job.ok("logs", "-n", "1000"))
    plan = job.dflashctl("deploy", "--restart", "--dry-run", "--json")
    assert plan.returncode == 10
    (target,) = json.loads(plan.stdout)["targets"].values()
    actions = [step["action"] for step in target["plan"]["steps"]]
    assert actions == ["stop_run", "start_run", "verify_run"]


def test_a_dry_run_touches_nothing(job: Job) -> None:
    old = start_by_hand(job)
    before = job.sh('cd "$1"; find . | sort', job.route.tmp)
    done = job.dflashctl("deploy", "--restart", "--clear-checkpoints", "--dry-run")
    assert done.returncode == 10
    assert "clear" in done.stdout
    assert job.sh('cd "$1"; find . | sort', job.route.tmp) == before
    assert all(job.alive(pid) for pid in old)


def test_clearing_under_a_running_job_is_refused(job: Job) -> None:
    job.ok("deploy")
    done = job.dflashctl("deploy", "--clear-checkpoints")
    assert done.returncode == 65
    assert "--restart" in done.stderr
    assert job.status()["state"] == "RUNNING"


def test_start_stop_and_again(job: Job) -> None:
    assert job.dflashctl("start").returncode == 65, "nothing was deployed yet"
    job.ok("deploy")
    assert "already running" in job.ok("start")
    job.ok("stop")
    assert job.dflashctl("stop").returncode == 0
    job.ok("start")
    assert job.status()["state"] == "RUNNING"


def test_logs_follow_until_the_run_is_over(job: Job) -> None:
    job.ok("deploy")
    follower = subprocess.Popen(
        job.command("logs", "-f"), stdout=subprocess.PIPE, text=True, env=job.environment
    )
    assert follower.stdout is not None
    until(lambda: "step" in follower.stdout.readline())  # type: ignore[union-attr] # it is a pipe
    job.ok("stop")
    rest = follower.communicate(timeout=20)[0]
    assert "saved" in rest
    assert follower.returncode == 0


def test_an_interrupted_follower_leaves_the_trainer_alone(job: Job) -> None:
    job.ok("deploy")
    follower = subprocess.Popen(
        job.command("logs", "-f"), stdout=subprocess.PIPE, text=True, env=job.environment
    )
    assert follower.stdout is not None
    follower.stdout.readline()
    follower.send_signal(signal.SIGINT)
    assert follower.wait(15) == 130
    follower.stdout.close()
    assert job.status()["state"] == "RUNNING"


class Terminal:
    """A command on a real pseudo-terminal."""

    def __init__(self, job: Job, *words: str, term: str = "xterm-256color") -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(job.folder)
            command = job.command(*words)
            os.execvpe(command[0], command, {**job.environment, "TERM": term})
        self.text = ""

    def until(self, pattern: str, seconds: float = 20) -> None:
        deadline = time.monotonic() + seconds
        while not re.search(pattern, self.text):
            left = deadline - time.monotonic()
            assert left > 0, f"no {pattern} in {self.text[-500:]!r}"
            if select.select([self.fd], [], [], left)[0]:
                try:
                    self.text += os.read(self.fd, 1 << 16).decode("utf-8", "replace")
                except OSError:
                    break
        assert re.search(pattern, self.text), self.text[-500:]

    def type(self, keys: bytes) -> None:
        os.write(self.fd, keys)

    def detach(self) -> int:
        """Type Ctrl-b d until it is heeded: tmux does not listen from the first moment on."""
        for _ in range(5):
            time.sleep(0.5)
            self.type(b"\x02")
            self.type(b"d")
            with suppress(AssertionError):
                return self.wait(2)
        return self.end()

    def end(self) -> int:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        raise AssertionError(f"it did not end: {self.text[-500:]!r}")

    def wait(self, seconds: float = 15) -> int:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            done, status = os.waitpid(self.pid, os.WNOHANG)
            if done:
                self._take_the_rest()
                return os.waitstatus_to_exitcode(status)
            if select.select([self.fd], [], [], 0.05)[0]:
                try:
                    self.text += os.read(self.fd, 1 << 16).decode("utf-8", "replace")
                except OSError:
                    time.sleep(0.05)
        raise AssertionError(f"it did not end: {self.text[-500:]!r}")

    def _take_the_rest(self) -> None:
        with suppress(OSError):  # EIO is a terminal's end
            while select.select([self.fd], [], [], 1)[0]:
                self.text += os.read(self.fd, 1 << 16).decode("utf-8", "replace")
        os.close(self.fd)


@pytest.mark.parametrize("term", ["xterm-256color", "a-terminal-nobody-knows"])
def test_attach_shows_the_session_and_detaching_leaves_it(job: Job, term: str) -> None:
    job.ok("deploy")
    pid = job.pid()
    terminal = Terminal(job, "attach", term=term)
    terminal.until(r"step \d+ loss")
    assert terminal.detach() == 0
    assert "detached" in terminal.text
    assert job.alive(pid)
    assert job.status()["state"] == "RUNNING"


def test_an_attached_session_follows_the_size_of_the_window(job: Job) -> None:
    """As tmux itself sees it, through ssh and pct."""
    job.ok("deploy")
    with on_terminal(job.command("attach"), env=job.environment | {"TERM": "xterm"}) as terminal:
        terminal.wait_for(r"step \d+ loss", 60)
        for columns, rows in ((132, 40), (90, 20)):
            terminal.resize(columns, rows)
            sizes = ("list-clients", "-F", "#{client_width}x#{client_height}")
            until(lambda: f"{columns}x{rows}" in job.route.tmux(*sizes).stdout)  # noqa: B023 - at once
        terminal.type("\x02d")
        assert terminal.wait(60) == 0, terminal.seen
    job.ok("stop")


def test_a_look_needs_no_figure_of_the_hosts_memory(job: Job) -> None:
    """`free` may fail in a container, or tell the host's: nobody asks it, nothing depends on it."""
    for name in ("free", "vmstat"):
        job.route.machine.put(f"{job.route.bin}/{name}", b"#!/bin/sh\necho no >&2; exit 1\n", 0o755)
    job.ok("deploy")
    seen = job.status()
    assert (seen["state"], seen["run"]["oom"]) == ("RUNNING", None)
    assert not [name for name in seen if "memory" in name]
    job.ok("stop")


def test_a_read_only_attach_cannot_interrupt_the_trainer(job: Job) -> None:
    job.ok("deploy")
    terminal = Terminal(job, "attach", "--read-only")
    terminal.until(r"step \d+ loss")
    terminal.type(b"\x03")
    assert terminal.detach() == 0
    assert job.status()["state"] == "RUNNING"


def test_a_run_that_ends_while_somebody_is_attached_is_told_so(job: Job) -> None:
    job.ok("deploy")
    terminal = Terminal(job, "attach")
    terminal.until(r"step \d+ loss")
    job.ok("stop")
    assert terminal.wait() == 0
    assert "nothing runs" in terminal.text
    assert "detached;" not in terminal.text


def test_attach_without_a_terminal_or_without_a_run_says_so(job: Job) -> None:
    assert job.dflashctl("attach").returncode == 2
    terminal = Terminal(job, "attach")
    assert terminal.wait() == 3


def test_a_trainer_that_dies_at_once_fails_the_deploy_with_its_last_lines(job: Job) -> None:
    (job.folder / "payload" / "start_training.sh").write_text(
        "echo loading; echo 'RuntimeError: no data' >&2; exit 9\n"
    )
    done = job.dflashctl("deploy")
    assert done.returncode == 66
    assert "RuntimeError: no data" in done.stderr
    assert "9" in done.stderr
    assert job.dflashctl("status").returncode == 4


def test_nvidia_smi_that_answers_fails_or_hangs(job: Job) -> None:
    from tests.lab.stand_in import answering, failing, hanging  # what it can do

    job.ok("deploy")
    job.route.put_nvidia_smi(answering(8))
    seen = job.status()
    assert (seen["gpu_status"], len(seen["gpus"])) == ("ok", 8)
    job.route.put_nvidia_smi(failing())
    assert job.status()["gpu_status"] == "unreadable"
    job.route.put_nvidia_smi(hanging())
    begun = time.monotonic()
    done = job.dflashctl("status")
    assert "not responding" in done.stdout
    assert done.returncode == 5
    assert time.monotonic() - begun < 30


def test_any_word_and_any_value_reach_the_trainer_byte_for_byte(job: Job) -> None:
    odd = [
        "sp ace",
        "quo'te",
        'dou"ble',
        "$(id)",
        "`id`",
        "-n",
        "new\nline",
        "é─",
        "a;b",
        "",
        "*",
        "\\",
    ]
    show = (
        "import json, os, sys, time\n"
        "print(json.dumps([sys.argv[1:], os.environ['ODD']]), flush=True); time.sleep(600)\n"
    )
    job.write(
        run={
            "command": [job.route.python, "-c", show, *odd],
            "env_base": "minimal",
            "env": {"ODD": "".join(odd) + ";"},
        }
    )
    job.ok("deploy")
    until(lambda: job.ok("logs"))
    words, value = json.loads(job.ok("logs", "-n", "100").splitlines()[0])
    assert (words, value) == (odd, "".join(odd) + ";")


def test_a_name_and_lines_beyond_ascii_survive_an_empty_environment(job: Job) -> None:
    show = ["sh", "-c", 'echo "$0"; sleep 600', "größe │ 損失"]
    job.write(session="dflash é─ñ", run={"command": show, "env_base": "minimal"})
    job.ok("deploy")
    assert job.status()["session"] == {"name": "dflash é─ñ", "alive": True, "adopted": False}
    until(lambda: "größe │ 損失" in job.ok("logs"))
    job.ok("stop")
    assert job.status()["session"]["alive"] is False


def test_a_command_and_an_environment_longer_than_tmux_takes(job: Job) -> None:
    long = "x" * 100_000
    show = "import os, sys, time; print(len(sys.argv[1]), len(os.environ['LONG']), flush=True)"
    run = {
        "command": [job.route.python, "-c", f"{show}; time.sleep(600)", long],
        "env": {"LONG": long},
        "env_base": "minimal",
    }
    job.write(run=run)
    job.ok("deploy")
    until(lambda: "100000 100000" in job.ok("logs"))


@pytest.mark.restarts
@pytest.mark.timeout(2400)
def test_restarts_in_a_row_all_succeed(job: Job) -> None:
    count = int(os.environ.get("DFLASHCTL_RESTARTS", "5"))
    job.write(ready={"alive_for": "0s"})
    job.ok("deploy")
    runs = {job.status()["run"]["id"]}
    for number in range(count):
        options = ("--clear-checkpoints",) if number % 2 else ()
        job.ok("deploy", "--restart", *options)
    last = job.status()
    assert last["state"] == "RUNNING"
    assert last["run"]["id"] not in runs
    assert job.route.tmux("list-sessions", "-F", "#{session_name}").stdout.split() == ["dflash"]
