"""What an Ansible inventory says: hosts in groups, with variables; `ansible` says what it means."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from dflashctl.document.judge import did_you_mean, named
from dflashctl.document.read import spelled
from dflashctl.errors import Fault

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from dflashctl.document.read import Document, Loc

# Every host is in the first; the second holds those that are in no other.
EVERY = ("all", "ungrouped")
_PARTS = ("hosts", "children", "vars")
_OURS = ("hosts", "groups")
_RANGE = re.compile(r"\[(\d+|[a-z]|[A-Z]):(\d+|[a-z]|[A-Z])(?::(\d+))?\]")
_MOST = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A value, and where it stands. ``fault``: what is wrong with it as YAML."""

    value: Any
    path: Path
    line: int
    where: str
    fault: Fault | None = None

    def mistake(self, message: str) -> Fault:
        """A mistake at this place."""
        return Fault(path=self.path, line=self.line, where=self.where, message=message)


Vars = dict[str, Said]


@dataclass(slots=True, kw_only=True)
class Group:
    """One group.

    ``said``: its name, and where it is first named; ``beside``: variables of files of its own.
    """

    said: Said
    hosts: list[str] = field(default_factory=list)
    children: list[str] = field(default_factory=list)
    variables: Vars = field(default_factory=dict)
    beside: Vars = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Groups:
    """A whole inventory: hosts with their own variables, in the file's order, and groups.

    ``beside``: variables of hosts in files of their own.
    """

    hosts: dict[str, Vars] = field(default_factory=dict)
    beside: dict[str, Vars] = field(default_factory=dict)
    named: dict[str, Said] = field(default_factory=dict)
    groups: dict[str, Group] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)

    def group(self, name: str, said: Said) -> Group:
        """The group of that name, which is made if there is none yet."""
        return self.groups.setdefault(name, Group(said=said))

    def host(self, name: str, said: Said) -> Vars:
        """The variables of the host of that name, which is made if there is none yet."""
        self.named.setdefault(name, said)
        return self.hosts.setdefault(name, {})

    def variables(self) -> dict[str, Vars]:
        """What holds for each host: of its groups the nearest counts, and the host before all.

        Groups of one depth come in the order of their ``ansible_group_priority``, then of
        their names; the last one wins. What stands in files beside the inventory comes after
        the groups, and after the host.
        """
        depths = self._depths()
        within: dict[str, set[str]] = {host: {"all"} for host in self.hosts}
        for name, group in self.groups.items():
            above = {name, *self._above(name)}
            for host in group.hosts:
                within[host] |= above
        order = sorted(self.groups, key=lambda name: (depths[name], self._priority(name), name))
        effective: dict[str, Vars] = {}
        for host, own in self.hosts.items():
            of_it = [self.groups[name] for name in order if name in within[host]]
            effective[host] = {}
            for layer in (
                *(group.variables for group in of_it), *(group.beside for group in of_it),
                own, self.beside.get(host, {}),
            ):  # fmt: skip
                effective[host] |= layer
        return effective

    def members(self, name: str) -> list[str]:
        """The hosts of a group and of all groups below it, each once."""
        below = [name, *(other for other in self.groups if name in self._above(other))]
        return list(dict.fromkeys(host for each in below for host in self.groups[each].hosts))

    def circles(self) -> Iterator[Fault]:
        """Groups that hold themselves."""
        for name, group in self.groups.items():
            if name in self._above(name):
                yield group.said.mistake(f"the group {name} is among its own children")

    def _above(self, name: str) -> set[str]:
        found: set[str] = set()
        new = {name}
        while new:
            new = {one for one, group in self.groups.items() if new & set(group.children)} - found
            found |= new
        return found

    def _depths(self) -> dict[str, int]:
        depths = dict.fromkeys(self.groups, 1) | {"all": 0}
        for _ in self.groups:  # no chain is longer
            for name, group in self.groups.items():
                for child in group.children:
                    depths[child] = max(depths.get(child, 1), depths[name] + 1)
        return depths

    def _priority(self, name: str) -> int:
        said = self.groups[name].variables.get("ansible_group_priority")
        return int(said.value) if said and re.fullmatch(r"\d{1,9}", str(said.value)) else 1


def are_groups(values: Mapping[str | int, Any]) -> bool:
    """Whether the top of a YAML file is that of an Ansible inventory and not of our own."""
    return "version" not in values and any(
        name in EVERY
        or (name not in _OURS and isinstance(body, dict) and body.keys() & set(_PARTS))
        for name, body in values.items()
    )


def of_document(document: Document) -> Groups:
    """The groups of an inventory in Ansible's YAML."""
    return _Yaml(document).whole()


