"""The files of variables beside an inventory of Ansible's: ``group_vars/`` and ``host_vars/``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dflashctl.document.read import read_document, read_text
from dflashctl.inventory.groups import EVERY, Said, of_variables

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dflashctl.inventory.groups import Groups, Vars

_ENDINGS = ("", ".yml", ".yaml", ".json")


def add_files(groups: Groups, folder: Path, kind: str) -> None:
    """Read what there is for the groups and hosts.

    Raises:
        BadFile: one of the files is no YAML.
    """
    groups.group(EVERY[0], Said(value=EVERY[0], path=folder, line=0, where=EVERY[0]))
    for name, group in groups.groups.items():
        group.beside |= _of(folder / "group_vars", name, kind)
    for name in groups.hosts:
        groups.beside[name] = _of(folder / "host_vars", name, kind)


def _of(folder: Path, name: str, kind: str) -> Vars:
    found: Vars = {}
    if "/" in name or not folder.is_dir():
        return found
    first = next(filter(Path.exists, (folder / f"{name}{ending}" for ending in _ENDINGS)), None)
    for path in () if first is None else _files(first):
        text = read_text(path, kind)
        # What is encrypted as a whole is a secret, and of those we take none.
        if not text.startswith("$ANSIBLE_VAULT") and any(map(_says, text.splitlines())):
            found |= of_variables(read_document(path, kind))
    return found


def _files(path: Path) -> Iterator[Path]:
    """The file, or all files of variables below the folder."""
    if not path.is_dir():
        yield path
        return
    for inner in sorted(path.iterdir()):
        if inner.name[0] != "." and inner.name[-1] != "~" and inner.suffix in _ENDINGS:
            yield from _files(inner)


def _says(line: str) -> bool:
    """Whether it is more than a comment or the mark of a document."""
    return line.strip() not in {"", "---", "..."} and not line.lstrip().startswith("#")
