"""The target of the tests is what it claims to be, in each of the three ways."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.lab.machine import Here, end_processes
from tests.lab.proxy import Proxy
from tests.lab.routes import Route, local_route, pct_route
from tests.lab.stand_in import answering
from tests.lab.terminal import on_terminal

if TYPE_CHECKING:
    from tests.conftest import Lab
    from tests.lab.container import Container


def test_the_folder_is_empty_but_for_bin_and_short_enough_for_a_socket(route: Route) -> None:
    assert route.run(("ls", "-A", route.tmp)).stdout == "bin\n"
    assert len(f"{route.tmp}/{'x' * 40}") < 107


def test_the_inventory_names_one_target_box(route: Route) -> None:
    inventory = yaml.safe_load(route.inventory)
    assert inventory["default_target"] == "box"
    (host,) = inventory["hosts"].values()
    box = host["containers"]["box"] if route.name == "pct" else inventory["hosts"]["box"]
    assert box["path"] == [route.bin]
    assert box["state_dir"].startswith(route.tmp)


def test_its_tmux_starts_without_sessions_and_keeps_them_for_itself(route: Route) -> None:
    assert not route.tmux("list-sessions").stdout
    route.tmux("new-session", "-d", "-s", "dflash", "sleep 60").check_returncode()
    assert route.tmux("list-sessions", "-F", "#{session_name}").stdout == "dflash\n"
    own = subprocess.run(["tmux", "ls"], capture_output=True, check=False, timeout=10)
    assert own.returncode != 0


def test_nvidia_smi_can_be_given_to_it(route: Route) -> None:
    route.put_nvidia_smi(answering(2))
    query = ("--query-gpu=index", "--format=csv,noheader,nounits")
    assert route.run((f"{route.bin}/nvidia-smi", *query)).stdout == "0\n1\n"


def test_what_a_test_left_is_gone_afterwards(tmp_path: Path) -> None:
    with local_route(tmp_path) as route:
        route.tmux("new-session", "-d", "-s", "a", "sleep 600").check_returncode()
        script = f"setsid sh -c 'trap \"\" TERM INT HUP; cd {route.tmp}; sleep 601' & echo $!"
        started = route.run(("sh", "-c", f"{{ {script}; }} 2>&- </dev/null | head -n 1"))
        assert started.stdout.strip().isdigit()
        tmp = route.tmp
    assert not Path(tmp).exists()
    assert not _mentions(tmp)


def test_what_a_test_left_in_the_container_is_gone_afterwards(lab: Lab) -> None:
    with pct_route(lab.container, lab.host.sshd) as route:
        route.tmux("new-session", "-d", "-s", "dflash-eval", "sleep 600").check_returncode()
        route.run(("sh", "-c", "cd /; setsid sleep 601 >&- 2>&- <&- &")).check_returncode()
        assert "sleep 601" in route.run(("ps", "-eo", "args")).stdout
        tmp = route.tmp
    left = lab.container.run(("ps", "-eo", "args=")).stdout.splitlines()
    assert left == ["/usr/bin/tini -- /bin/sleep infinity", "/bin/sleep infinity", "ps -eo args="]
    assert lab.container.run(("ls", tmp)).returncode != 0


def test_processes_of_this_machine_are_never_ended_without_a_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="every process"):
        end_processes(Here(home=tmp_path), "", "python3")


def test_a_container_reaps_zombies_and_has_a_home_and_a_locale(lab: Lab) -> None:
    orphan = "sh -c 'sleep 0.1 & exec true'; sleep 0.5; ps -eo stat="
    assert "Z" not in lab.container.run(("sh", "-c", orphan)).stdout
    env = lab.container.run(("env",)).stdout.splitlines()
    assert {"HOME=/root", "LC_ALL=C.UTF-8"} <= set(env)


def test_a_container_knows_nothing_of_this_project(lab: Lab) -> None:
    code = "import importlib.util as u; print(u.find_spec('libtmux'), u.find_spec('dflashctl'))"
    assert lab.container.run(("python3", "-c", code)).stdout == "None None\n"
    for tool in ("tmux", "scp"):
        assert lab.container.run(("which", tool)).returncode == 0


def test_a_plain_file_may_stand_for_a_gpu(lab: Lab) -> None:
    lab.container.put("/dev/nvidia0", b"", 0o666)
    assert lab.container.run(("cat", "/dev/nvidia0")).returncode == 0
    lab.container.run(("rm", "/dev/nvidia0")).check_returncode()


def test_two_containers_share_nothing_but_their_host(lab: Lab, neighbour: Container) -> None:
    lab.container.put("/root/only-here", b"")
    assert neighbour.run(("ls", "/root/only-here")).returncode != 0
    assert neighbour.run(("hostname",)).stdout == "ct201\n"
    lab.container.run(("rm", "/root/only-here")).check_returncode()


def _ssh(words: list[str], host: dict[str, Any], port: int) -> list[str]:
    known = f"UserKnownHostsFile={host['known_hosts_file']}"
    options = ["-F", "none", "-i", host["identity_file"], "-o", known, "-o", "BatchMode=yes"]
    return [shutil.which("ssh") or "ssh", *options, "-p", str(port), "127.0.0.1", *words]


def test_a_proxy_can_stand_on_the_way(route: Route) -> None:
    if route.sshd is None:
        with pytest.raises(ValueError, match="no connection"):
            route.inventory_through(1)
        return
    with Proxy(target=(route.sshd.host, route.sshd.port)) as proxy:
        (host,) = yaml.safe_load(route.inventory_through(proxy.port))["hosts"].values()
        assert host["port"] == proxy.port
        words = _ssh(["echo", "through"], host, host["port"])
        done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=30)
        assert done.stdout == "through\n"
        assert proxy.connections == 1


def test_a_terminal_has_a_size_and_can_be_resized() -> None:
    with on_terminal(["sh", "-c", "stty size; read x; stty size; exit 3"], columns=90) as terminal:
        terminal.wait_for("24 90")
        terminal.resize(40, 10)
        terminal.type("\n")
        terminal.wait_for("10 40")
        assert terminal.wait() == 3


def test_a_terminal_says_what_it_saw_when_it_waits_in_vain() -> None:
    with (
        on_terminal(["echo", "something else"]) as terminal,
        pytest.raises(TimeoutError, match="something else"),
    ):
        terminal.wait_for("what I hoped for", timeout_s=1)


def _mentions(text: str) -> list[str]:
    """The processes that have a text in their command line or working directory."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_text()
            if text in command or text in os.readlink(f"/proc/{pid}/cwd"):
                found.append(command)
        except OSError:
            continue
    return found
