"""The shape of an inventory file. What its fields mean together is checked in ``load``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError, WithJsonSchema

from dflashctl.document.judge import named
from dflashctl.document.paths import absolute, local_path

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_WORD = r"[^-\s]\S*"


def _form(pattern: str) -> WithJsonSchema:
    """What an editor is told of a text that is checked here."""
    return WithJsonSchema({"type": "string", "pattern": f"^{pattern}$"})


def _number(lowest: int, highest: int) -> WithJsonSchema:
    return WithJsonSchema({"type": "integer", "minimum": lowest, "maximum": highest})


def _within(lowest: int, highest: int) -> Callable[[int], int]:
    def check(value: int) -> int:
        if not lowest <= value <= highest:
            raise ValueError(f"must be from {lowest} to {highest}, not {value}")
        return value

    return check


def _name(text: str) -> str:
    if not re.fullmatch(_NAME, text):
        allowed = "must be letters, digits, dots, dashes or _, a letter or digit first"
        raise ValueError(f"{allowed}, not {named(text)}")
    return text


def _word(text: str) -> str:
    """A word that ssh may be given: no option, nothing that splits."""
    if not text or text.startswith("-") or re.search(r"\s", text):
        raise ValueError(f"must be one word that begins with no dash, not {named(text)}")
    return text


def _address(text: str) -> str:
    _word(text)
    if "@" in text:
        raise ValueError(f"must be a host alone: write the part before the @ of {text} in `user`")
    if text.count(":") == 1:
        raise ValueError(f"must be a host alone: write the part after the : of {text} in `port`")
    return text


def _path_entry(text: str) -> str:
    if ":" in text:
        raise ValueError(f"must be one folder an entry, without a colon, not {named(text)}")
    return absolute(text)


def _local_path(text: str) -> str:
    local_path(text, Path())
    return text


def _target_folder(text: str) -> str:
    absolute(text.removeprefix("~"))
    return text


def _socket(text: str) -> str:
    if "/" in text:
        return absolute(text)
    return _word(text)


def _ip_address(text: str) -> str:
    from ipaddress import ip_address

    try:
        ip_address(text)
    except ValueError:
        raise ValueError(f"must be an IP address, not {named(text)}") from None
    return text


Name = Annotated[str, AfterValidator(_name), _form(_NAME)]
Word = Annotated[str, AfterValidator(_word), _form(_WORD)]
LocalPath = Annotated[str, AfterValidator(_local_path)]
GpuCount = Annotated[int, AfterValidator(_within(0, 1024)), _number(0, 1024)]


class _Mapping(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Target(_Mapping):
    """What a host and a container have in common."""

    address: Annotated[str, AfterValidator(_address), _form(r"[^-\s@][^\s@]*")] | None = None
    """A name, an IP address or an alias of ~/.ssh/config; nothing else in it."""
    port: Annotated[int, AfterValidator(_within(1, 65535)), _number(1, 65535)] | None = None
    """The sshd's port, where ~/.ssh/config does not say it or says otherwise."""
    user: Word | None = None
    """Whom to log in as, where ~/.ssh/config does not say it or says otherwise."""
    identity_file: LocalPath | None = None
    """The key to log in with, on this machine. A relative path starts at this file's folder."""
    known_hosts_file: LocalPath | None = None
    """Where the host's key is looked up, on this machine; default ~/.ssh/known_hosts."""
    host_key: Literal["strict", "accept-new"] | None = None
    """accept-new: a key not known yet is taken and recorded; strict, the default: it is not."""
    become: Literal["sudo"] | None = None
    """sudo: everything there is done as root, by sudo; default: as the user we log in as."""
    proxy_jump: str | None = None
    """The way in between: a host of this inventory, user@host:port, or none."""
    gpus: GpuCount | None = None
    """How many GPUs it has."""
    python: Word | None = None
    """Python 3.10 or newer there; default python3."""
    path: list[Annotated[str, AfterValidator(_path_entry)]] = []
    """Folders to search first for programs there, as [/opt/bin]."""
    state_dir: Annotated[str, AfterValidator(_target_folder)] | None = None
    """Where dflashctl keeps its records there; default ~/.local/state/dflashctl."""
    tmux_socket: Annotated[str, AfterValidator(_socket)] | None = None
    """A name as for tmux -L, or a path as for tmux -S; default: the user's own server."""
    fabric_address: Annotated[str, AfterValidator(_ip_address)] | None = None
    """The IP address at which the other targets of a run reach it; default: found there."""


class Container(_Target):
    """A container on a host."""

    vmid: Annotated[int, AfterValidator(_within(100, 999_999_999)), _number(100, 999_999_999)]
    """Its number on the Proxmox host, from 100."""
    route: Literal["pct", "ssh"] = "pct"
    """pct: entered through the host's pct exec; ssh: reached at its own address."""


class Host(_Target):
    """A host, and the containers on it."""

    connection: Literal["local"] | None = None
    """local: this very machine, without ssh."""
    containers: dict[Name, Container] = {}
    """The containers on it, by name."""


class InventoryFile(_Mapping):
    """The whole file."""

    version: Literal[1]
    """The version of this format."""
    default_target: str | None = None
    """The target of a command without -t."""
    hosts: dict[Name, Host]
    """The machines, by name."""
    groups: dict[Name, list[str]] = {}
    """Lists of targets, by name."""


def check(values: Mapping[str | int, Any]) -> tuple[InventoryFile | None, list[Any]]:
    """The file as checked values, or None and pydantic's list of what is wrong."""
    try:
        return InventoryFile.model_validate(values), []
    except ValidationError as error:
        return None, error.errors(include_url=False)
