"""What pct prints: columns, both forms of a GPU, sections that do not count."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflashctl.inventory.discover import (
    FRAME,
    ContainerSeen,
    fitting_name,
    gpu_count,
    read,
    with_names,
)

COLUMNS = "%-10s %-10s %-12s %-20s"


def answer(*rows: tuple[object, str, str, str], configs: dict[int, str] | None = None) -> str:
    listed = [COLUMNS % ("VMID", "Status", "Lock", "Name")] if rows else []
    lines = [f"{FRAME} host kpro6 0 /root", f"{FRAME} device nvidia0", f"{FRAME} device nvidia1"]
    lines += [f"{FRAME} list", *listed, *(COLUMNS % row for row in rows)]
    for vmid, config in (configs or {}).items():
        lines += [f"{FRAME} config {vmid}", config]
    return "\n".join([*lines, f"{FRAME} end", ""])


def test_a_blank_lock_is_a_blank_lock():
    seen = read(answer((200, "running", "", "dflash"), (202, "stopped", "backup", "eval")))
    assert [(one.vmid, one.state, one.name) for one in seen.containers] == [
        (200, "running", "dflash"),
        (202, "stopped", "eval"),
    ]
    assert (seen.hostname, seen.uid, seen.pct, seen.gpus) == ("kpro6", 0, True, 2)


def test_a_host_without_containers_prints_nothing_at_all():
    seen = read(answer())
    assert (seen.containers, seen.pct, seen.failed) == ((), True, None)


def test_a_host_without_pct_is_no_proxmox_host():
    seen = read(f"Welcome!\n{FRAME} host box 1000 /home/ann\n{FRAME} end\n")
    assert not seen.pct
    assert (seen.uid, seen.home) == (1000, "/home/ann")


def test_a_failing_pct_is_told_with_its_words():
    text = f"{FRAME} host kpro6 7 /\n{FRAME} failed 255\nplease run as root\n\n{FRAME} end\n"
    assert read(text).failed == "please run as root"


def test_a_template_is_no_container_to_run_in():
    assert read(answer((900, "stopped", "", "tpl"), configs={900: "template: 1"})).containers == ()


@pytest.mark.parametrize("text", ["", "hello\n", f"{FRAME} host kpro6 0\n{FRAME} list\n"])
def test_half_an_answer_is_none(text: str):
    with pytest.raises(ValueError, match=r"."):
        read(text)


MODERN = "dev0: /dev/nvidia0,gid=44,mode=0660\ndev1: path=/dev/nvidia1\ndev2: /dev/nvidiactl"
LEGACY = (
    "lxc.cgroup2.devices.allow: c 195:* rwm\n"
    "lxc.mount.entry: /dev/nvidia1 dev/nvidia1 none bind,optional,create=file\n"
    "lxc.mount.entry = /dev/nvidia2 dev/nvidia2 none bind,optional,create=file\n"
    "lxc.mount.entry: /dev/nvidia-uvm dev/nvidia-uvm none bind,optional,create=file\n"
    "lxc.mount.entry: /dev/nvidia-caps dev/nvidia-caps none bind,optional,create=dir"
)


@pytest.mark.parametrize(
    ("config", "count"),
    [
        ("arch: amd64\nhostname: nvidia7", 0),
        (MODERN, 2),
        (LEGACY, 2),
        (f"{MODERN}\n{LEGACY}", 3),
        (f"{MODERN}\n[pve:pending]\ndev3: /dev/nvidia3", 2),
        (f"{MODERN}\n[before-upgrade]\ndev3: /dev/nvidia3\n{LEGACY}", 2),
        ("lxc.mount.entry:", 0),
    ],
)
def test_gpus_are_counted_over_both_forms_each_once(config: str, count: int):
    assert gpu_count(config.splitlines()) == count


@given(st.sets(st.integers(0, 15)), st.sets(st.integers(0, 15)))
def test_a_gpu_that_both_forms_name_is_one_gpu(modern: set[int], legacy: set[int]):
    lines = [f"dev{key}: /dev/nvidia{gpu}" for key, gpu in enumerate(modern)]
    lines += [f"lxc.mount.entry: /dev/nvidia{gpu} dev/nvidia{gpu} none bind" for gpu in legacy]
    assert gpu_count(lines) == len(modern | legacy)


@given(st.lists(st.text(max_size=8), max_size=6))
def test_names_are_allowed_and_differ(wanted: list[str]):
    named = with_names(
        ContainerSeen(vmid=100 + number, name=name, state="running", gpus=0)
        for number, name in enumerate(wanted)
    )
    names = [one.name for one in named]
    assert len(set(names)) == len(wanted)
    for name in names:
        assert name[0].isalnum()
        assert all(letter.isascii() and (letter.isalnum() or letter in "._-") for letter in name)


def test_a_taken_name_is_told_apart_by_the_number():
    assert fitting_name("dflash", "ct200", {"dflash"}) == "dflash-ct200"
