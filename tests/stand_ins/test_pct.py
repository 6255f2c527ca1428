"""The stand-in keeps the documented behaviour of ``pct``, line by line."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

from tests.lab.proxmox import install_pct
from tests.lab.terminal import on_terminal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Lab
    from tests.lab.container import Container

Done = subprocess.CompletedProcess[str]


class Call(Protocol):
    def __call__(self, *words: str, stdin: str = "", env: dict[str, str] | None = None) -> Done: ...


@pytest.fixture
def pct(lab: Lab) -> Iterator[Call]:
    """Calls the lab's ``pct`` on its own host, past ssh."""

    def call(*words: str, stdin: str = "", env: dict[str, str] | None = None) -> Done:
        return subprocess.run(
            [lab.host.pct.folder / "pct", *words],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
            env={"PATH": "/nowhere", "HOME": "/host-home", **(env or {})},
        )

    with lab.host.pct.restored():
        lab.host.pct.forget_calls()
        yield call


@pytest.fixture
def folder(lab: Lab) -> Iterator[str]:
    """A folder in the container."""
    made = lab.container.make_folder()
    yield made
    lab.container.remove_folder(made)


# --- exec ------------------------------------------------------------------------------


def test_exec_runs_an_argv_without_a_shell(pct: Call) -> None:
    words = ("a b", "$HOME", '"', "'", "*", "x\ny", "-k", "--", "ä", "")
    script = "import json, sys; print(json.dumps(sys.argv[1:]))"
    done = pct("exec", "200", "--", "python3", "-c", script, *words)
    assert json.loads(done.stdout) == list(words)


def test_exec_passes_standard_input_output_and_error_through(pct: Call) -> None:
    done = pct("exec", "200", "--", "sh", "-c", "cat; echo wrong >&2", stdin="hello")
    assert (done.stdout, done.stderr) == ("hello", "wrong\n")


@pytest.mark.parametrize(
    ("script", "code"),
    [("exit 0", 0), ("exit 7", 7), ("kill -KILL $$", 128 + 9), ("kill -TERM $$", 128 + 15)],
)
def test_exec_ends_as_the_command_does(pct: Call, script: str, code: int) -> None:
    assert pct("exec", "200", "--", "sh", "-c", script).returncode == code


def test_exec_of_what_is_not_there_is_127_and_of_what_cannot_run_126(pct: Call) -> None:
    assert pct("exec", "200", "--", "no-such-program").returncode == 127
    assert pct("exec", "200", "--", "/etc/passwd").returncode == 126


def test_an_old_lxc_reads_a_killed_command_as_success(lab: Lab, pct: Call) -> None:
    lab.host.pct.behave(signal_reads_0=True)
    assert pct("exec", "200", "--", "sh", "-c", "kill -KILL $$").returncode == 0
    assert pct("exec", "200", "--", "sh", "-c", "exit 7").returncode == 7


def test_without_dashes_an_unknown_option_dies_before_the_command(pct: Call) -> None:
    done = pct("exec", "200", "nvidia-smi", "-L")
    assert done.returncode == 255
    assert "Unknown option: l" in done.stderr


def test_without_dashes_an_abbreviated_option_is_silently_eaten(pct: Call) -> None:
    assert pct("exec", "200", "echo", "-k", "1").stdout == "\n"
    assert pct("exec", "200", "--", "echo", "-k", "1").stdout == "-k 1\n"


def test_an_option_may_stand_anywhere_before_the_dashes(pct: Call) -> None:
    assert pct("exec", "--keep-env", "1", "200", "--", "echo", "x").stdout == "x\n"
    assert pct("exec", "200", "--keep-env=0", "--", "echo", "x").stdout == "x\n"
    assert pct("exec", "200", "-KEEP", "1", "--", "echo", "x").stdout == "x\n"


def test_keep_env_hands_on_the_environment_with_a_forced_path(pct: Call) -> None:
    done = pct("exec", "200", "--keep-env", "1", "--", "env", env={"COLOUR": "blue"})
    lines = done.stdout.splitlines()
    assert "COLOUR=blue" in lines
    assert "PATH=/sbin:/bin:/usr/sbin:/usr/bin" in lines
    assert "HOME=/host-home" in lines


