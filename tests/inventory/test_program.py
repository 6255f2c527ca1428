"""A program that prints the inventory, by Ansible's convention."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from dflashctl.errors import InventoryProgram
from dflashctl.inventory import program
from dflashctl.inventory.load import load_inventory

LISTING = {
    "_meta": {"hostvars": {"gpu1": {"ansible_host": "192.0.2.1"}}},
    "training": {"hosts": ["gpu1"]},
}


def script(tmp_path: Path, text: str) -> Path:
    """A program that writes its words into ``called`` first."""
    path = tmp_path / "inventory.sh"
    path.write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/called\n{text}\n')
    path.chmod(0o755)
    return path


def calls(tmp_path: Path) -> list[str]:
    return (tmp_path / "called").read_text().splitlines()


def failure(path: Path) -> InventoryProgram:
    with pytest.raises(InventoryProgram) as caught:
        load_inventory(path)
    return caught.value


def test_it_is_called_once_and_its_groups_are_the_inventory(tmp_path: Path) -> None:
    path = script(tmp_path, f"echo '{json.dumps(LISTING)}'; echo warning >&2")
    inventory = load_inventory(path)
    assert [target.name for target in inventory.targets] == ["gpu1"]
    assert inventory.groups == {"training": ("gpu1",)}
    assert inventory.foreign
    assert calls(tmp_path) == ["--list"]


def test_without_meta_it_is_asked_for_each_host(tmp_path: Path) -> None:
    path = script(
        tmp_path,
        """case "$1" in
--list) echo '{"training": ["gpu1", "gpu2"]}' ;;
--host) echo "{\\"ansible_host\\": \\"$2.example.org\\"}" ;;
esac""",
    )
    inventory = load_inventory(path)
    assert [target.route.address for target in inventory.targets] == [  # type: ignore[union-attr] # hosts by ssh
        "gpu1.example.org", "gpu2.example.org",
    ]  # fmt: skip
    assert calls(tmp_path) == ["--list", "--host gpu1", "--host gpu2"]


def test_its_own_words_are_told_when_it_fails(tmp_path: Path) -> None:
    error = failure(script(tmp_path, "echo 'no token' >&2; echo 'set TOKEN' >&2; exit 3"))
    assert error.reason == "ended with exit code 3"
    assert error.said == ("no token", "set TOKEN")
    assert error.words == ("--list",)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("echo oops", "does not print JSON"),
        ("echo '[]'", "prints JSON, but no object"),
        ("kill -9 $$", "ended with signal 9"),
        ("exec /no/such/program", "ended with exit code"),
    ],
)
def test_what_it_does_instead_is_told(tmp_path: Path, text: str, reason: str) -> None:
    assert failure(script(tmp_path, text)).reason.startswith(reason)


def test_a_program_without_an_interpreter_cannot_be_run(tmp_path: Path) -> None:
    path = tmp_path / "inventory"
    path.write_text("#!/no/such/interpreter\n")
    path.chmod(0o755)
    assert failure(path).reason.startswith("cannot be run")


def test_it_is_ended_with_its_children_when_it_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "DEADLINE_S", 0.5)
    path = script(tmp_path, f"sleep 600 & echo $! > {tmp_path}/child; echo busy >&2; wait")
    error = failure(path)
    assert error.reason.startswith("has not ended")
    child = int((tmp_path / "child").read_text())
    until = time.monotonic() + 20
    while Path(f"/proc/{child}/stat").exists():
        if Path(f"/proc/{child}/stat").read_text().split()[2] == "Z":
            break
        assert time.monotonic() < until, "the child lives on"
        time.sleep(0.05)


def test_it_may_not_print_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "MAX_BYTES", 1 << 20)
    error = failure(script(tmp_path, "yes"))
    assert error.reason == "prints more than 1 MiB"


def test_much_on_standard_error_holds_nothing_up(tmp_path: Path) -> None:
    path = script(tmp_path, f"head -c 10000000 /dev/zero >&2; echo '{json.dumps(LISTING)}'")
    assert len(load_inventory(path).targets) == 1


def test_yaml_that_may_be_executed_is_read_and_not_run(tmp_path: Path) -> None:
    path = tmp_path / "hosts.yml"
    path.write_text("version: 1\nhosts: {a: {address: x}}\n")
    path.chmod(0o755)
    assert [target.name for target in load_inventory(path).targets] == ["a"]


def test_it_runs_where_the_command_was_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    path = script(tmp_path, f"pwd > {tmp_path}/cwd; echo '{json.dumps(LISTING)}'")
    load_inventory(Path(os.path.relpath(path)))
    assert (tmp_path / "cwd").read_text() == "/\n"
