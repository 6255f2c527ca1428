"""Frozen dataclasses to JSON lines and back, strictly.

Each message is one line of JSON. A dataclass becomes an object with its class name under
``"is"``; reading checks names, presence and types, so that a line that was cut, padded or
invented is a `WireError` and never a half-filled value.
"""

from __future__ import annotations

import base64
import json
import math
import types
import typing
import zlib
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, TypeVar

TAG = "is"
# Of what nobody counts or nests: beyond that it is an attack, or a fault.
_LARGEST = 2**63
_DEEPEST = 32
T = TypeVar("T")


class WireError(ValueError):
    """A line is not a message of the expected kind."""


def to_json(value: object) -> Any:
    """A message as plain JSON values; dataclasses carry their class name."""
    if is_dataclass(value) and not isinstance(value, type):
        body = {f.name: to_json(getattr(value, f.name)) for f in fields(value)}
        return {TAG: type(value).__name__, **body}
    if isinstance(value, tuple | list):
        return [to_json(item) for item in value]
    if isinstance(value, dict):
        return {key: to_json(item) for key, item in value.items()}
    return value


def dump(value: object) -> bytes:
    """One message as one line, newline included. Undecodable file names survive."""
    text = json.dumps(to_json(value), separators=(",", ":"))
    return text.encode("ascii") + b"\n"


def load(kind: Any, line: bytes | str) -> Any:
    """Read one line as ``kind``, a dataclass or a union of dataclasses.

    Raises:
        WireError: not JSON, or not such a message.
    """
    try:
        return from_json(kind, json.loads(line))
    except WireError:
        raise
    except (ValueError, RecursionError) as error:
        raise WireError(f"not a JSON line: {line[:80]!r}") from error


def in_a_word(line: bytes) -> str:
    """A line as one word of letters and digits, ``+``, ``/`` and ``=``."""
    return base64.b64encode(zlib.compress(line, 9)).decode("ascii")


def out_of_a_word(word: str) -> bytes:
    """The line again; an empty word is none."""
    return zlib.decompress(base64.b64decode(word)) if word else b""


def from_json(kind: Any, data: Any) -> Any:
    """Plain JSON values as ``kind``; raises `WireError` where they do not fit."""
    origin = typing.get_origin(kind)
    if kind is typing.Any:
        return _plain(data, _DEEPEST)
    if origin is typing.Union or origin is types.UnionType:
        return _union(typing.get_args(kind), data)
    if origin is tuple:
        if not isinstance(data, list):
            raise WireError(f"expected a list, got {data!r:.80}")
        return tuple(from_json(typing.get_args(kind)[0], item) for item in data)
    if origin is dict:
        if not isinstance(data, dict):
            raise WireError(f"expected an object, got {data!r:.80}")
        value_kind = typing.get_args(kind)[1]
        return {key: from_json(value_kind, item) for key, item in data.items()}
    if origin is typing.Literal:
        if not isinstance(data, str | int) or data not in typing.get_args(kind):
            raise WireError(f"expected one of {typing.get_args(kind)}, got {data!r:.80}")
        return data
    if is_dataclass(kind):
        return _dataclass(kind, data)
    return _scalar(kind, data)


def _union(kinds: tuple[Any, ...], data: Any) -> Any:
    if data is None and type(None) in kinds:
        return None
    real = [kind for kind in kinds if kind is not type(None)]
    if isinstance(data, dict) and any(is_dataclass(kind) for kind in real):
        for kind in real:
            if is_dataclass(kind) and getattr(kind, "__name__", "") == data.get(TAG):
                return _dataclass(kind, data)
        raise WireError(f"unknown message {data.get(TAG)!r:.80}")
    for kind in real:
        try:
            return from_json(kind, data)
        except WireError:
            continue
    raise WireError(f"expected one of {kinds}, got {data!r:.80}")


@cache
def _shape(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def learn(kind: Any, known: set[Any] | None = None) -> None:
    """Look up the types of a message and of all in it, before the first one comes."""
    known = set() if known is None else known
    inner: tuple[Any, ...] = typing.get_args(kind)
    if isinstance(kind, type) and is_dataclass(kind):
        if kind in known:
            return
        known.add(kind)
        shape: Any = _shape
        inner = tuple(shape(kind).values())
    for one in inner:
        learn(one, known)


def _dataclass(kind: Any, data: Any) -> Any:
    if not isinstance(data, dict) or data.get(TAG) != kind.__name__:
        raise WireError(f"expected {kind.__name__}, got {data!r:.80}")
    shape = _shape(kind)
    names = {f.name for f in fields(kind)}
    if set(data) - {TAG} != names:
        odd = sorted((set(data) - {TAG}) ^ names)
        raise WireError(f"{kind.__name__}: fields {odd} are missing or unknown")
    return kind(**{name: from_json(shape[name], data[name]) for name in names})


def _plain(data: Any, levels: int) -> Any:
    """JSON of no certain shape, but of a size that everything can work with."""
    if isinstance(data, list | dict):
        if levels == 0:
            raise WireError(f"nested deeper than {_DEEPEST} levels")
        for item in data.values() if isinstance(data, dict) else data:
            _plain(item, levels - 1)
    elif type(data) is int:
        _scalar(int, data)
    return data


def _scalar(kind: Any, data: Any) -> Any:
    if type(data) is int and abs(data) > _LARGEST:
        raise WireError(f"a number beyond {_LARGEST}")
    if kind is float and type(data) is int:
        return float(data)
    if kind is float and type(data) is float and not math.isfinite(data):
        raise WireError("a number without an end, or none at all")
    if kind in (str, int, float, bool) and type(data) is kind:
        return data
    raise WireError(f"expected {getattr(kind, '__name__', kind)}, got {data!r:.80}")
