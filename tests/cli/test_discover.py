"""inventory discover on this machine, with a pct that is a few lines of shell."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from dflashctl.cli.call import Call
from dflashctl.cli.main import main
from dflashctl.inventory.load import load_inventory
from tests.cli.world import Result

PCT = """\
#!/bin/sh
case $1 in
list) cat <<'END'
VMID       Status     Lock         Name
200        running                 dflash
201        stopped    backup       eval
END
;;
config) echo 'dev0: /dev/nvidia0'; echo 'lxc.mount.entry: /dev/nvidia1 dev/nvidia1 none bind' ;;
esac
"""
INVENTORY = """\
# Mine.
version: 1
hosts:
  here:   # this machine
    connection: local
    containers:
      # the big one
      train: {vmid: 200, gpus: 8}
groups: {all: [train]}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "bin").mkdir()
    put_pct(tmp_path, PCT)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    (tmp_path / "inventory").mkdir()
    (tmp_path / "inventory" / "hosts.yml").write_text(INVENTORY)
    return tmp_path


def put_pct(folder: Path, script: str) -> None:
    (folder / "bin" / "pct").write_text(script)
    (folder / "bin" / "pct").chmod(0o755)


@pytest.fixture
def run(folder: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    def command(*words: str) -> Result:
        environ = {"HOME": str(folder), "TERM": "dumb"}
        code = main(("inventory", "discover", *words), Call(environ=environ, cwd=folder))
        return Result(code, *capsys.readouterr())

    return command


def test_what_is_printed_is_an_inventory(run, tmp_path: Path) -> None:
    result = run("here")
    path = tmp_path / "pasted.yml"
    path.write_text("version: 1\n" + result.out)
    names = [target.name for target in load_inventory(path).targets]
    assert names == ["here", "here/train", "here/eval"]
    assert "declares 8 GPUs" in result.err


def test_writing_adds_what_is_new_once_and_keeps_every_line(run, folder: Path) -> None:
    path = folder / "inventory" / "hosts.yml"
    assert run("here", "--write").out == "added here/eval\n"
    once = path.read_text()
    kept = [line for line in once.splitlines() if "eval" not in line]
    assert kept == INVENTORY.splitlines()
    assert [target.gpus for target in load_inventory(path).targets] == [None, 8, 2]
    assert "has it all already" in run("here", "--write").out
    assert path.read_text() == once


def test_the_answer_as_json_says_what_is_new(run) -> None:
    targets = json.loads(run("here", "--json").out)["targets"]
    assert {name: one["listed"] for name, one in targets.items()} == {
        "here": True, "here/train": True, "here/eval": False,
    }  # fmt: skip
    train = targets["here/train"]
    assert (train["vmid"], train["gpus"], train["declared_gpus"]) == (200, 2, 8)
    assert targets["here/eval"]["state"] == "stopped"


def test_who_is_not_root_is_told_so(run, folder: Path) -> None:
    put_pct(folder, "#!/bin/sh\necho please run as root >&2\nexit 255\n")
    (folder / "bin" / "id").write_text("#!/bin/sh\necho 1000\n")
    (folder / "bin" / "id").chmod(0o755)
    result = run("here")
    assert result.code == 77
    assert "we are uid 1000" in result.err
    assert "please run as root" in result.err


def test_a_pct_that_fails_for_root_is_told_in_its_words(run, folder: Path) -> None:
    put_pct(folder, "#!/bin/sh\necho ipcc_send_rec failed >&2\nexit 111\n")
    (folder / "bin" / "id").write_text("#!/bin/sh\necho 0\n")
    (folder / "bin" / "id").chmod(0o755)
    result = run("here")
    assert result.code == 78
    assert "ipcc_send_rec failed" in result.err
    assert "pve-cluster" in result.err


def test_a_plain_machine_is_a_target_by_itself(run, folder: Path) -> None:
    (folder / "bin" / "pct").unlink()
    result = run("here")
    assert result.code == 0
    assert "no Proxmox host" in result.err
    assert result.out == "hosts:\n  here: {connection: local}\n"


def test_without_an_inventory_nothing_is_written_and_init_is_named(run, folder: Path) -> None:
    (folder / "inventory" / "hosts.yml").unlink()
    result = run("127.0.0.1:1", "--write")
    assert result.code == 69
    assert not list((folder / "inventory").iterdir())
