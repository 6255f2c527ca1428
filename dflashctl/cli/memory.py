"""Names that earlier commands met, kept for completion: it never asks a target itself.

They are in ``$XDG_CACHE_HOME/dflashctl/names.json`` (``~/.cache`` where that is not set):
runs, checkpoints and archives by target, the newest first; and by its path what an inventory
of Ansible's has, which a program may be needed to tell. Losing it costs nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dflashctl.inventory.model import Inventory

Kind = Literal["runs", "checkpoints", "archives", "targets", "groups"]
MOST = 200
# A run is forgotten for newer ones; an inventory has what it has.
_GROWING = ("runs", "checkpoints", "archives")
_Names = dict[str, dict[str, list[str]]]


def remember(environ: Mapping[str, str], kind: Kind, target: str, names: Iterable[str]) -> None:
    """These are all that there are, the newest first."""
    known = _read(environ)
    by_target = known.setdefault(kind, {})
    wanted = list(dict.fromkeys(names))[: MOST if kind in _GROWING else None]
    if by_target.get(target, []) != wanted:
        by_target[target] = wanted
        _write(environ, known)


def remember_inventory(environ: Mapping[str, str], inventory: Inventory) -> None:
    """The names of its targets and groups."""
    path = str(inventory.path)
    remember(environ, "targets", path, (target.name for target in inventory.targets))
    remember(environ, "groups", path, inventory.groups)


def add(environ: Mapping[str, str], kind: Kind, target: str, name: str) -> None:
    """This one was met; if it was not known yet, it is the newest."""
    known = recall(environ, kind, (target,))
    if name not in known:
        remember(environ, kind, target, (name, *known))


def recall(environ: Mapping[str, str], kind: Kind, targets: Iterable[str] = ()) -> list[str]:
    """What is known of these targets, or of all when none is named."""
    by_target = _read(environ).get(kind, {})
    return [name for target in targets or by_target for name in by_target.get(target, ())]


def _place(environ: Mapping[str, str]) -> Path:
    cache = environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME", "/"), ".cache")
    return Path(cache, "dflashctl", "names.json")


def _read(environ: Mapping[str, str]) -> _Names:
    import json

    try:
        known = json.loads(_place(environ).read_text(encoding="utf-8"))
        return {
            str(kind): {str(target): [str(name) for name in names] for target, names in by.items()}
            for kind, by in known.items()
        }
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def _write(environ: Mapping[str, str], known: _Names) -> None:
    import json
    import os
    import tempfile
    from contextlib import suppress

    place = _place(environ)
    # Where nothing can be kept, nothing is kept: no command fails for that.
    with suppress(OSError):
        # The agent of a target that is this very machine keeps its files beside it.
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, fresh = tempfile.mkstemp(prefix="names-", dir=place.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(known, file)
        Path(fresh).replace(place)
