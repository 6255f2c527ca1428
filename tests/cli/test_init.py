"""init in empty and in used folders, and what it makes of a script and a host."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from dflashctl.cli.call import Call
from dflashctl.cli.host import Host
from dflashctl.cli.main import main
from dflashctl.inventory.begin import inventory_of, playbook_of
from dflashctl.inventory.discover import ContainerSeen, HostSeen
from dflashctl.inventory.found import Found, beside
from dflashctl.inventory.load import load_inventory
from dflashctl.inventory.model import InContainer, SshAddress
from dflashctl.playbook.load import load_outline, load_playbook
from tests.cli.world import Result

DFLASH = ContainerSeen(vmid=200, name="dflash", state="running", gpus=8)
EVAL = ContainerSeen(vmid=101, name="eval", state="stopped", gpus=8)


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    def command(*words: str) -> Result:
        environ = {"HOME": str(tmp_path), "TERM": "dumb"}
        code = main(words, Call(environ=environ, cwd=tmp_path))
        return Result(code, *capsys.readouterr())

    return command


def found(*containers: ContainerSeen, uid: int = 0, home: str = "/root") -> Found:
    seen = HostSeen(hostname="kpro6", uid=uid, home=home, pct=True, gpus=8, containers=containers)
    return beside(seen, "kpro6", "kpro6", SshAddress(address="kpro6"), None)


def test_an_empty_folder_gets_an_inventory_and_a_playbook_that_load(run, tmp_path: Path):
    result = run("init", "new")
    assert result.code == 0
    assert "cd new" in result.err
    load_inventory(tmp_path / "new/inventory/hosts.yml")
    playbook = load_playbook(tmp_path / "new/playbooks/deploy.yml")
    assert all(file.source.exists() for file in playbook.files)
    assert os.access(tmp_path / "new/playbooks/demo/start_training.sh", os.X_OK)


def test_what_is_there_is_left_as_it_is(run, tmp_path: Path):
    playbook = tmp_path / "playbooks" / "deploy.yml"
    playbook.parent.mkdir()
    playbook.write_text("# mine\n")
    states = {
        Path(one["path"]).name: one["state"]
        for one in json.loads(run("init", "--json").out)["files"]
    }
    assert (states["deploy.yml"], states["hosts.yml"]) == ("kept", "written")
    assert playbook.read_text() == "# mine\n"
    assert {one["state"] for one in json.loads(run("init", "--json").out)["files"]} == {"kept"}


def test_a_host_is_called_as_the_operator_calls_it():
    for address, name in (("kpro6", "kpro6"), ("gpu-box", "gpu-box"), ("localhost", "")):
        route = SshAddress(address=address)
        assert Host(said=f"root@{address}", route=route, listed=None).short_name == name
    for address in ("192.0.2.6", "::1", "kpro6.example.org"):
        assert not Host(said="x", route=SshAddress(address=address), listed=None).short_name


def test_an_inventory_of_another_name_is_not_put_in_the_shade(run, tmp_path: Path):
    (tmp_path / "inventory").mkdir()
    (tmp_path / "inventory" / "mine.yml").write_text("")
    assert run("init").code == 0
    assert not (tmp_path / "inventory" / "hosts.yml").exists()


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("train me.py", ("python3", "-u", "/root/train me.py")),
        ("start.sh", ("bash", "/root/start.sh")),
        ("trainer", ("/root/trainer",)),
    ],
)
def test_a_script_of_one_s_own_is_pushed_and_run(
    run, tmp_path: Path, name: str, command: tuple[str, ...]
):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / name).write_text("")
    assert run("init", "job", "--script", f"src/{name}").code == 0
    playbook = load_playbook(tmp_path / "job/playbooks/deploy.yml")
    assert playbook.run
    assert playbook.run.command == command
    assert [file.source.resolve() for file in playbook.files] == [tmp_path / "src" / name]
    assert playbook.files[0].dest == command[-1]
    assert not (tmp_path / "job/playbooks/demo").exists()


def test_a_script_that_is_not_there_is_told_before_anything_is_written(run, tmp_path: Path):
    result = run("init", "--script", "no.py")
    assert (result.code, list(tmp_path.iterdir())) == (2, [])
    assert "no.py" in result.err


def test_a_folder_that_cannot_be_written_is_told(run, tmp_path: Path):
    (tmp_path / "file").write_text("")
    assert run("init", "file").code == 2
    (tmp_path / "inventory").write_text("")
    assert run("init").code == 2


def test_a_host_s_targets_are_the_inventory_s_and_the_best_is_the_default(tmp_path: Path):
    path = tmp_path / "hosts.yml"
    path.write_text(inventory_of(found(EVAL, DFLASH)))
    inventory = load_inventory(path)
    assert inventory.default_target == "kpro6/dflash"
    routes = {one.name: one.route for one in inventory.targets}
    assert isinstance(routes["kpro6/eval"], InContainer)
    assert routes["kpro6/eval"].vmid == 101
    assert {one.name: one.gpus for one in inventory.targets}["kpro6"] == 8


def test_a_host_without_containers_is_the_target_itself(tmp_path: Path):
    path = tmp_path / "hosts.yml"
    path.write_text(inventory_of(found()))
    assert load_inventory(path).default_target == "kpro6"


def test_into_a_container_one_comes_as_root_whoever_the_host_lets_in(tmp_path: Path):
    path = tmp_path / "deploy.yml"
    path.write_text(playbook_of(None, tmp_path, found(DFLASH, uid=1000, home="/home/ann")))
    playbook = load_outline(path)
    assert playbook.run
    assert playbook.run.cwd == "/root"


def test_somebody_who_is_not_root_there_gets_their_own_home(tmp_path: Path):
    path = tmp_path / "deploy.yml"
    path.write_text(playbook_of(None, tmp_path, found(uid=1000, home="/home/ann")))
    playbook = load_outline(path)
    assert playbook.run
    assert playbook.checkpoints
    assert playbook.run.cwd == "/home/ann"
    assert playbook.run.command == ("bash", "/home/ann/start_training.sh")
    assert playbook.checkpoints.path == playbook.run.env["CHECKPOINTS"] == "/home/ann/checkpoints"
