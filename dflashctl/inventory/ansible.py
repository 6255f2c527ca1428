"""From Ansible's groups and variables to what our own file would say.

A host is a host. One with ``proxmox_vmid`` is a container: entered through its Proxmox host
where the variables lead there, else reached by ssh as Ansible reaches it. What Ansible has
no word for is in variables of our own: ``dflashctl_gpus``, ``dflashctl_state_dir``, ...
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dflashctl.document.read import Document, Loc
from dflashctl.inventory.discover import fitting_name
from dflashctl.inventory.groups import EVERY, Said
from dflashctl.inventory.references import SSH_FIELDS, WAY_FIELDS, full_names
from dflashctl.inventory.select import fitting

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from dflashctl.errors import Fault
    from dflashctl.inventory.groups import Groups, Vars

OURS = "dflashctl_"
DEFAULT = f"{OURS}default_target"
PCT = "community.proxmox.proxmox_pct_remote"
# Of several spellings the first counts: with Ansible that is ssh's own.
_FIELDS = {
    "address": ("ansible_ssh_host", "ansible_host"),
    "port": ("ansible_ssh_port", "ansible_port"),
    "user": ("ansible_ssh_user", "ansible_user"),
    "identity_file": ("ansible_ssh_private_key_file", "ansible_private_key_file"),
    "python": ("ansible_python_interpreter",),
}
_ARGUMENTS = ("ansible_ssh_common_args", "ansible_ssh_extra_args")
_SSH = {"ssh", "smart", "paramiko", "paramiko_ssh", "libssh"}
_NUMBERS = ("port", "gpus", "vmid")
# Interpreters that Ansible looks for by itself; we look for python3.
_FOUND_BY_ANSIBLE = re.compile(r"auto(_\w+)?|\{\{\s*ansible_playbook_python\s*\}\}")
_JUMP = re.compile(r"proxyjump[= ]\s*(\S+)", re.IGNORECASE)

Body = dict[str, Said]


@dataclass(frozen=True, kw_only=True)
class Converted(Document):
    """What our own file would say, whose mistakes are told where they were made.

    ``stands``: the place of each value. ``unlisted``: hosts that are only the way to their
    containers. ``left_out``: hosts that are not for us, by name, with the reason.
    """

    stands: Mapping[Loc, Said]
    unlisted: frozenset[str]
    left_out: Mapping[str, str]

    def fault(self, loc: Loc, message: str) -> Fault:
        """A mistake at ``loc``, told where the variable, the host or the group stands."""
        known = loc
        while known and known not in self.stands:
            known = known[:-1]
        said = self.stands.get(known)
        return super().fault(loc, message) if said is None else said.mistake(message)


def converted(path: Path, kind: str, groups: Groups) -> Converted:
    """The inventory in our own words; every mistake is in its ``faults``."""
    conversion = _Conversion(groups)
    values = conversion.values()
    document = Converted(
        path=path,
        kind=kind,
        values=values,
        lines={},
        written={},
        faults=(*groups.faults, *groups.circles(), *conversion.faults),
        misread=frozenset(conversion.misread),
        stands=conversion.stands,
        unlisted=frozenset(conversion.unlisted),
        left_out=conversion.left_out,
    )
    if not values["hosts"]:
        document.raise_for(())  # that there is no host comes from these
    return document


@dataclass(slots=True, kw_only=True)
class _Host:
    """One host of theirs: our fields, how it is connected to, and where it is in."""

    name: str
    said: Said
    fields: Body
    connection: str
    vmid: Said | None
    node: Said | None
    inner: str

    @property
    def way(self) -> dict[str, Any]:
        """How its sshd is reached, to be compared."""
        return {name: one.value for name, one in self.fields.items() if name in SSH_FIELDS}


@dataclass(slots=True)
class _Conversion:
    groups: Groups
    faults: list[Fault] = field(default_factory=list)
    stands: dict[Loc, Said] = field(default_factory=dict)
    unlisted: set[str] = field(default_factory=set)
    left_out: dict[str, str] = field(default_factory=dict)
    misread: set[Loc] = field(default_factory=set)
    _wrong: set[str] = field(default_factory=set)
    _hosts: dict[str, _Host] = field(default_factory=dict)
    _full: dict[str, str] = field(default_factory=dict)
    _bodies: dict[str | int, Any] = field(default_factory=dict)

    def values(self) -> dict[str | int, Any]:
        """All of it."""
        default: Said | None = None
        for name, variables in self.groups.variables().items():
            default = default or variables.get(DEFAULT)
            if host := self._read(name, variables):
                self._hosts[name] = host
        for name, host in self._hosts.items():
            if host.vmid is None:
                self._host(name, host)
        for host in self._hosts.values():
            if host.vmid is not None:
                self._container(host)
        values: dict[str | int, Any] = {"version": 1, "hosts": self._bodies}
        if default is not None:
            self._put(("default_target",), values, "default_target", default)
        if groups := dict(self._groups()):
            values["groups"] = groups
        return values

    def _read(self, name: str, variables: Vars) -> _Host | None:
        """Our fields of a host; None where it is not for us."""
        connection, _ = self._word(variables, "ansible_connection")
        kind = (connection or "ssh").rpartition(".")[2]
        if kind not in {*_SSH, "local", PCT.rpartition(".")[2]}:
            self.left_out[name] = f"ansible_connection is {connection}"
            return None
        fields: Body = {}
        for ours, theirs in _FIELDS.items():
            _, said = self._word(variables, *theirs)
            if said is not None and not (ours == "python" and _is_found(said.value)):
                fields[ours] = said
        self._jump(variables, fields)
        for variable, said in variables.items():
            if variable.startswith(OURS) and variable not in {DEFAULT, f"{OURS}name"}:
                fields[variable.removeprefix(OURS)] = self._plain(said)
        for number in _NUMBERS:
            if (said := fields.get(number)) and re.fullmatch(r"\d{1,9}", str(said.value)):
                fields[number] = _with(said, int(said.value))
        machine, _ = self._word(variables, "proxmox_vmtype")
        _, vmid = self._word(variables, "proxmox_vmid")
        _, node = self._word(variables, "proxmox_host", "proxmox_node")
        inner, _ = self._word(variables, f"{OURS}name")
        if machine == "qemu":
            vmid = None  # a machine with a kernel of its own has no way in but its sshd
        if vmid is not None and kind == "local":
            message = "does not go with proxmox_vmid: it would be this machine, not the container"
            self.faults.append(variables["ansible_connection"].mistake(message))
        return _Host(
            name=name,
            said=self.groups.named[name],
            fields=fields,
            connection=kind,
            vmid=vmid,
            node=node,
            inner=str(inner or name),
        )

    def _word(self, variables: Vars, *names: str) -> tuple[Any, Said | None]:
        """The first of these variables that is there, fit to be used."""
        for name in names:
            if (said := variables.get(name)) is not None:
                said = self._plain(said)
                return said.value, said
        return None, None

    def _plain(self, said: Said) -> Said:
        """A value that we need; what cannot be read or worked out is a mistake."""
        if said.fault is not None:
            self.faults.append(said.fault)
            self._wrong.add(said.where)
        elif isinstance(said.value, str) and "{{" in said.value and not _is_found(said.value):
            message = "holds a Jinja expression, which is not worked out here: write the value"
            self.faults.append(said.mistake(message))
            self._wrong.add(said.where)
        return said

    def _jump(self, variables: Vars, fields: Body) -> None:
        """The way in between, out of the arguments that Ansible gives to ssh."""
        for name in _ARGUMENTS:
            said = variables.get(name)
            if said is None or f"{OURS}proxy_jump" in variables:
                continue
            text = str(self._plain(said).value or "")
            try:
                words = shlex.split(text)
            except ValueError:
                self.faults.append(said.mistake("has a quote that does not end"))
                continue
            if "proxycommand" in text.lower():
                message = (
                    "has a ProxyCommand, which is not taken: write ProxyJump=user@host:port, "
                    f"or {OURS}proxy_jump"
                )
                self.faults.append(said.mistake(message))
            for word, after in zip(words, (*words[1:], ""), strict=True):
                option = after if word == "-o" else word.removeprefix("-o")
                if word == "-J" or (word.startswith("-J") and len(word) > 2):
                    fields["proxy_jump"] = _with(said, word.removeprefix("-J") or after)
                elif word.startswith("-o") and (found := _JUMP.fullmatch(option)):
                    fields["proxy_jump"] = _with(said, found[1])

    def _host(self, name: str, host: _Host) -> None:
        self._bodies[name] = body = {}
        host.fields.pop("route", None)  # a host has but one
        self._full[name] = name
        self.stands[("hosts", name)] = host.said
        if host.connection == "local":
            body["connection"] = "local"
            for one in SSH_FIELDS:
                host.fields.pop(one, None)
        else:
            host.fields.setdefault("address", _with(host.said, name))
        self._fill(("hosts", name), body, host.fields)

    def _container(self, host: _Host) -> None:
        """Beside its Proxmox host, if that is known, by the way that the variables say."""
        through = self._through(host)
        if through is None:
            node = str(host.node.value) if host.node else None
            if node not in self._bodies:
                self._host(host.name, host)  # nothing leads to its Proxmox host
                return
            through = node
            host.fields["route"] = _with(host.said, "ssh")
        else:
            for name in WAY_FIELDS:
                host.fields.pop(name, None)
        loc = ("hosts", through, "containers", host.inner)
        inside = self._bodies[through].setdefault("containers", {})
        if host.inner in inside:
            message = f"the host {through} has another container called {host.inner}"
            self.faults.append(host.said.mistake(message))
        self._full[host.name] = f"{through}/{host.inner}"
        self.stands[loc] = host.said
        assert host.vmid is not None, "it is a container"
        host.fields["vmid"] = _number(host.vmid)
        inside[host.inner] = {}
        self._fill(loc, inside[host.inner], host.fields)

    def _through(self, host: _Host) -> str | None:
        """The Proxmox host whose ``pct`` leads into a container; None: it has an sshd."""
        route = host.fields.get("route")  # said outright, in a variable of ours
        if route is not None and route.value == "ssh":
            return None
        node = str(host.node.value) if host.node else None
        known = {name: one for name, one in self._hosts.items() if one.vmid is None}
        if "address" in host.fields:
            same = [name for name, one in known.items() if one.way == host.way]
            if same:
                return node if node in same else same[0]
        elif node is not None:
            same = [name for name, one in known.items() if one.way.get("address") == node]
            if node in known or same:
                return node if node in known else same[0]
        if host.connection not in _SSH or route is not None:
            return self._unlisted(node, {"address": host.name} | host.way, host)
        # A node's name leads nowhere by itself; who says `proxmox_host` names a machine.
        if "address" not in host.fields and host.node and host.node.where.endswith("_host"):
            return self._unlisted(node, {"address": node} | host.way, host)
        return None

    def _unlisted(self, node: str | None, way: dict[str, Any], host: _Host) -> str:
        """A Proxmox host that is no host of theirs: only the way to containers."""
        if (become := host.fields.get("become")) is not None:
            way |= {"become": become.value}
        for name in self.unlisted:
            body = self._bodies[name]
            if {key: value for key, value in body.items() if key != "containers"} == way:
                return name
        name = fitting_name(
            node or str(way["address"]), "host", set(map(str, (*self._bodies, *self._hosts)))
        )
        self.unlisted.add(name)
        self._bodies[name] = body = {}
        self.stands[("hosts", name)] = host.said
        for key, value in way.items():
            said = host.fields.get(key) or host.node or host.said
            self._put(("hosts", name, key), body, key, _with(said, value))
        return name

    def _fill(self, loc: Loc, body: dict[str, Any], fields: Body) -> None:
        for name, said in fields.items():
            self._put((*loc, name), body, name, said)

    def _put(self, loc: Loc, body: dict[Any, Any], name: str, said: Said) -> None:
        body[name], self.stands[loc] = said.value, said
        if said.where in self._wrong:
            self.misread.add(loc)  # more complaints would only repeat it

    def _groups(self) -> Iterator[tuple[str, list[str]]]:
        known = full_names(self._bodies)
        for name, group in self.groups.groups.items():
            members = [self._full[host] for host in self.groups.members(name) if host in self._full]
            # Some give each host a group of its own, called as it is.
            if name in EVERY or not members or members == list(fitting(name, known)):
                continue
            self.stands[("groups", name)] = group.said
            yield name, members


def _with(said: Said, value: Any) -> Said:
    return Said(value=value, path=said.path, line=said.line, where=said.where)


def _number(said: Said) -> Said:
    text = str(said.value)
    return _with(said, int(text)) if re.fullmatch(r"\d{1,9}", text) else said


def _is_found(value: object) -> bool:
    return isinstance(value, str) and bool(_FOUND_BY_ANSIBLE.fullmatch(value))
