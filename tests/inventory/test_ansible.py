"""An inventory of Ansible's is read as the very targets that our own file would give."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dflashctl.errors import BadFile, UnknownTarget
from dflashctl.inventory.load import load_inventory
from dflashctl.inventory.model import InContainer, Inventory, Local, Route, SshAddress, Target
from dflashctl.inventory.select import select

KPRO6 = SshAddress(address="192.0.2.6", user="root")
PVE = """\
all:
  hosts:
    kpro6: {ansible_host: 192.0.2.6, ansible_user: root}
"""


def load(tmp_path: Path, text: str, name: str = "ansible.yml") -> Inventory:
    path = tmp_path / name
    path.write_text(text.replace("PCT", "community.proxmox.proxmox_pct_remote"))
    return load_inventory(path)


def ours(tmp_path: Path, text: str) -> Inventory:
    return load(tmp_path, f"version: 1\n{text}", "ours.yml")


def routes(inventory: Inventory) -> dict[str, Route]:
    return {target.name: target.route for target in inventory.targets}


def faults(tmp_path: Path, text: str, name: str = "ansible.yml") -> list[tuple[int, str, str]]:
    with pytest.raises(BadFile) as caught:
        load(tmp_path, text, name)
    return [(fault.line, fault.where, fault.message) for fault in caught.value.faults]


# --- hosts and their variables ------------------------------------------------------------


def test_hosts_groups_and_variables_become_what_our_own_file_says(tmp_path: Path) -> None:
    theirs = load(
        tmp_path,
        """\
all:
  vars:
    ansible_user: root
    dflashctl_default_target: gpu1
  hosts:
    bastion.example.org:
  children:
    training:
      vars: {ansible_port: 2222, dflashctl_gpus: 8}
      hosts:
        gpu1: {ansible_host: 192.0.2.1, ansible_ssh_private_key_file: keys/gpu}
        gpu2:
          ansible_host: 192.0.2.2
          ansible_user: ada
          ansible_python_interpreter: /opt/py/bin/python3
          ansible_ssh_common_args: -o ControlMaster=auto -o ProxyJump=ada@bastion.example.org:22
    here:
      hosts:
        localhost: {ansible_connection: local, ansible_python_interpreter: auto_silent}
""",
    )
    same = ours(
        tmp_path,
        """\
default_target: gpu1
hosts:
  bastion.example.org: {address: bastion.example.org, user: root}
  gpu1: {address: 192.0.2.1, port: 2222, user: root, identity_file: keys/gpu, gpus: 8}
  gpu2:
    address: 192.0.2.2
    port: 2222
    user: ada
    python: /opt/py/bin/python3
    proxy_jump: ada@bastion.example.org:22
    gpus: 8
  localhost: {connection: local}
groups: {training: [gpu1, gpu2], here: [localhost]}
""",
    )
    assert theirs.targets == same.targets
    assert (theirs.groups, theirs.default_target) == (same.groups, same.default_target)
    assert theirs.foreign
    assert not same.foreign


def test_the_nearer_group_and_the_host_itself_win(tmp_path: Path) -> None:
    inventory = load(
        tmp_path,
        """\
all:
  vars: {ansible_port: 1}
  children:
    outer:
      vars: {ansible_port: 2}
      children:
        inner:
          vars: {ansible_port: 3}
          hosts: {deep: , own: {ansible_port: 4}}
      hosts: {shallow: }
    weighty:
      vars: {ansible_port: 5, ansible_group_priority: 10}
      hosts: {shallow: }
  hosts: {bare: }
""",
    )
    ports = {t.name: t.route.port for t in inventory.targets if isinstance(t.route, SshAddress)}
    assert ports == {"deep": 3, "own": 4, "shallow": 5, "bare": 1}
    assert set(inventory.groups["outer"]) == {"deep", "own", "shallow"}


def test_files_beside_the_inventory_come_after_the_groups_and_after_the_host(
    tmp_path: Path,
) -> None:
    for name, text in {
        "group_vars/all.yml": "---\nansible_user: ada\nansible_port: 1\n",
        "group_vars/gpus/ways.yml": "ansible_port: 2\n",
        "group_vars/gpus/secret.yml": "$ANSIBLE_VAULT;1.1;AES256\n6162\n",
        "group_vars/gpus/empty.yml": "---\n# nothing yet\n",
        "group_vars/gpus/.hidden.yml": "ansible_port: 9\n",
        "group_vars/others.yml": "ansible_port: 9\n",
        "host_vars/b": "ansible_host: 192.0.2.2\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    text = """\
