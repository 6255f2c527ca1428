"""Which targets a command is about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dflashctl.document.judge import close_matches
from dflashctl.errors import AmbiguousTarget, UnknownTarget

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dflashctl.inventory.model import Inventory, Target

_FEW = 4


def select(inventory: Inventory, names: Sequence[str], *, everything: bool) -> tuple[Target, ...]:
    """The targets of these names and groups, each once, in the file's order.

    With no name: the inventory's ``default_target``, or its only target. ``everything``
    selects all, whatever is named.

    Raises:
        UnknownTarget: a name is neither a target nor a group.
        AmbiguousTarget: containers of several hosts have the name; or nothing was named
            (``name`` is empty) and there are several targets and no default.
    """
    full_names = [target.name for target in inventory.targets]
    chosen: set[str] = set()
    if everything:
        chosen.update(full_names)
    elif not names:
        chosen.add(_unnamed(inventory, full_names))
    else:
        for name in names:
            chosen.update(inventory.groups.get(name) or (_named(inventory, name, full_names),))
    return tuple(target for target in inventory.targets if target.name in chosen)


def fitting(name: str, full_names: Iterable[str]) -> tuple[str, ...]:
    """The full names that ``name`` may mean: itself, else each container called so."""
    every = tuple(full_names)
    if name in every:
        return (name,)
    return tuple(full for full in every if full.partition("/")[2] == name and name)


def _named(inventory: Inventory, name: str, full_names: list[str]) -> str:
    found = fitting(name, full_names)
    if not found:
        known = (*full_names, *inventory.groups)
        short = [full.rpartition("/")[2] for full in full_names]
        close = close_matches(name, (*short, *known))
        why = inventory.left_out.get(name, "")
        raise UnknownTarget(name=name, known=known, close=close, left_out=why)
    if len(found) > 1:
        raise AmbiguousTarget(name=name, candidates=found)
    return found[0]


def _unnamed(inventory: Inventory, full_names: list[str]) -> str:
    if inventory.default_target is not None:
        return inventory.default_target
    if len(full_names) > 1:
        raise AmbiguousTarget(name="", candidates=tuple(full_names))
    return full_names[0]


def in_short(targets: Sequence[Target]) -> str:
    """A few by name, many by their number."""
    few = len(targets) <= _FEW
    return ", ".join(one.name for one in targets) if few else f"{len(targets)} targets"