def test_clear_env_leaves_no_home(pct: Call) -> None:
    done = pct("exec", "200", "--keep-env", "0", "--", "env", env={"COLOUR": "blue"})
    names = {line.partition("=")[0] for line in done.stdout.splitlines()}
    assert not names & {"HOME", "COLOUR"}


@pytest.mark.parametrize("keep", [True, False])
def test_the_default_of_keep_env_depends_on_the_version(lab: Lab, pct: Call, keep: bool) -> None:
    lab.host.pct.behave(keep_env=keep)
    done = pct("exec", "200", "--", "env", env={"COLOUR": "blue"})
    assert ("COLOUR=blue" in done.stdout) == keep


def test_a_pty_is_made_when_any_of_the_three_streams_is_a_terminal(lab: Lab, pct: Call) -> None:
    words = ("exec", "200", "--", "tty")
    assert pct(*words).stdout == "not a tty\n"
    leader, follower = pty.openpty()
    try:
        done = subprocess.run(
            [str(lab.host.pct.folder / "pct"), *words],
            stdin=follower,
            capture_output=True,
            text=True,
            check=True,
            timeout=30,
        )
    finally:
        os.close(leader)
        os.close(follower)
    # One of the container's own, since its name can be told in there.
    assert done.stdout.startswith("/dev/pts/")


def test_a_command_is_needed(pct: Call) -> None:
    assert pct("exec", "200").returncode == 255
    assert pct("exec", "200", "--").returncode == 255


# --- its own failures ------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["exec", "push", "enter"])
def test_a_stopped_container_is_named(pct: Call, verb: str, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.touch()
    more = {"exec": ("--", "true"), "push": (str(source), "/tmp/dest"), "enter": ()}[verb]
    done = pct(verb, "202", *more)
    assert done.returncode == 255
    assert done.stderr == "container '202' not running!\n"


@pytest.mark.parametrize("words", [("exec", "999", "--", "true"), ("status", "999")])
def test_a_container_of_another_node_has_no_configuration_here(
    pct: Call, words: tuple[str, ...]
) -> None:
    done = pct(*words)
    assert done.returncode == 2  # ENOENT, left over by Perl
    assert done.stderr.startswith("Configuration file '")
    assert done.stderr.endswith("/lxc/999.conf' does not exist\n")


@pytest.mark.parametrize("vmid", ["99", "1000000000", "abc", "0200", ""])
def test_an_id_outside_the_range_is_refused(pct: Call, vmid: str) -> None:
    done = pct("status", vmid)
    assert done.returncode == 255
    assert "vmid" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("frobnicate",),
        ("destroy", "200"),
        ("status", "200", "--frobnicate"),
        ("status", "200", "201"),
        ("status",),
        ("push", "200", "/etc/hostname"),
        ("exec", "200", "--keep-env", "maybe", "--", "true"),
    ],
)
def test_what_it_does_not_know_fails(pct: Call, words: tuple[str, ...]) -> None:
    done = pct(*words)
    assert done.returncode == 255
    assert done.stderr
    assert not done.stdout


def test_only_root_may_call_it(lab: Lab, work: Path) -> None:
    work.chmod(0o777)
    install_pct(work)
    # Whoever runs the tests may have its interpreter where nobody else can read.
    words = ["/usr/bin/python3", str(work / "pct"), "list"]
    done = subprocess.run(
        words, user=65534, group=65534, capture_output=True, text=True, check=False, timeout=30
    )
    assert (done.returncode, done.stderr) == (255, "please run as root\n")


def test_every_call_is_noted(lab: Lab, pct: Call) -> None:
    pct("status", "200")
    pct("exec", "200", "--", "true")
    pct("frobnicate")
    expected = [["status", "200"], ["exec", "200", "--", "true"], ["frobnicate"]]
    assert lab.host.pct.calls() == expected


def test_it_may_take_its_time_to_start(lab: Lab, pct: Call) -> None:
    lab.host.pct.behave(start_up_s=0.3)
    before = time.monotonic()
    pct("list")
    assert time.monotonic() - before > 0.3


# --- push and pull ---------------------------------------------------------------------


