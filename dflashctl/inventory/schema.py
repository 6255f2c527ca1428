"""The shape of an inventory file. What its fields mean together is checked in ``load``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from dflashctl.document.judge import named
from dflashctl.document.paths import absolute, local_path

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def _within(lowest: int, highest: int) -> Callable[[int], int]:
    def check(value: int) -> int:
        if not lowest <= value <= highest:
            raise ValueError(f"must be from {lowest} to {highest}, not {value}")
        return value

    return check


def _name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", text):
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


Name = Annotated[str, AfterValidator(_name)]
Word = Annotated[str, AfterValidator(_word)]
LocalPath = Annotated[str, AfterValidator(_local_path)]
GpuCount = Annotated[int, AfterValidator(_within(0, 1024))]


class _Mapping(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Target(_Mapping):
    """What a host and a container have in common."""

    address: Annotated[str, AfterValidator(_address)] | None = None
    port: Annotated[int, AfterValidator(_within(1, 65535))] | None = None
    user: Word | None = None
    identity_file: LocalPath | None = None
    known_hosts_file: LocalPath | None = None
    proxy_jump: str | None = None
    gpus: GpuCount | None = None
    python: Word | None = None
    path: list[Annotated[str, AfterValidator(_path_entry)]] = []
    state_dir: Annotated[str, AfterValidator(_target_folder)] | None = None
    tmux_socket: Annotated[str, AfterValidator(_socket)] | None = None


class Container(_Target):
    """A container on a host."""

    vmid: Annotated[int, AfterValidator(_within(100, 999_999_999))]
    route: Literal["pct", "ssh"] = "pct"


class Host(_Target):
    """A host, and the containers on it."""

    connection: Literal["local"] | None = None
    containers: dict[Name, Container] = {}


class InventoryFile(_Mapping):
    """The whole file."""

    version: Literal[1]
    default_target: str | None = None
    hosts: dict[Name, Host]
    groups: dict[Name, list[str]] = {}


def check(values: Mapping[str | int, Any]) -> tuple[InventoryFile | None, list[Any]]:
    """The file as checked values, or None and pydantic's list of what is wrong."""
    try:
        return InventoryFile.model_validate(values), []
    except ValidationError as error:
        return None, error.errors(include_url=False)
