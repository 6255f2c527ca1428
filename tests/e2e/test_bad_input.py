"""Bad input and bad luck: one clear message, the next thing to do, the exit code, no harm."""

import json
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import Lab
from tests.lab.proxy import Proxy
from tests.lab.routes import local_route, pct_route, ssh_route
from tests.sshd import Sshd, free_port, make_key

from .conftest import Job, made, until


def change_inventory(job: Job, change: Callable[[dict[str, Any]], object]) -> None:
    """Edit the inventory's only host."""
    path = job.folder / "inventory.yml"
    inventory = yaml.safe_load(path.read_text())
    (host,) = inventory["hosts"].values()
    change(host)
    path.write_text(yaml.safe_dump(inventory, sort_keys=False))


def refused(job: Job, code: int, error: str, *words: str) -> str:
    """It fails with this exit code and this error code, in words and in JSON, untraced."""
    words = words or ("status",)
    told = job.dflashctl(*words)
    assert told.returncode == code, f"{told.returncode}\n{told.stdout}\n{told.stderr}"
    text = told.stderr + told.stdout
    assert "Traceback" not in text
    assert max(map(len, text.splitlines())) <= 80
    answer = json.loads(job.dflashctl(*words, "--json").stdout)
    assert answer["exit_code"] == code
    found = [answer["error"], *(target.get("error") for target in answer["targets"].values())]
    assert error in [one["code"] for one in found if one], answer
    assert all(one["message"] and one["next"] for one in found if one)
    return text


@pytest.fixture
def by_ssh(sshd: Sshd, private_home: Path, work: Path) -> Any:
    with ssh_route(private_home, sshd) as route:
        yield made(route, work)


@pytest.fixture
def by_pct(lab: Lab, work: Path) -> Any:
    with lab.host.pct.restored(), pct_route(lab.container, lab.host.sshd) as route:
        yield made(route, work)


@pytest.fixture
def here(private_home: Path, work: Path) -> Any:
    with local_route(private_home) as route:
        yield made(route, work)


def newest_fact(job: Job) -> str:
    """The last line of the newest journal."""
    return job.sh('tail -n 1 "$(ls -t "$1"/journal/*.jsonl | head -n 1)"', job.route.state_dir)


def test_an_unknown_target_is_told_with_the_nearest_name(here: Job) -> None:
    assert "box" in refused(here, 2, "unknown_target", "status", "-t", "bix")