def look(container: Container, path: str, form: str) -> str:
    return container.run(("stat", "-c", form, path)).stdout.strip()


def test_push_copies_one_file_and_loses_the_exec_bit(
    lab: Lab, pct: Call, folder: str, tmp_path: Path
) -> None:
    source = tmp_path / "tool"
    source.write_bytes(bytes(range(256)) * 5000)
    source.chmod(0o755)
    assert pct("push", "200", str(source), f"{folder}/tool").returncode == 0
    assert look(lab.container, f"{folder}/tool", "%a %s %U") == f"644 {256 * 5000} root"


def test_push_sets_owner_and_mode_when_told(
    lab: Lab, pct: Call, folder: str, tmp_path: Path
) -> None:
    source = tmp_path / "tool"
    source.touch()
    options = ("--perms", "0750", "--user", "33", "--group", "4")
    assert pct("push", "200", str(source), f"{folder}/tool", *options).returncode == 0
    assert look(lab.container, f"{folder}/tool", "%a %u %g") == "750 33 4"


def test_push_truncates_an_existing_file_in_place(
    lab: Lab, pct: Call, folder: str, tmp_path: Path
) -> None:
    lab.container.put(f"{folder}/old", b"a longer text", 0o700)
    before = look(lab.container, f"{folder}/old", "%i %a")
    source = tmp_path / "new"
    source.write_text("short")
    pct("push", "200", str(source), f"{folder}/old")
    assert look(lab.container, f"{folder}/old", "%i %a %s") == f"{before} 5"


def test_push_reports_success_even_if_the_copy_failed(
    lab: Lab, pct: Call, folder: str, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"x" * 200_000)
    assert pct("push", "200", str(source), f"{folder}/no/such/folder").returncode == 0
    small = ("mount", "-t", "tmpfs", "-o", "size=64k", "none", folder)
    lab.container.run(small).check_returncode()
    try:
        assert pct("push", "200", str(source), f"{folder}/cut").returncode == 0
        assert int(look(lab.container, f"{folder}/cut", "%s")) < 200_000
    finally:
        lab.container.run(("umount", folder)).check_returncode()


def test_push_of_what_is_not_there_fails(pct: Call, folder: str) -> None:
    done = pct("push", "200", "/no/such/file", f"{folder}/dest")
    assert done.returncode == 2
    assert "/no/such/file" in done.stderr


def test_pull_fetches_one_file(lab: Lab, pct: Call, folder: str, tmp_path: Path) -> None:
    lab.container.put(f"{folder}/log", b"\x00\xfflines\n", 0o755)
    dest = tmp_path / "log"
    assert pct("pull", "200", f"{folder}/log", str(dest)).returncode == 0
    assert dest.read_bytes() == b"\x00\xfflines\n"
    assert dest.stat().st_mode & 0o777 == 0o644


def test_pull_reports_success_even_if_there_was_nothing(
    pct: Call, folder: str, tmp_path: Path
) -> None:
    dest = tmp_path / "log"
    dest.write_text("from before")
    assert pct("pull", "200", f"{folder}/missing", str(dest)).returncode == 0
    assert dest.read_text() == ""


