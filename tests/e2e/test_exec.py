"""exec and shell on a real target, in each of the three ways."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dflashctl.agent.protocol import RunCommand
from dflashctl.inventory.load import load_inventory
from dflashctl.inventory.select import select
from dflashctl.link.connect import Connections, open_agent
from tests.e2e.conftest import Job, until
from tests.e2e.test_words import WORDS
from tests.lab.routes import pct_route
from tests.lab.terminal import on_terminal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from dflashctl.link.client import Agent
    from tests.conftest import Lab

BIG = 10 << 20
ECHO = "import os, sys; sys.stdout.buffer.write(b'\\0'.join(map(os.fsencode, sys.argv[1:])))"

PCT_AND_HERE = pytest.mark.parametrize(
    "route", ["local", pytest.param("pct", marks=pytest.mark.lab)], indirect=True
)


def run(
    job: Job, *words: str, stdin: bytes = b"", timeout_s: float = 60
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        job.command("exec", *words),
        input=stdin, capture_output=True, check=False, timeout=timeout_s, env=job.environment,
    )  # fmt: skip


def start(job: Job, *words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        job.command("exec", *words),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=job.environment,
    )  # fmt: skip


def lives(job: Job, word: str) -> bool:
    """Whether a process over there has this word in its command line."""
    script = "grep -lszxF -f - /proc/[0-9]*/cmdline"
    return bool(job.route.run(("sh", "-c", script), stdin=word).stdout)


@pytest.mark.provokes("cannot_run")
def test_streams_exit_code_and_environment_are_those_of_a_login_there(job: Job) -> None:
    done = run(job, "sh", "-c", "cat; echo oops >&2; exit 7", stdin=b"\0\xff\r\n")
    assert (done.returncode, done.stdout, done.stderr) == (7, b"\0\xff\r\n", b"oops\n")
    assert run(job, "--", "sh", "-c", "kill -9 $$").returncode == 137
    gone = run(job, "--", "no-such-program")
    assert gone.returncode == 127
    assert b"box cannot run no-such-program: No such file or directory." in gone.stderr
    # It has the login environment and the home.
    done = run(job, "sh", "-c", 'echo "$PWD|$HOME|$USER|$PATH"; tty')
    where, home, user, path = done.stdout.decode().splitlines()[0].split("|")
    assert where == home == job.route.home
    assert user
    assert path.startswith(f"{job.route.bin}:")
    assert b"not a tty" in done.stdout


@PCT_AND_HERE
def test_ten_mebibytes_as_input_and_on_both_streams(job: Job) -> None:
    whole = os.urandom(BIG)
    done = run(job, "tee", "/dev/stderr", stdin=whole)
    assert done.returncode == 0
    assert done.stdout == whole
    assert done.stderr == whole


@pytest.mark.parametrize("route", ["local"], indirect=True)
def test_a_program_that_never_reads_its_input_is_in_nobodys_way(job: Job) -> None:
    assert run(job, "echo", "well", stdin=bytes(BIG)).stdout == b"well\n"


@pytest.mark.parametrize("route", ["local"], indirect=True)
def test_what_follows_the_program_is_its_own(job: Job) -> None:
    words = ("--archive-checkpoints", "-t", "--", "", "-h", "a  b")
    echo = (job.route.python, "-c", ECHO)
    assert run(job, *echo, *words).stdout == b"\0".join(map(os.fsencode, words))
    assert run(job, "--", *echo, *words).stdout == b"\0".join(map(os.fsencode, words))


@PCT_AND_HERE
def test_ctrl_c_ends_the_program(job: Job) -> None:
    mark = f"300.{time.time_ns()}"
    # What is up says so itself: a shell that is just about to start it might be deaf.
    inner = 'echo up; exec sleep "$1"'
    running = start(job, "sh", "-c", 'sh -c "$1" sh "$2"; echo not this', "sh", inner, mark)
    assert running.stdout is not None
    assert running.stdout.readline() == b"up\n"
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=20)
    assert (running.returncode, out, err) == (130, b"", b"")
    assert not lives(job, mark)


@PCT_AND_HERE
@pytest.mark.parametrize("how", ["a second Ctrl-C", "our own end"])
def test_nothing_that_is_deaf_to_ctrl_c_stays(job: Job, how: str) -> None:
    mark = f"300.{time.time_ns()}"
    # One child has a session of its own; another's parent is gone.
    script = 'trap "" INT; setsid sleep "$1" & (sleep "$1" &); echo up; while :; do wait; done'
    running = start(job, "bash", "-c", script, "bash", mark)
    assert running.stdout is not None
    assert running.stdout.readline() == b"up\n"
    assert lives(job, mark)
    if how == "a second Ctrl-C":
        running.send_signal(signal.SIGINT)
        assert running.stderr is not None
        assert b"bash goes on after Ctrl-C; another one ends it." in running.stderr.readline()
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=20)
        assert running.returncode == 130
    else:
        running.kill()
        running.communicate(timeout=20)
    until(lambda: not lives(job, mark), 30)


@pytest.mark.parametrize("route", ["local"], indirect=True)
def test_what_a_program_leaves_behind_does_not_hold_it_up(job: Job) -> None:
    begun = time.monotonic()
    # Its folder is what ends it when the test is over.
    script = 'cd "$1"; sleep "$2" & echo done'
    mark = f"77.{time.time_ns()}"
    assert run(job, "sh", "-c", script, "sh", job.route.tmp, mark).stdout == b"done\n"
    assert time.monotonic() - begun < 60
    assert lives(job, mark)


def on_a_terminal(job: Job, *words: str) -> Any:
    return on_terminal(job.command(*words), env={**job.environment, "TERM": "xterm-kitty"})


def test_a_terminal_is_given_on_request(job: Job) -> None:
    script = 'tty; echo "($TERM) $1"; exit 5'
    with on_a_terminal(job, "exec", "--tty", "--", "sh", "-c", script, "-", "a  b") as terminal:
        terminal.wait_for(r"/dev/\S+\s+\((xterm-256color|xterm|xterm-kitty|vt100)\) a  b")
        assert terminal.wait() == 5


@PCT_AND_HERE
def test_a_shell_is_a_login_shell_in_the_users_home(job: Job) -> None:
    with on_a_terminal(job, "shell") as terminal:
        terminal.wait_for(r"[#$] $")
        terminal.type("echo $0 $PWD; exit 4\n")
        terminal.wait_for(rf"-\w*sh {job.route.home}\s")
        assert terminal.wait() == 4


@pytest.fixture
def agent(lab: Lab, work: Path) -> Iterator[Agent]:
    with pct_route(lab.container, lab.host.sshd) as route:
        (work / "inventory.yml").write_text(route.inventory)
        inventory = load_inventory(work / "inventory.yml")
        (target,) = select(inventory, ("box",), everything=False)
        with Connections() as connections, open_agent(target, connections) as agent:
            yield agent


class Kept:
    """Ends of streams that remember."""

    def __init__(self, given: bytes) -> None:
        self.given, self.said = given, {"out": b"", "err": b""}

    def read(self, size: int) -> bytes:
        piece, self.given = self.given[:size], self.given[size:]
        return piece

    def write(self, stream: str, data: bytes) -> None:
        self.said[stream] += data


@settings(
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(words=st.lists(WORDS, max_size=6), given=st.binary(max_size=99))
def test_any_words_and_any_bytes_arrive_as_they_are(
    agent: Agent, words: list[str], given: bytes
) -> None:
    echo = ("/usr/bin/python3", "-c", ECHO, *words)
    ends = Kept(b"")
    assert agent.foreground(ends).run(RunCommand(words=echo)) == 0
    assert ends.said == {"out": b"\0".join(map(os.fsencode, words)), "err": b""}
    ends = Kept(given)
    both = ("sh", "-c", "tee /dev/stderr")
    assert agent.foreground(ends).run(RunCommand(words=both)) == 0
    assert ends.said == {"out": given, "err": given}
