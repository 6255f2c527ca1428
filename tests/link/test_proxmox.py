"""A host is asked once; what it has, and what it is not."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from dflashctl.errors import Unreachable
from dflashctl.link.local import LocalTransport
from dflashctl.link.proxmox import ask_host
from tests.lab.container import Container
from tests.lab.proxmox import DEFAULT_CONFIG, Pct, install_pct

if TYPE_CHECKING:
    from pathlib import Path

    from dflashctl.inventory.discover import HostSeen


def program(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def bin_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "host"
    folder.mkdir()
    program(folder, "lxc-info", "echo STOPPED")
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


@pytest.fixture
def pct(bin_folder: Path) -> Pct:
    if os.geteuid() != 0:
        pytest.skip("pct is for root")
    return install_pct(bin_folder)


def ask() -> HostSeen:
    return ask_host(LocalTransport("here"), "here", "this machine")


def test_a_host_without_pct_is_a_plain_one(bin_folder: Path):
    assert bin_folder.exists()
    assert (ask().pct, ask().uid) == (False, os.geteuid())


def test_a_host_without_containers_has_none(pct: Pct):
    seen = ask()
    assert (seen.pct, seen.containers) == (True, ())
    assert pct.calls() == [["list"]]


def test_each_container_s_configuration_is_asked_for(pct: Pct, tmp_path: Path):
    for vmid, name in ((1200, "late"), (200, "dflash"), (900, "tpl")):
        config = DEFAULT_CONFIG.format(vmid=vmid, name=name)
        config += "lock: backup\n" if vmid == 200 else ""
        config += "template: 1\n" if vmid == 900 else ""
        config += "dev0: /dev/nvidia0\n[pve:pending]\ndev1: /dev/nvidia1\n"
        pct.know(Container(lxc_folder=tmp_path, vmid=vmid), config)
    seen = ask()
    assert [(one.vmid, one.name, one.gpus, one.state) for one in seen.containers] == [
        (200, "dflash", 1, "stopped"),
        (1200, "late", 1, "stopped"),
    ]
    assert [call[0] for call in pct.calls()] == ["list", "config", "config", "config"]


@pytest.mark.provokes("pct_failed")
def test_pct_that_refuses_is_told_in_its_words(bin_folder: Path):
    program(bin_folder, "pct", "echo please run as root >&2; exit 255")
    seen = ask()
    assert (seen.failed, seen.pct) == ("please run as root", True)


def test_a_host_whose_shell_answers_something_else_is_told(bin_folder: Path):
    program(bin_folder, "sh", "echo what?")
    with pytest.raises(Unreachable, match="POSIX shell does; what"):
        ask()