def test_push_waits_for_the_lock_of_the_configuration(
    lab: Lab, pct: Call, folder: str, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    source.touch()
    lab.host.pct.behave(lock_timeout_s=0.2)
    with (lab.host.pct.folder / "pve-config-200.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = pct("push", "200", str(source), f"{folder}/dest")
    assert done.returncode == 255
    assert "got timeout" in done.stderr
    assert pct("push", "200", str(source), f"{folder}/dest").returncode == 0


# --- status, list, config --------------------------------------------------------------


def test_status_is_exit_0_for_both_states(pct: Call) -> None:
    running, stopped = pct("status", "200"), pct("status", "202")
    assert (running.returncode, running.stdout) == (0, "status: running\n")
    assert (stopped.returncode, stopped.stdout) == (0, "status: stopped\n")


def test_list_has_columns_of_which_lock_may_be_blank(lab: Lab, pct: Call) -> None:
    lab.host.pct.know(lab.container, "hostname: dflash\n")
    lab.host.pct.know(lab.stopped, "hostname: eval\nlock: backup\n")
    lines = pct("list").stdout.splitlines()
    assert f"{lines[0]}|" == "VMID       Status     Lock         Name                |"
    assert "200        running                 dflash              " in lines
    assert "202        stopped    backup       eval                " in lines


def test_list_prints_nothing_at_all_without_containers(lab: Lab, pct: Call) -> None:
    lab.host.pct.behave(containers={})
    done = pct("list")
    assert (done.returncode, done.stdout) == (0, "")


CONFIG = """\
hostname: dflash
dev1: /dev/nvidia1,gid=44,mode=0660
dev0: /dev/nvidia0
cores: 8
lxc.cgroup2.devices.allow: c 195:* rwm
lxc.mount.entry = /dev/nvidia2 dev/nvidia2 none bind,optional,create=file

[pve:pending]
cores: 16
delete: dev1

[before-upgrade]
cores: 4
dev9: /dev/nvidia9
"""


def test_config_is_sorted_with_raw_lines_last(lab: Lab, pct: Call) -> None:
    lab.host.pct.know(lab.container, CONFIG)
    assert pct("config", "200", "--current", "1").stdout.splitlines() == [
        "cores: 8",
        "dev0: /dev/nvidia0",
        "dev1: /dev/nvidia1,gid=44,mode=0660",
        "hostname: dflash",
        "lxc.cgroup2.devices.allow: c 195:* rwm",
        "lxc.mount.entry: /dev/nvidia2 dev/nvidia2 none bind,optional,create=file",
    ]


def test_config_shows_pending_values_unless_current(lab: Lab, pct: Call) -> None:
    lab.host.pct.know(lab.container, CONFIG)
    lines = pct("config", "200").stdout.splitlines()
    assert "cores: 16" in lines
    assert not any(line.startswith(("dev1", "dev9")) for line in lines)


# --- enter, start, shutdown, stop ------------------------------------------------------


def test_enter_is_a_shell_but_not_a_login_one(lab: Lab) -> None:
    with on_terminal([lab.host.pct.folder / "pct", "enter", "200"]) as terminal:
        terminal.wait_for("# $")
        terminal.type("shopt login_shell; echo $((40 + 2)); exit 5\n")
        assert terminal.wait_for(r"login_shell\s+(on|off)").endswith("off")
        terminal.wait_for(r"\s42\s")
        assert terminal.wait() == 5


def test_a_container_starts_shuts_down_and_stops(lab: Lab, pct: Call, neighbour: Container) -> None:
    assert pct("start", "201").returncode == 255  # it runs already
    assert pct("shutdown", "201", "--timeout", "20").returncode == 0
    assert pct("status", "201").stdout == "status: stopped\n"
    assert pct("stop", "201").returncode == 255
    assert pct("start", "201").returncode == 0
    assert neighbour.run(("true",)).returncode == 0
    assert pct("stop", "201").returncode == 0
    assert neighbour.state() == "STOPPED"
    neighbour.start()


def test_a_missing_device_keeps_a_container_from_starting(lab: Lab, pct: Call) -> None:
    lab.host.pct.know(lab.stopped, "dev0: /dev/no-such-gpu,gid=44\n")
    done = pct("start", "202")
    assert done.returncode == 255
    assert "/dev/no-such-gpu does not exist" in done.stderr


# --- through ssh -----------------------------------------------------------------------


def test_ssh_adds_exactly_one_shell(lab: Lab) -> None:
    sshd = lab.host.sshd
    ssh = shutil.which("ssh")
    assert ssh is not None
    options = ("-F", "none", "-i", str(sshd.client_key), "-p", str(sshd.port))
    known = ("-o", f"UserKnownHostsFile={sshd.known_hosts}", "-o", "BatchMode=yes")
    text = "pct exec 200 -- echo '$HOME' \"a  b\" $((1 + 1))"
    words = [ssh, *options, *known, f"{sshd.user}@{sshd.host}", text]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout == "$HOME a  b 2\n"


def test_the_interpreter_of_the_stand_in_is_that_of_the_tests(lab: Lab) -> None:
    first = (lab.host.pct.folder / "pct").read_text().splitlines()[0]
    assert first == f"#!{sys.executable} -IS"
