from __future__ import annotations

import errno
from pathlib import Path

import pytest

from dflashctl.errors import BadFile, NoFile
from dflashctl.inventory.load import find_inventory


def put(folder: Path, *names: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text("version: 1\n")


def test_the_option_comes_before_the_variable_and_the_usual_folders(tmp_path: Path) -> None:
    put(tmp_path / "inventory", "hosts.yml")
    put(tmp_path, "a.yml", "b.yml")
    environ = {"DFLASHCTL_INVENTORY": "b.yml"}
    assert find_inventory("a.yml", environ, tmp_path) == tmp_path / "a.yml"
    assert find_inventory(None, environ, tmp_path) == tmp_path / "b.yml"
    assert find_inventory(None, {}, tmp_path) == tmp_path / "inventory/hosts.yml"


def test_the_users_configuration_is_the_last_place(tmp_path: Path) -> None:
    home, other, cwd = tmp_path / "home", tmp_path / "other", tmp_path / "cwd"
    put(home / ".config/dflashctl/inventory", "hosts.yml")
    put(other / "dflashctl/inventory", "hosts.yml")
    put(cwd)
    found = find_inventory(None, {"HOME": str(home)}, cwd)
    assert found == home / ".config/dflashctl/inventory/hosts.yml"
    environ = {"HOME": str(home), "XDG_CONFIG_HOME": str(other)}
    assert find_inventory(None, environ, cwd) == other / "dflashctl/inventory/hosts.yml"


def test_a_folder_stands_for_its_hosts_yml_or_for_its_only_yaml_file(tmp_path: Path) -> None:
    put(tmp_path / "one", "lab.yaml", "notes.txt")
    put(tmp_path / "two", "lab.yaml", "hosts.yml")
    assert find_inventory("one", {}, tmp_path) == tmp_path / "one/lab.yaml"
    assert find_inventory("two", {}, tmp_path) == tmp_path / "two/hosts.yml"


def test_a_folder_of_several_files_without_hosts_yml_is_a_fault_that_names_them(
    tmp_path: Path,
) -> None:
    put(tmp_path / "inventory", "b.yml", "a.yaml")
    with pytest.raises(BadFile) as caught:
        find_inventory(None, {}, tmp_path)
    (fault,) = caught.value.faults
    assert fault.path == tmp_path / "inventory"
    assert fault.message == "holds several YAML files (a.yaml, b.yml) and no hosts.yml: name one"


def test_a_usual_folder_without_yaml_is_passed_over(tmp_path: Path) -> None:
    put(tmp_path / "inventory", "code.py")
    put(tmp_path / "config/dflashctl/inventory", "hosts.yml")
    found = find_inventory(None, {"XDG_CONFIG_HOME": str(tmp_path / "config")}, tmp_path)
    assert found == tmp_path / "config/dflashctl/inventory/hosts.yml"


@pytest.mark.parametrize("said", ["none.yml", "empty", "~no-such-user-here/x"])
def test_an_option_or_a_variable_that_leads_nowhere_is_not_passed_over(
    tmp_path: Path, said: str
) -> None:
    put(tmp_path / "inventory", "hosts.yml")
    put(tmp_path / "empty")
    sayings: list[tuple[str | None, dict[str, str]]] = [
        (said, {}),
        (None, {"DFLASHCTL_INVENTORY": said}),
    ]
    for option, environ in sayings:
        with pytest.raises(NoFile) as caught:
            find_inventory(option, environ, tmp_path)
        assert caught.value.kind == "inventory"
        assert [said in place for place in caught.value.looked_in] == [True]


def test_no_inventory_at_all_names_the_places(tmp_path: Path) -> None:
    with pytest.raises(NoFile) as caught:
        find_inventory(None, {"HOME": "/home/someone"}, tmp_path)
    assert caught.value.looked_in == (
        str(tmp_path / "inventory"),
        "/home/someone/.config/dflashctl/inventory",
    )


def test_a_folder_that_may_not_be_read_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(folder: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(folder))

    put(tmp_path / "inventory", "hosts.yml")
    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(BadFile) as caught:
        find_inventory(None, {}, tmp_path)
    assert caught.value.faults[0].message == "cannot be read: Permission denied"
