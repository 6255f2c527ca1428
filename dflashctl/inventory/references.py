"""What an inventory's fields mean together: names that lead nowhere, circles, contradictions.

These checks read the file's own values, so that they are made even where the schema
already found mistakes; what has the wrong type is left to the schema.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from dflashctl.document.judge import did_you_mean, named
from dflashctl.document.read import Document, Loc, mapping
from dflashctl.inventory.select import fitting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dflashctl.errors import Fault

SSH_FIELDS = (
    *("address", "port", "user", "identity_file", "known_hosts_file", "host_key", "proxy_jump"),
)
# What belongs to the way to a host, and so to the host of a container that pct enters.
WAY_FIELDS = (*SSH_FIELDS, "become")
Hosts = dict[str | int, Any]


def reference_faults(document: Document) -> Iterator[Fault]:
    """Every such mistake of the file."""
    hosts = mapping(document.values.get("hosts"))
    if "hosts" in document.values and document.values["hosts"] == {}:
        yield document.fault(("hosts",), "must name at least one host")
    for name, body in hosts.items():
        if isinstance(body, dict):
            yield from _host_faults(document, hosts, ("hosts", name), body)
    yield from _circles(document, hosts)
    yield from _target_name_faults(document, hosts)


def full_names(hosts: Hosts) -> tuple[str, ...]:
    """The full names of all targets, in the file's order."""
    names: list[str] = []
    for host, body in hosts.items():
        names.append(str(host))
        names += [f"{host}/{inner}" for inner in mapping(mapping(body).get("containers"))]
    return tuple(names)


def _host_faults(document: Document, hosts: Hosts, loc: Loc, body: Hosts) -> Iterator[Fault]:
    if body.get("connection") == "local":
        for field in SSH_FIELDS:
            if field in body:
                yield document.fault((*loc, field), "does not go with `connection: local`")
    else:
        if "address" not in body and "connection" not in body:
            message = "is missing: the host's name or address (or else `connection: local`)"
            yield document.fault((*loc, "address"), message)
        yield from _jump_faults(document, hosts, loc, body)
    first_with: dict[object, str | int] = {}
    for name, inner in mapping(body.get("containers")).items():
        here = (*loc, "containers", name)
        yield from _container_faults(document, hosts, here, mapping(inner))
        vmid = mapping(inner).get("vmid")
        if isinstance(vmid, int):
            if vmid in first_with:
                message = f"{vmid} is also the vmid of {first_with[vmid]} on this host"
                yield document.fault((*here, "vmid"), message)
            first_with.setdefault(vmid, name)


def _container_faults(
    document: Document, hosts: Hosts, loc: Loc, container: Hosts
) -> Iterator[Fault]:
    route = container.get("route", "pct")
    if route == "pct":
        for field in WAY_FIELDS:
            if field in container:
                yield document.fault((*loc, field), "only goes with `route: ssh`")
    elif route == "ssh":
        if "address" not in container:
            message = "is missing: `route: ssh` needs the container's own address"
            yield document.fault((*loc, "address"), message)
        yield from _jump_faults(document, hosts, loc, container)


def _jump_faults(document: Document, hosts: Hosts, loc: Loc, body: Hosts) -> Iterator[Fault]:
    jump = body.get("proxy_jump")
    if isinstance(jump, str) and (problem := _jump_problem(jump, hosts)):
        yield document.fault((*loc, "proxy_jump"), problem)


def _jump_problem(jump: str, hosts: Hosts) -> str | None:
    if jump in hosts:
        if mapping(hosts[jump]).get("connection") == "local":
            return f"{jump} is this machine: there is nothing to jump through"
        return None
    if jump == "none":
        return None
    form = re.fullmatch(r"([^\s@,/-][^\s@,/]*@)?([^\s@,/:[-][^\s@,/:]*|\[[\w:.%]+\])(:\d+)?", jump)
    if not form:
        return f"must be a host of this inventory, user@host:port, or none, not {named(jump)}"
    user, _, port = form.groups()
    if port and not 1 <= int(port[1:]) <= 65535:
        return f"must have a port from 1 to 65535, not {port[1:]}"
    if not user and not port and "." not in jump and ":" not in jump:
        hint = did_you_mean(jump, [str(host) for host in hosts])
        return f"no host of this inventory is called {jump}{hint} (another is user@{jump}:port)"
    return None


def _circles(document: Document, hosts: Hosts) -> Iterator[Fault]:
    """Hosts that are only reached through themselves; each circle is told once."""
    told: set[object] = set()
    for start in hosts:
        way: list[Any] = []
        at: Any = start
        while at in hosts and at not in way and at not in told:
            way.append(at)
            at = mapping(hosts[at]).get("proxy_jump")
            if not isinstance(at, str):
                break
        if at in way:
            circle = way[way.index(at) :]
            message = f"goes in a circle: {' -> '.join(map(str, (*circle, at)))}"
            yield document.fault(("hosts", at, "proxy_jump"), message)
        told.update(way)


def _target_name_faults(document: Document, hosts: Hosts) -> Iterator[Fault]:
    known = full_names(hosts)
    default = document.values.get("default_target")
    if isinstance(default, str) and (problem := _target_problem(default, known)):
        yield document.fault(("default_target",), problem)
    for group, members in mapping(document.values.get("groups")).items():
        loc = ("groups", group)
        if fitting(str(group), known):
            yield document.fault(loc, f"a target is called {group} too: name the group otherwise")
        if members == []:
            yield document.fault(loc, "must name at least one target")
        for index, member in enumerate(members if isinstance(members, list) else ()):
            if isinstance(member, str) and (problem := _target_problem(member, known)):
                yield document.fault((*loc, index), problem)


def _target_problem(name: str, known: tuple[str, ...]) -> str | None:
    found = fitting(name, known)
    if len(found) > 1:
        return f"{name} may be {' or '.join(found)}: write which"
    if not found:
        short = [full.rpartition("/")[2] for full in known]
        return f"no target is called {name!r}{did_you_mean(name, (*short, *known))}"
    return None