gpus:
  vars: {ansible_port: 3, ansible_ssh_private_key_file: /k}
  hosts:
    a: {ansible_port: 4}
    b: {ansible_host: 192.0.2.9}
"""
    ways = routes(load(tmp_path, text))
    both = {"user": "ada", "identity_file": Path("/k")}
    assert ways == {
        "a": SshAddress(address="a", port=4, **both),  # type: ignore[arg-type] # as the fields have them
        "b": SshAddress(address="192.0.2.2", port=2, **both),  # type: ignore[arg-type] # so here
    }
    (tmp_path / "host_vars" / "b").write_text("x: 1\nansible_port: 70000\n")
    with pytest.raises(BadFile) as caught:
        load(tmp_path, text)
    (fault,) = caught.value.faults
    assert (fault.path, fault.line) == (tmp_path / "host_vars" / "b", 2)
    assert fault.where == "ansible_port"


def test_a_range_stands_for_its_hosts(tmp_path: Path) -> None:
    inventory = load(tmp_path, "all: {hosts: {'gpu[08:10].lan:2200': , 'n[a:c]': , 'x[1:9:4]': }}")
    names = [target.name for target in inventory.targets]
    assert names == [
        "gpu08.lan", "gpu09.lan", "gpu10.lan", "na", "nb", "nc", "x1", "x5", "x9",
    ]  # fmt: skip
    assert routes(inventory)["gpu08.lan"] == SshAddress(address="gpu08.lan", port=2200)


def test_what_is_not_needed_may_be_anything(tmp_path: Path) -> None:
    inventory = load(
        tmp_path,
        """\
web:
  vars: &some
    secret: !vault |
      $ANSIBLE_VAULT;1.1;AES256
    enabled: yes
    since: 2026-11-29
    nothing:
    url: "http://{{ ansible_host }}/"
    ansible_become_password: "{{ vault_password }}"
    ansible_ssh_private_key_file: /k
  hosts:
    web1:
      <<: *some
      url: 2
      url: 3
""",
    )
    assert routes(inventory) == {"web1": SshAddress(address="web1", identity_file=Path("/k"))}


def test_a_host_of_another_kind_is_left_out_and_says_why(tmp_path: Path) -> None:
    inventory = load(
        tmp_path,
        """\
all:
  children:
    mixed:
      hosts:
        sw1: {ansible_connection: ansible.netcommon.network_cli}
        gpu1: {ansible_connection: ansible.builtin.ssh}
    switches:
      hosts: {sw1: }