def test_no_inventory_and_no_playbook_tell_where_they_were_looked_for(
    here: Job, work: Path
) -> None:
    for name, variable in (
        ("inventory", "DFLASHCTL_INVENTORY"),
        ("playbook", "DFLASHCTL_PLAYBOOK"),
    ):
        environment = {k: v for k, v in here.environment.items() if k != variable}
        (work / "empty").mkdir(exist_ok=True)
        done = subprocess.run(
            here.command("status"), env=environment, cwd=work / "empty",
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 2
        assert name in done.stderr


@pytest.mark.provokes("bad_file")
def test_every_mistake_of_a_playbook_is_told_at_once_with_its_line(here: Job) -> None:
    (here.folder / "deploy.yml").write_text(
        "version: 1\nname: dflash\nsesion: x\nrun: {command: bash x}\nstop: {grace: soon}\n"
    )
    text = refused(here, 2, "bad_file", "deploy")
    for line in ("deploy.yml:3", "deploy.yml:4", "deploy.yml:5", "session"):
        assert line in text


@pytest.mark.provokes("source_unreadable")
def test_a_missing_source_file_is_named(here: Job) -> None:
    (here.folder / "payload" / "train.py").unlink()
    assert "train.py" in refused(here, 2, "bad_file", "deploy")
    assert here.status()["state"] == "NONE", "what pushes nothing does not need it"


@pytest.mark.provokes("unreachable")
def test_a_host_that_does_not_answer(by_ssh: Job) -> None:
    change_inventory(by_ssh, lambda host: host.update(port=free_port()))
    assert "refused" in refused(by_ssh, 69, "unreachable")


def test_a_name_that_nobody_knows(by_ssh: Job) -> None:
    change_inventory(by_ssh, lambda host: host.update(address="no-such-host.invalid"))
    assert "no-such-host.invalid" in refused(by_ssh, 69, "unreachable")


def test_a_server_that_is_no_sshd(by_ssh: Job) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            for _ in range(2):
                connection, _ = server.accept()
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                connection.close()

        threading.Thread(target=answer, daemon=True).start()
        change_inventory(by_ssh, lambda host: host.update(port=server.getsockname()[1]))
        refused(by_ssh, 69, "unreachable")


@pytest.mark.provokes("not_let_in")
def test_a_key_that_is_refused(by_ssh: Job) -> None:
    make_key(by_ssh.folder / "other")
    change_inventory(by_ssh, lambda host: host.update(identity_file=str(by_ssh.folder / "other")))
    refused(by_ssh, 77, "not_let_in")


@pytest.mark.provokes("host_key_unknown")
def test_an_unknown_host_key_shows_its_fingerprint(by_ssh: Job, sshd: Sshd) -> None:
    (by_ssh.folder / "empty").touch()
    change_inventory(by_ssh, lambda h: h.update(known_hosts_file=str(by_ssh.folder / "empty")))
    text = refused(by_ssh, 76, "host_key_unknown")
    assert "SHA256:" in text
    assert (by_ssh.folder / "empty").read_text() == ""


@pytest.mark.provokes("host_key_changed")
def test_a_changed_host_key_shows_both_fingerprints(by_ssh: Job, sshd: Sshd) -> None:
    make_key(by_ssh.folder / "imposter")
    public = (by_ssh.folder / "imposter.pub").read_text()
    known = by_ssh.folder / "known"
    known.write_text(f"[127.0.0.1]:{sshd.port} {public}")
    change_inventory(by_ssh, lambda host: host.update(known_hosts_file=str(known)))
    assert refused(by_ssh, 76, "host_key_changed").count("SHA256:") == 2


@pytest.mark.provokes("container_stopped")
def test_a_container_that_is_stopped(by_pct: Job, lab: Lab) -> None:
    change_inventory(by_pct, lambda h: h["containers"]["box"].update(vmid=lab.stopped.vmid))
    assert "pct start 202" in refused(by_pct, 78, "container_stopped")


@pytest.mark.provokes("no_such_container")
def test_a_container_that_does_not_exist(by_pct: Job) -> None:
    change_inventory(by_pct, lambda host: host["containers"]["box"].update(vmid=999))
    assert "999" in refused(by_pct, 78, "no_such_container")


@pytest.mark.provokes("missing_tool")
def test_a_target_without_python(by_pct: Job) -> None:
    change_inventory(by_pct, lambda h: h["containers"]["box"].update(python="/usr/bin/python9"))
    assert "python9" in refused(by_pct, 78, "missing_tool")


def test_a_target_without_tmux(by_pct: Job) -> None:
    by_pct.sh("mv /usr/bin/tmux /usr/bin/tmux.away")
    try:
        assert "tmux" in refused(by_pct, 78, "missing_tool", "deploy")
        assert by_pct.status()["state"] == "NONE"
    finally:
        by_pct.sh("mv /usr/bin/tmux.away /usr/bin/tmux")


def test_a_container_without_scp_is_served_all_the_same(by_pct: Job, lab: Lab) -> None:
    by_pct.sh("mv /usr/bin/scp /usr/bin/scp.away")
    lab.host.pct.forget_calls()
    try:
        by_pct.ok("deploy")
        assert by_pct.sh('head -1 "$1"', by_pct.train_py) == "VERSION = 1\n"
        assert "push" in [call[0] for call in lab.host.pct.calls()]
    finally:
        by_pct.sh("mv /usr/bin/scp.away /usr/bin/scp")


def test_how_often_pct_is_called(by_pct: Job, lab: Lab) -> None:
    lab.host.pct.forget_calls()
    by_pct.ok("deploy")
    assert len(lab.host.pct.calls()) == 2, "the agent and one scp"
    lab.host.pct.forget_calls()
    by_pct.ok("status")
    assert len(lab.host.pct.calls()) == 1
    lab.host.pct.forget_calls()
    by_pct.ok("deploy", "--restart")
    assert len(lab.host.pct.calls()) == 1, "nothing is sent when nothing changed"


def test_a_dest_that_cannot_be_written_to(by_pct: Job) -> None:
    by_pct.write(files=[{"source": "payload/train.py", "dest": f"{by_pct.route.tmp}/ro/train.py"}])
    by_pct.sh('mkdir "$1/ro" && mount -t tmpfs -o ro tmpfs "$1/ro"', by_pct.route.tmp)
    try:
        assert "ro/train.py" in refused(by_pct, 65, "refused", "deploy")
    finally:
        by_pct.sh('umount "$1/ro"', by_pct.route.tmp)


def test_a_dest_that_is_a_directory(here: Job) -> None:
    Path(here.train_py).mkdir()
    assert "directory" in refused(here, 65, "refused", "deploy")


def test_a_full_disk_is_called_so_and_a_retry_works_when_there_is_room(by_pct: Job) -> None:
    place = f"{by_pct.route.tmp}/small"
    by_pct.sh('mkdir "$1" && mount -t tmpfs -o size=1m tmpfs "$1"', place)
    try:
        by_pct.sh('head -c 1040000 /dev/zero > "$1/filler"', place)
        by_pct.write(
            files=[{"source": "payload/train.py", "dest": by_pct.train_py},
                   {"source": "payload/start_training.sh",
                    "dest": f"{by_pct.route.tmp}/start_training.sh"},
                   {"source": "big", "dest": f"{place}/big"}]
        )  # fmt: skip
        (by_pct.folder / "big").write_bytes(b"b" * 300_000)
        assert "room" in refused(by_pct, 65, "refused", "deploy")
        by_pct.sh('rm "$1/filler"', place)
        by_pct.ok("deploy")
        assert by_pct.sh('wc -c < "$1/big"', place).strip() == "300000"
        by_pct.ok("stop")
    finally:
        by_pct.sh('umount -l "$1"', place)


@pytest.mark.provokes("lock_held")
def test_a_second_deploy_at_the_same_time_is_told_who_is_at_work(here: Job) -> None:
    here.write(stop={"signal": "INT", "grace": "90s"})
    # The first deploy is at work for as long as the trainer does not end.
    (here.folder / "payload" / "start_training.sh").write_text(
        "[ -e go ] && exec sleep 600; trap '' INT; until [ -e go ]; do sleep 0.1; done\n"
    )
    here.ok("deploy")
    first = subprocess.Popen(
        here.command("deploy", "--restart"), env=here.environment,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    until(lambda: here.status()["lock"] is not None)
    commands = (("deploy", "--restart"), ("deploy",), ("start",), ("stop",))
    with ThreadPoolExecutor() as pool:
        for second in pool.map(lambda words: here.dflashctl(*words), commands):
            assert second.returncode == 75, (second.args, second.stderr)
            assert "@" in second.stderr
    here.sh('touch "$1/go"', here.route.tmp)
    _, told = first.communicate(timeout=60)
    assert first.returncode == 0, told
    assert here.status()["state"] == "RUNNING"


def test_a_tiny_terminal_gets_all_of_it(here: Job) -> None:
    here.ok("deploy")
    environment = {**here.environment, "COLUMNS": "40"}
    done = subprocess.run(
        here.command("status"), env=environment, capture_output=True, text=True, check=True
    )
    assert max(map(len, done.stdout.splitlines())) <= 40
    assert "RUNNING" in done.stdout


def test_a_traceback_is_only_for_debug(here: Job) -> None:
    assert "Traceback" in here.dflashctl("--debug", "status", "-t", "bix").stderr


@pytest.mark.parametrize("when", ["at once", "in the stop", "in the start"])
def test_a_begun_transaction_needs_no_connection(by_pct: Job, when: str) -> None:
    by_pct.write(
        stop={"signal": "INT", "grace": "3s"},
        ready={"alive_for": "3s"},
        run={"command": ["sh", "-c", "trap '' INT; while :; do sleep 0.1; done"]},
    )
    by_pct.ok("deploy")
    before = by_pct.status()["run"]["id"]
    sshd = by_pct.route.sshd
    assert sshd is not None
    with Proxy(target=(sshd.host, sshd.port)) as proxy:
        (by_pct.folder / "inventory.yml").write_text(by_pct.route.inventory_through(proxy.port))
        deploy = subprocess.Popen(
            by_pct.command("deploy", "--restart"), env=by_pct.environment,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        wanted = {"at once": "StopRun", "in the stop": "StopRun", "in the start": "VerifyRun"}[when]
        until(lambda: wanted in newest_fact(by_pct), seconds=40)
        if when == "in the stop":
            time.sleep(1)
        proxy.refuse()
        proxy.cut()
        until(lambda: '"end"' in newest_fact(by_pct), seconds=40)
        proxy.recover()
        out, err = deploy.communicate(timeout=90)
    assert deploy.returncode == 0, err
    (by_pct.folder / "inventory.yml").write_text(by_pct.route.inventory)
    now = by_pct.status()
    assert now["state"] == "RUNNING"
    assert now["run"]["id"] != before
    assert now["run"]["id"] in out


def test_a_killed_client_leaves_a_whole_transaction(by_pct: Job) -> None:
    by_pct.write(ready={"alive_for": "2s"})
    by_pct.ok("deploy")
    before = by_pct.status()["run"]["id"]
    deploy = subprocess.Popen(by_pct.command("deploy", "--restart"), env=by_pct.environment)
    until(lambda: "VerifyRun" in newest_fact(by_pct), seconds=40)
    deploy.kill()
    deploy.wait()
    until(lambda: '"end"' in newest_fact(by_pct))
    now = by_pct.status()
    assert (now["state"], now["interrupted"]) == ("RUNNING", None)
    assert now["run"]["id"] != before


def test_a_killed_client_before_the_commit_leaves_nothing_behind(by_pct: Job) -> None:
    (by_pct.folder / "payload" / "big").write_bytes(os.urandom(40_000_000))
    by_pct.write(
        files=[{"source": "payload/", "dest": f"{by_pct.route.tmp}/there/"}],
        run={"command": ["sleep", "600"]},
    )
    deploy = subprocess.Popen(by_pct.command("deploy"), env=by_pct.environment)
    staging = f'ls "{by_pct.route.state_dir}/staging" 2>/dev/null'
    until(lambda: by_pct.sh(f"{staging} || true").strip(), seconds=40)
    deploy.kill()
    deploy.wait()
    until(lambda: not by_pct.sh(f"{staging} || true").strip())
    assert by_pct.sh('ls "$1/there" 2>/dev/null || echo none', by_pct.route.tmp).strip() == "none"
    assert by_pct.status()["state"] == "NONE"