class _Yaml:
    """Reads groups. What YAML misreads in a variable matters only where that is needed."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._faults: dict[str, list[Fault]] = {}
        for fault in document.faults:
            self._faults.setdefault(fault.where, []).append(fault)
        self.groups = Groups()

    def whole(self) -> Groups:
        """All of it."""
        for name, body in self._named(self._document.values, ()).items():
            self.group(str(name), body, (name,))
        return self.groups

    def group(self, name: str, body: Any, loc: Loc) -> None:
        group = self.groups.group(name, self._place(name, loc))
        parts = self._named(body, loc)
        for part in parts:
            if part not in _PARTS:
                hint = did_you_mean(str(part), _PARTS)
                self._complain(
                    (*loc, part), f"is no part of a group{hint} (these are hosts, children, vars)"
                )
        here: Loc = (*loc, "hosts")
        for pattern, own in self._named(parts.get("hosts"), here).items():
            self._hosts(group, str(pattern), own, (*here, pattern))
        group.variables |= self.variables(parts.get("vars"), (*loc, "vars"))
        here = (*loc, "children")
        for child, inner in self._named(parts.get("children"), here).items():
            group.children.append(str(child))
            self.group(str(child), inner, (*here, child))

    def _hosts(self, group: Group, pattern: str, own: Any, loc: Loc) -> None:
        variables = self.variables(own, loc)
        # A number alone after a colon is a port; a whole IPv6 address has more of them.
        name, colon, port = pattern.rpartition(":")
        if colon and port.isdigit() and ":" not in re.sub(_RANGE, "", name):
            variables = {"ansible_port": self._place(int(port), loc)} | variables
            pattern = name
        for host in expanded(pattern):
            self.groups.host(host, self._place(host, loc)).update(variables)
            group.hosts.append(host)
        if len(group.hosts) > _MOST:
            self._complain(loc, f"stands for more than {_MOST} hosts")
            del group.hosts[_MOST:]

    def variables(self, body: Any, loc: Loc) -> Vars:
        """Names and values at a place."""
        found: Vars = {}
        for name, value in self._mapping(body, loc).items():
            if name == "<<" and isinstance(value, dict):
                found = self.variables(value, (*loc, name)) | found
            else:
                found[str(name)] = self._said(value, (*loc, name))
        return found

    def _named(self, body: Any, loc: Loc) -> Mapping[str | int, Any]:
        """A mapping whose names all count, so that what YAML says against them does, too."""
        found = self._mapping(body, loc)
        for name in found:
            against = self._faults.get(spelled((*loc, name)), ())
            # A name with nothing behind it says much here: `web1:` is a host.
            self.groups.faults += [f for f in against if not f.message.startswith("is empty")]
        return found

    def _mapping(self, body: Any, loc: Loc) -> Mapping[str | int, Any]:
        if isinstance(body, dict):
            return body
        if isinstance(body, str) and loc[-1] in _PARTS[:2]:
            return {body: None}
        if body is not None:
            self._complain(loc, f"must be a mapping (lines of `name:`), not {named(body)}")
        return {}

    def _said(self, value: Any, loc: Loc) -> Said:
        fault = next(iter(self._faults.get(spelled(loc), ())), None)
        return replace(self._place(value, loc), fault=fault)

    def _place(self, value: Any, loc: Loc) -> Said:
        line = self._document.lines.get(loc, 0)
        return Said(value=value, path=self._document.path, line=line, where=spelled(loc))

    def _complain(self, loc: Loc, message: str) -> None:
        self.groups.faults.append(self._document.fault(loc, message))


def of_variables(document: Document) -> Vars:
    """The variables of a file that holds nothing else."""
    return _Yaml(document).variables(document.values, ())


def of_listing(path: Path, listing: Mapping[str, Any]) -> Groups:
    """The groups of what a program prints for ``--list``: JSON by group, and ``_meta``."""
    groups = Groups()

    def said(value: Any, *loc: str | int) -> Said:
        return Said(value=value, path=path, line=0, where=spelled(loc))

    def complain(value: Any, wanted: str, *loc: str | int) -> None:
        groups.faults.append(said(None, *loc).mistake(f"must be {wanted}, not {named(value)}"))

    def variables(body: Any, *loc: str | int) -> Vars:
        if not isinstance(body, dict):
            complain(body, "an object", *loc)
            return {}
        return {str(name): said(value, *loc, str(name)) for name, value in body.items()}

    def names(body: Any, *loc: str | int) -> list[str]:
        if not isinstance(body, list) or not all(isinstance(name, str) for name in body):
            complain(body, "a list of names", *loc)
            return []
        return body

    for name, body in listing.items():
        if name == "_meta":
            continue
        group = groups.group(name, said(name, name))
        parts = {"hosts": body} if isinstance(body, list) else body  # the oldest form
        if not isinstance(parts, dict):
            complain(body, "an object", name)
            continue
        for host in names(parts.get("hosts", []), name, "hosts"):
            groups.host(host, said(host, name, "hosts"))
            group.hosts.append(host)
        for child in names(parts.get("children", []), name, "children"):
            group.children.append(child)
        group.variables |= variables(parts.get("vars", {}), name, "vars")
    for group in tuple(groups.groups.values()):
        for child in group.children:
            groups.group(child, said(child, group.said.value, "children"))
    meta = listing.get("_meta", {})
    hostvars = meta.get("hostvars", {}) if isinstance(meta, dict) else meta
    if not isinstance(hostvars, dict):
        complain(hostvars, "an object", "_meta", "hostvars")
        return groups
    for host, own in hostvars.items():
        loc = ("_meta", "hostvars", host)
        groups.host(host, said(host, *loc)).update(variables(own, *loc))
    return groups


def expanded(pattern: str) -> list[str]:
    """The hosts that ``web[01:20]``, ``db-[a:f]`` or ``n[1:9:2]`` stand for; else the name."""
    found = _RANGE.search(pattern)
    if found is None:
        return [pattern]
    first, last, step = found[1], found[2], int(found[3] or 1)
    if first.isdigit() != last.isdigit() or not step:
        return [pattern]
    if first.isdigit():
        width = len(first) if first[0] == "0" else 0
        middle = (str(number).zfill(width) for number in range(int(first), int(last) + 1, step))
    else:
        middle = (chr(code) for code in range(ord(first), ord(last) + 1, step))
    ends = expanded(pattern[found.end() :])
    every = (f"{pattern[: found.start()]}{one}{end}" for one in middle for end in ends)
    return list(islice(every, _MOST + 1))
