"""Frozen, slotted, keyword-only dataclasses that cost little to define.

For each class the standard library writes, compiles and runs six functions. With the hundred
messages of ``protocol`` that took a third of an agent's start; here all classes share them.
They remain dataclasses: ``fields``, ``replace`` and ``is_dataclass`` know them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, field, fields
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

__all__ = ["dataclass", "field"]
T = TypeVar("T")

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(*, frozen, slots, kw_only):
        """The decorator, for what the standard library's makes of the same three words."""
        assert (frozen, slots, kw_only) == (True, True, True), "there is no other kind here"
        return _made


def _made(cls: Any) -> Any:
    for name, function in _SHARED.items():
        setattr(cls, name, function)
    return dataclasses.dataclass(init=False, repr=False, eq=False, slots=True, kw_only=True)(cls)


# The standard library's looks them up each time.
_fields: Callable[[Any], tuple[Field[Any], ...]] = cache(fields)


def _init(self: Any, **values: Any) -> None:
    for one in _fields(type(self)):
        if one.name in values:
            value = values.pop(one.name)
        elif (value := _default(one)) is MISSING:
            raise TypeError(f"{type(self).__name__} lacks {one.name!r}")
        object.__setattr__(self, one.name, value)
    if values:
        raise TypeError(f"{type(self).__name__} has no {sorted(values)}")


def _default(one: Field[Any]) -> Any:
    return one.default if one.default_factory is MISSING else one.default_factory()


def _repr(self: Any) -> str:
    shown = (f"{f.name}={getattr(self, f.name)!r}" for f in _fields(type(self)) if f.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _compared(self: Any) -> tuple[Any, ...]:
    return tuple(getattr(self, f.name) for f in _fields(type(self)) if f.compare)


def _eq(self: Any, other: object) -> Any:
    if type(other) is not type(self):
        return NotImplemented
    return _compared(self) == _compared(other)


def _hash(self: Any) -> int:
    return hash(_compared(self))


def _set(self: Any, name: str, _: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _delete(self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _reduce(self: Any) -> tuple[Any, ...]:
    return _again, (type(self), {f.name: getattr(self, f.name) for f in _fields(type(self))})


def _again(cls: type[T], values: dict[str, Any]) -> T:
    return cls(**values)


_SHARED = {
    "__init__": _init,
    "__repr__": _repr,
    "__eq__": _eq,
    "__hash__": _hash,
    "__setattr__": _set,
    "__delattr__": _delete,
    "__reduce__": _reduce,
}
