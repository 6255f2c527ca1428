"""Our inventory as Ansible's, and read again: the same targets."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dflashctl.inventory.export import as_ansible
from dflashctl.inventory.load import load_inventory
from dflashctl.inventory.model import Inventory

names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,6}", fullmatch=True)
# So short that hosts, containers and groups often have one name.
short = st.sampled_from(["a", "b", "a-b", "7", "0x1", "on", "null"])
paths = st.sampled_from(["~/keys/id", "keys/a b", "/etc/keys/o'clock", "./x"])
common = st.fixed_dictionaries(
    {},
    optional={
        "gpus": st.integers(0, 16),
        "python": st.sampled_from(["/opt/venv/bin/python3", "python3.12"]),
        "path": st.lists(st.sampled_from(["/opt/bin", "/usr/local/bin"]), max_size=2),
        "state_dir": st.sampled_from(["~/state", "/var/lib/d"]),
        "tmux_socket": st.sampled_from(["mine", "/run/tmux"]),
    },
)
sshd = st.fixed_dictionaries(
    {"address": st.sampled_from(["192.0.2.1", "alias", "gpu.example.org", "2001:db8::1"])},
    optional={
        "port": st.integers(1, 65535),
        "user": st.sampled_from(["root", "ada", "on", "1000"]),
        "identity_file": paths,
        "known_hosts_file": paths,
        "become": st.just("sudo"),
        "host_key": st.sampled_from(["strict", "accept-new"]),
    },
)


@st.composite
def inventories(draw: st.DrawFn) -> dict[str, Any]:
    """What an inventory of ours may say."""
    hosts: dict[str, Any] = {}
    for name in draw(st.lists(short | names, min_size=1, max_size=4, unique=True)):
        local = draw(st.integers(0, 4)) == 0
        body: dict[str, Any] = {"connection": "local"} if local else draw(sshd)
        if local and draw(st.booleans()):
            body["become"] = "sudo"
        body |= draw(common)
        jumps = ["none", "ada@bastion:22", *(o for o, b in hosts.items() if "address" in b)]
        if not local and draw(st.booleans()):
            body["proxy_jump"] = draw(st.sampled_from(jumps))
        inside = {}
        for vmid, inner in enumerate(draw(st.lists(short | names, max_size=3, unique=True)), 100):
            inside[inner] = draw(common) | {"vmid": vmid}
            if draw(st.integers(0, 3)) == 0:
                inside[inner] |= draw(sshd) | {"route": "ssh"}
            elif draw(st.booleans()):
                inside[inner]["route"] = "pct"
        hosts[name] = body | ({"containers": inside} if inside else {})
    whole: dict[str, Any] = {"version": 1, "hosts": hosts}
    full = [
        *hosts,
        *(f"{h}/{inner}" for h, b in hosts.items() for inner in b.get("containers", ())),
    ]
    if draw(st.booleans()):
        whole["default_target"] = draw(st.sampled_from(full))
    taken = {part for name in full for part in (name, name.partition("/")[2])}
    for group in draw(st.lists(short | names, max_size=2, unique=True)):
        if group not in taken | {"all", "ungrouped"}:
            members = draw(st.lists(st.sampled_from(full), min_size=1, max_size=3, unique=True))
            whole.setdefault("groups", {})[group] = members
    return whole


def read(folder: str, name: str, text: str) -> Inventory:
    path = Path(folder, name)
    path.write_text(text, encoding="utf-8")
    return load_inventory(path)


def same(ours: Inventory, theirs: Inventory) -> None:
    assert {one.name: one for one in theirs.targets} == {one.name: one for one in ours.targets}
    assert theirs.groups == ours.groups
    assert theirs.default_target == ours.default_target


@settings(deadline=None)  # the machine may be busy
@given(inventories())
def test_what_is_printed_for_ansible_is_read_as_the_same_targets(whole: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ours = read(folder, "ours.yml", json.dumps(whole))
        # Elsewhere: a relative path must not lead to another file.
        Path(folder, "elsewhere").mkdir()
        theirs = read(folder, "elsewhere/ansible.yml", as_ansible(ours))
        assert theirs.foreign
        same(ours, theirs)
        same(theirs, read(folder, "again.yml", as_ansible(theirs)))


def test_hosts_that_only_lead_to_their_containers_stay_unlisted(tmp_path: Path) -> None:
    text = (
        "all: {vars: {ansible_connection: community.proxmox.proxmox_pct_remote,"
        " ansible_host: 192.0.2.6, ansible_user: ada, dflashctl_become: sudo},"
        " hosts: {a: {proxmox_vmid: 200}, b: {proxmox_vmid: 201, proxmox_node: kpro6}}}"
    )
    theirs = read(str(tmp_path), "theirs.yml", text)
    assert [one.name for one in theirs.targets] == ["192.0.2.6/a", "192.0.2.6/b"]
    same(theirs, read(str(tmp_path), "again.yml", as_ansible(theirs)))


def test_the_example_as_ansible_reads_it(tmp_path: Path) -> None:
    """docs/inventory.md shows this text, too."""
    example = tmp_path / "hosts.yml"
    example.write_text(
        "version: 1\ndefault_target: dflash\nhosts:\n  kpro6:\n    address: 192.0.2.6\n"
        "    user: root\n    containers: {dflash: {vmid: 200, gpus: 8}}\n"
        "groups: {training: [dflash]}\n"
    )
    text = as_ansible(load_inventory(example))
    assert (
        text
        == """\
all:
  hosts:
    kpro6:
      ansible_host: 192.0.2.6
      ansible_user: root
    dflash:
      ansible_connection: community.proxmox.proxmox_pct_remote
      ansible_host: 192.0.2.6
      ansible_user: root
      dflashctl_gpus: 8
      proxmox_vmid: 200
      proxmox_node: kpro6
  vars:
    dflashctl_default_target: kpro6/dflash
  children:
    training:
      hosts:
        dflash:
"""
    )
    page = Path(__file__).parents[2] / "docs" / "inventory.md"
    assert text in page.read_text(encoding="utf-8")
