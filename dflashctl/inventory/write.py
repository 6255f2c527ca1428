"""Adds to an inventory file without touching what is there: comments, order and all.

Lines are only ever inserted. That they mean what was intended, and that everything else
means what it did, is proved by reading the result before anyone keeps it.
"""

from __future__ import annotations

import codecs
import json
import re
import stat
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from dflashctl.agent.records import write_atomically
from dflashctl.errors import BadFile, CannotWrite, Fault
from dflashctl.inventory.load import KIND

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import yaml

Body = dict[str, Any]
_STEP = 2


def hosts_block(name: str, body: Mapping[str, Any]) -> str:
    """A whole ``hosts:`` of one host, to paste or to begin a file with."""
    return "\n".join(("hosts:", *_block({name: body}, _STEP))) + "\n"


def add_host(path: Path, text: str, name: str, body: Mapping[str, Any]) -> str:
    """The file's text with one more host, after the others.

    Raises:
        BadFile: the file is written so that nothing can be added by itself.
    """
    return _add(path, text, ("hosts",), {name: body})


def add_containers(path: Path, text: str, host: str, containers: Mapping[str, Body]) -> str:
    """The file's text with more containers of a host that it has, after the others.

    Raises:
        BadFile: the file is written so that nothing can be added by itself.
    """
    body = _load(text)["hosts"][host]
    if "containers" in body:
        return _add(path, text, ("hosts", host, "containers"), containers)
    return _add(path, text, ("hosts", host), {"containers": containers})


def replace_file(path: Path, text: str) -> None:
    """Replace an inventory, wholly or not at all; its mode stays.

    Raises:
        CannotWrite: it cannot be replaced.
    """
    place = path.resolve()
    try:
        mark = codecs.BOM_UTF8 if place.read_bytes().startswith(codecs.BOM_UTF8) else b""
        mode = stat.S_IMODE(place.stat().st_mode)
        write_atomically(place, mark + text.encode("utf-8"), mode)
    except OSError as error:
        raise CannotWrite(path=path, reason=error.strerror or str(error)) from error


def _add(path: Path, text: str, place: tuple[str, ...], more: Mapping[str, Any]) -> str:
    wanted = deepcopy(_load(text))
    at = wanted
    for step in place:
        at = at[step]
    at.update(deepcopy(dict(more)))
    result = _inserted(text, _node(text, place), more)
    if _load(result) != wanted:
        message = "is written so that nothing can be added by itself: paste it by hand"
        fault = Fault(path=path, line=0, where=".".join(place), message=message)
        raise BadFile(kind=KIND, faults=(fault,))
    return result


def _load(text: str) -> Any:
    import yaml

    try:
        # Aliases would be one object in two places, and an addition to one would be to both.
        return json.loads(json.dumps(yaml.safe_load(text)))
    except (yaml.YAMLError, TypeError, ValueError):
        return None


def _node(text: str, place: tuple[str, ...]) -> yaml.MappingNode:
    import yaml

    node: Any = yaml.compose(text, Loader=yaml.SafeLoader)
    for step in place:
        node = next(value for key, value in node.value if key.value == step)
    assert isinstance(node, yaml.MappingNode), "the file was checked before"
    return node


def _inserted(text: str, node: yaml.MappingNode, more: Mapping[str, Any]) -> str:
    """The text with entries after the last one of a mapping."""
    newline = "\r\n" if "\r\n" in text else "\n"
    if node.flow_style:
        flow = ", ".join(f"{scalar(name)}: {_flow(value)}" for name, value in more.items())
        if not node.value:
            end = node.end_mark.index - 1
            return text[:end] + flow + text[end:]
        end = _end(node.value[-1][1])
        return f"{text[:end]}, {flow}{text[end:]}"
    indent = node.value[0][0].start_mark.column
    lines = _block(more, indent)
    end = _end(node.value[-1][1])
    if text[end - 1] != "\n":  # what else is on the line, a comment, stays on it
        rest = re.compile(r"[^\n]*\n?").match(text, end)
        assert rest is not None, "it matches nothing, too"
        end = rest.end()
    head = text[:end] if text[:end].endswith("\n") else text[:end] + newline
    return head + "".join(line + newline for line in lines) + text[end:]


def _end(node: Any) -> int:
    """Where a value ends; a block mapping's own mark lies beyond the comments after it."""
    if node.id == "scalar" or node.flow_style:
        end: int = node.end_mark.index
        return end
    last = node.value[-1]
    return _end(last[1] if isinstance(last, tuple) else last)


def _block(values: Mapping[str, Any], indent: int) -> list[str]:
    """Lines of ``name: value``; the innermost mappings on one line each."""
    lines = []
    for name, value in values.items():
        before = f"{' ' * indent}{scalar(name)}:"
        is_long = isinstance(value, dict) and (
            "address" in value or any(isinstance(one, dict) for one in value.values())
        )
        if is_long:
            lines += [before, *_block(value, indent + _STEP)]
        else:
            lines.append(f"{before} {_flow(value)}")
    return lines


def _flow(value: Any) -> str:
    if isinstance(value, dict):
        inner = ", ".join(f"{scalar(name)}: {_flow(one)}" for name, one in value.items())
        return f"{{{inner}}}"
    return scalar(value) if isinstance(value, str) else str(value)


def scalar(text: str) -> str:
    """Text as YAML reads it back: plain where that is safe, else in quotes."""
    import yaml

    if re.fullmatch(r"[\w./~][\w./~@-]*", text, re.ASCII) and _load(text) == text:
        return text
    quoted: str = yaml.safe_dump(text, default_style='"', width=float("inf"))
    return quoted.rstrip("\n")