""",
    )
    assert list(routes(inventory)) == ["gpu1"]
    assert inventory.groups == {"mixed": ("gpu1",)}
    why = "ansible_connection is ansible.netcommon.network_cli"
    assert inventory.left_out == {"sw1": why}
    with pytest.raises(UnknownTarget) as caught:
        select(inventory, ["sw1"], everything=False)
    assert caught.value.left_out == why


def test_a_group_called_as_its_only_host_is_that_host(tmp_path: Path) -> None:
    inventory = load(tmp_path, "gpu1: {hosts: {gpu1: }}\nboth: {hosts: {gpu1: , gpu2: }}\n")
    assert inventory.groups == {"both": ("gpu1", "gpu2")}


# --- containers -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "variables",
    [
        "{proxmox_vmid: 200, proxmox_node: kpro6}",
        "{proxmox_vmid: '200', proxmox_host: kpro6}",
        "{proxmox_vmid: 200, proxmox_host: 192.0.2.6}",
        "{proxmox_vmid: 200, ansible_host: 192.0.2.6, ansible_user: root}",
        "{proxmox_vmid: 200, ansible_host: 192.0.2.6, ansible_user: root, ansible_connection: PCT}",
    ],
)
def test_a_container_is_entered_through_the_host_that_its_variables_name(
    tmp_path: Path, variables: str
) -> None:
    inventory = load(tmp_path, f"{PVE}    dflash: {variables}\n")
    inside = InContainer(host=KPRO6, host_name="kpro6", vmid=200)
    assert routes(inventory) == {"kpro6": KPRO6, "kpro6/dflash": inside}


@pytest.mark.parametrize(
    ("variables", "host", "way"),
    [
        (
            "{ansible_connection: PCT, ansible_host: 192.0.2.7, proxmox_node: kpro7, VMID}",
            "kpro7",
            SshAddress(address="192.0.2.7"),
        ),
        (
            "{proxmox_host: 192.0.2.7, ansible_user: root, VMID}",
            "192.0.2.7",
            SshAddress(address="192.0.2.7", user="root"),
        ),
    ],
)
def test_a_proxmox_host_that_is_not_listed_leads_in_and_is_no_target(
    tmp_path: Path, variables: str, host: str, way: SshAddress
) -> None:
    dflash, eval_ = (variables.replace("VMID", f"proxmox_vmid: {vmid}") for vmid in (200, 201))
    inventory = load(tmp_path, f"all: {{hosts: {{dflash: {dflash}, eval: {eval_}}}}}")
    assert set(routes(inventory)) == {f"{host}/dflash", f"{host}/eval"}
    for route in routes(inventory).values():
        assert isinstance(route, InContainer)
        assert (route.host, route.host_name) == (way, host)


def test_a_container_with_an_sshd_of_its_own_is_reached_as_ansible_reaches_it(
    tmp_path: Path,
) -> None:
    known = load(
        tmp_path,
        f"{PVE}    eval: {{ansible_host: 192.0.2.61, proxmox_vmid: 201, proxmox_node: kpro6}}",
    )
    assert routes(known)["kpro6/eval"] == SshAddress(address="192.0.2.61")
    alone = load(tmp_path, "all: {hosts: {eval: {ansible_host: 192.0.2.61, proxmox_vmid: 201}}}")
    assert routes(alone) == {"eval": SshAddress(address="192.0.2.61")}


def test_the_route_may_be_said_outright(tmp_path: Path) -> None:
    way = "proxmox_vmid: 201, ansible_host: 192.0.2.6, ansible_user: root"
    text = f"{PVE}    a: {{{way}, proxmox_node: kpro6, dflashctl_route: ssh}}\n"
    assert routes(load(tmp_path, text))["kpro6/a"] == KPRO6
    text = f"all: {{hosts: {{a: {{{way}, dflashctl_route: pct}}}}}}"
    inside = InContainer(host=KPRO6, host_name="192.0.2.6", vmid=201)
    assert routes(load(tmp_path, text)) == {"192.0.2.6/a": inside}
    text = f"all: {{hosts: {{a: {{{way}, dflashctl_route: ssh}}}}}}"
    assert routes(load(tmp_path, text)) == {"a": KPRO6}


def test_a_virtual_machine_is_a_host_whatever_its_number(tmp_path: Path) -> None:
    variables = "{proxmox_vmid: 300, proxmox_node: kpro6, proxmox_vmtype: qemu}"
    inventory = load(tmp_path, f"{PVE}    vm: {variables}\n")
    assert routes(inventory) == {"kpro6": KPRO6, "vm": SshAddress(address="vm")}


def test_containers_of_this_machine(tmp_path: Path) -> None:
    text = """\
all:
  hosts:
    here: {ansible_connection: local}
    dflash: {proxmox_vmid: 200, proxmox_node: here}
"""
    inside = InContainer(host=Local(), host_name="here", vmid=200)
    assert routes(load(tmp_path, text)) == {"here": Local(), "here/dflash": inside}


# --- mistakes -------------------------------------------------------------------------------


def test_every_mistake_is_told_at_once_where_it_was_made(tmp_path: Path) -> None:
    text = """\
all:
  vars:
    ansible_user: "{{ login }}"
  hosts:
    a: {ansible_port: 70000}
    b:
      ansible_host: root@192.0.2.1
      ansible_ssh_common_args: -o ProxyCommand="ssh -W %h:%p bastion"
    c: {ansible_user: on, dflashctl_gpu: 8}
  childrens: {}
