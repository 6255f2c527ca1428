"""Our inventory as Ansible's YAML, which `ansible` reads back as it was.

What Ansible has a word for is said with it; the rest is in variables of our own.
"""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING, Any

from dflashctl.document.paths import local_path
from dflashctl.document.read import mapping
from dflashctl.inventory.ansible import DEFAULT, OURS, PCT
from dflashctl.inventory.references import WAY_FIELDS
from dflashctl.inventory.select import fitting
from dflashctl.inventory.write import scalar

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from dflashctl.inventory.model import Inventory

_WORDS = {
    "address": "ansible_host",
    "port": "ansible_port",
    "user": "ansible_user",
    "identity_file": "ansible_ssh_private_key_file",
    "python": "ansible_python_interpreter",
}
_FILES = ("identity_file", "known_hosts_file")
Hosts = dict[str, dict[str, Any]]


def as_ansible(inventory: Inventory) -> str:
    """The text of the file."""
    hosts: Hosts = {}
    names: dict[str, str] = {}
    said = mapping(inventory.said.get("hosts"))
    listed = [target.name for target in inventory.targets]
    taken = {name for name in said if name in listed}
    for full, host, inner in _every(said):
        if full not in listed:
            continue
        name = _name(host, inner, taken | set(hosts), listed)
        names[full] = name
        body = mapping(said[host])
        if inner is None:
            hosts[name] = _of_host(body, said, inventory.path.parent)
            continue
        inside = body["containers"][inner]
        hosts[name] = _of_container(host, body, inside, said, inventory.path.parent)
        if name != inner:
            hosts[name][f"{OURS}name"] = inner
    whole: dict[str, Any] = {"hosts": hosts}
    if inventory.default_target is not None:
        whole["vars"] = {DEFAULT: inventory.default_target}
    if inventory.groups:
        whole["children"] = {
            group: {"hosts": {names[member]: {} for member in members}}
            for group, members in inventory.groups.items()
        }
    return "\n".join(("all:", *_block(whole, 2))) + "\n"


def _every(said: Mapping[Any, Any]) -> Iterator[tuple[str, str, str | None]]:
    """Each target's full name, its host, and its own name if it is a container."""
    for host, body in said.items():
        yield host, host, None
        for inner in mapping(mapping(body).get("containers")):
            yield f"{host}/{inner}", host, str(inner)


def _name(host: str, inner: str | None, taken: set[str], listed: list[str]) -> str:
    """What Ansible calls it: a container's own name, if no other target is called so."""
    if inner is None:
        return host
    if inner not in taken and fitting(inner, listed) == (f"{host}/{inner}",):
        return inner
    name = f"{host}-{inner}"
    while name in taken or fitting(name, listed):
        name += "-"
    return name


def _of_host(body: Mapping[Any, Any], said: Mapping[Any, Any], folder: Path) -> dict[str, Any]:
    if body.get("connection") == "local":
        rest = {name: value for name, value in body.items() if name != "connection"}
        return {"ansible_connection": "local", **_variables(rest, said, folder)}
    return _variables(body, said, folder)


def _of_container(
    host: str,
    body: Mapping[Any, Any],
    inside: Mapping[Any, Any],
    said: Mapping[Any, Any],
    folder: Path,
) -> dict[str, Any]:
    place = {"proxmox_vmid": inside["vmid"], "proxmox_node": host}
    own = {name: value for name, value in inside.items() if name != "vmid"}
    if inside.get("route") == "ssh" or body.get("connection") == "local":
        return {**_variables(own, said, folder), **place}
    way = {name: value for name, value in body.items() if name in WAY_FIELDS}
    return {"ansible_connection": PCT, **_variables(way | own, said, folder), **place}


def _variables(body: Mapping[Any, Any], said: Mapping[Any, Any], folder: Path) -> dict[str, Any]:
    variables: dict[str, Any] = {}
    for name, value in body.items():
        if name == "containers":
            continue
        if name in _FILES and not value.startswith("~"):
            value = str(local_path(value, folder))  # noqa: PLW2901 - the same, from anywhere
        variables[_WORDS.get(name, f"{OURS}{name}")] = value
    if arguments := _arguments(body, said, folder):
        variables["ansible_ssh_common_args"] = arguments
    return variables


def _arguments(body: Mapping[Any, Any], said: Mapping[Any, Any], folder: Path) -> str:
    """The same for Ansible's ssh, where it has no variables."""
    words: list[str] = []
    jump = body.get("proxy_jump")
    if jump in said:
        way = mapping(said[jump])
        user, port = way.get("user"), way.get("port")
        jump = f"{f'{user}@' if user else ''}{way['address']}{f':{port}' if port else ''}"
    if jump is not None:
        words += ["-o", f"ProxyJump={jump}"]
    known = body.get("known_hosts_file")
    if known is not None:
        known = known if known.startswith("~") else local_path(known, folder)
        # ssh takes an option's value apart at blanks, unless it is in quotes of its own.
        words += ["-o", f'UserKnownHostsFile="{known}"' if " " in str(known) else
                  f"UserKnownHostsFile={known}"]  # fmt: skip
    return shlex.join(words)


def _block(values: Mapping[str, Any], indent: int) -> Iterator[str]:
    for name, value in values.items():
        head = f"{' ' * indent}{_key(name)}:"
        if isinstance(value, dict) and value:
            yield head
            yield from _block(value, indent + 2)
        elif isinstance(value, dict):
            yield head
        else:
            yield f"{head} {scalar(value) if isinstance(value, str) else json.dumps(value)}"


def _key(name: str) -> str:
    """A name as a key: a number in quotes stays a name."""
    return scalar(name) if not re.fullmatch(r"[\d._-]+", name) else json.dumps(name)