"""
    jinja = "holds a Jinja expression, which is not worked out here: write the value"
    found = faults(tmp_path, text)
    assert [(line, where) for line, where, _ in found] == [
        (3, "all.vars.ansible_user"),
        (5, "all.hosts.a.ansible_port"),
        (7, "all.hosts.b.ansible_host"),
        (8, "all.hosts.b.ansible_ssh_common_args"),
        (9, "all.hosts.c.ansible_user"),
        (9, "all.hosts.c.dflashctl_gpu"),
        (10, "all.childrens"),
    ]
    messages = [message for _, _, message in found]
    assert messages[0] == jinja
    assert messages[1] == "must be from 1 to 65535, not 70000"
    assert "write ProxyJump=user@host:port" in messages[3]
    assert messages[4] == 'YAML reads on as a truth value: put it in quotes, "on"'
    assert "did you mean gpus?" in messages[5]
    assert "did you mean children?" in messages[6]


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ("all: {hosts: [a, b]}", "all.hosts", "must be a mapping (lines of `name:`), not a list"),
        ("all: {hosts: {}}", "hosts", "must name at least one host"),
        ("all: {hosts: {a: , b: , a: }}", "all.hosts.a", "is written twice; first in line 1"),
        (
            "all: {children: {x: {children: {x: }, hosts: {a: }}}}",
            "all.children.x",
            "the group x is among its own children",
        ),
        (
            "all: {hosts: {a: {ansible_connection: local, proxmox_vmid: 200}}}",
            "all.hosts.a.ansible_connection",
            "does not go with proxmox_vmid: it would be this machine, not the container",
        ),
        (
            "all: {hosts: {a: }, children: {a: {hosts: {a: , b: }}}}",
            "all.children.a",
            "a target is called a too: name the group otherwise",
        ),
    ],
)
def test_what_cannot_be_meant_is_a_mistake(
    tmp_path: Path, text: str, where: str, message: str
) -> None:
    assert faults(tmp_path, text) == [(0 if where == "hosts" else 1, where, message)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# ours\n\n[training]\ngpu1 ansible_host=192.0.2.1\n", "is an Ansible inventory in INI"),
        ("---\nplugin: community.proxmox.proxmox\nurl: x\n", "configures a plugin of Ansible"),
        ("#!/bin/sh\necho '{}'\n", "is a program that may not be executed: chmod +x"),
    ],
)
def test_another_form_is_named_with_the_way_out(tmp_path: Path, text: str, message: str) -> None:
    ((_, _, said),) = faults(tmp_path, text, "inventory")
    assert said.startswith(message)


def test_our_own_file_without_its_version_is_still_ours(tmp_path: Path) -> None:
    found = faults(tmp_path, "hosts: {a: {address: x}}\n")
    assert found == [(1, "version", "is missing")]


# --- JSON that was kept -----------------------------------------------------------------------


LISTING: dict[str, Any] = {
    "_meta": {
        "hostvars": {
            "kpro6": {"ansible_host": "192.0.2.6", "ansible_user": "root"},
            "dflash": {"proxmox_vmid": 200, "proxmox_node": "kpro6", "dflashctl_gpus": 8},
        }
    },
    "all": {"children": ["ungrouped", "training"]},
    "ungrouped": {"hosts": ["kpro6"]},
    "training": {"hosts": ["dflash"], "vars": {"ansible_python_interpreter": "/opt/python"}},
}


def test_a_listing_that_was_kept_in_a_file_is_read_as_well(tmp_path: Path) -> None:
    inventory = load(tmp_path, json.dumps(LISTING), "listing.json")
    inside = InContainer(host=KPRO6, host_name="kpro6", vmid=200)
    assert inventory.targets == (
        Target(name="kpro6", route=KPRO6),
        Target(name="kpro6/dflash", route=inside, gpus=8, python="/opt/python"),
    )
    assert inventory.groups == {"training": ("kpro6/dflash",)}


def test_a_mistake_in_json_is_told_with_its_path(tmp_path: Path) -> None:
    wrong = json.loads(json.dumps(LISTING))
    wrong["_meta"]["hostvars"]["kpro6"]["ansible_port"] = 70000
    wrong["training"]["hosts"] = "dflash"
    assert faults(tmp_path, json.dumps(wrong), "listing.json") == [
        (0, "training.hosts", "must be a list of names, not 'dflash'"),
        (0, "_meta.hostvars.kpro6.ansible_port", "must be from 1 to 65535, not 70000"),
    ]
