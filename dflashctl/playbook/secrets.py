"""Variables for the trainer that are written nowhere: a file's and the operator's own.

A message here may say a variable's name and line, never its value.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dflashctl.document.read import read_text
from dflashctl.errors import BadFile, Fault

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dflashctl.playbook.model import RunSpec

KIND = "environment"
_ASSIGNMENT = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=(.*)", re.ASCII)
_COMMENT = re.compile(r"\s*(?:#.*)?")
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "$": "$"}


def read_secrets(run: RunSpec, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of ``env_file`` and those that ``env_from`` names in ``environ``.

    A variable in both has the value of ``environ``.

    Raises:
        BadFile: with every mistake in the file and every variable that is not set.
    """
    secrets: dict[str, str] = {}
    faults: list[Fault] = []
    if run.env_file is not None:
        secrets, faults = _read_file(run.env_file)
        faults += [
            _fault(run.env_file, 0, name, "is in the playbook's `run.env` as well")
            for name in secrets
            if name in run.env
        ]
    for name in run.env_from:
        if name in environ:
            secrets[name] = environ[name]
        else:
            message = "is not set here, and `run.env_from` of the playbook asks for it"
            faults.append(_fault(Path("environment"), 0, name, message))
    if faults:
        raise BadFile(kind=KIND, faults=tuple(faults))
    return secrets


def find_secrets(
    run: RunSpec | None, names: Sequence[str], environ: Mapping[str, str]
) -> dict[str, str]:
    """Those of the named variables that the playbook's ``run`` leads to; others are left out.

    Only what ``env_file`` and ``env_from`` name is read: a target's records say which
    variables a run had, and must not choose what is sent to it.

    Raises:
        BadFile: with every mistake in the file.
    """
    if run is None or not names:
        return {}
    there = tuple(name for name in run.env_from if name in environ)
    known = read_secrets(replace(run, env={}, env_from=there), environ)
    return {name: known[name] for name in names if name in known}


def _read_file(path: Path) -> tuple[dict[str, str], list[Fault]]:
    """``NAME=value`` lines, with comments, quotes and a leading ``export`` as people have them."""
    try:
        text = read_text(path, KIND)
    except BadFile as error:
        return {}, list(error.faults)
    secrets: dict[str, str] = {}
    faults: list[Fault] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if _COMMENT.fullmatch(line):
            continue
        form = _ASSIGNMENT.fullmatch(line.strip())
        if form is None:
            faults.append(_fault(path, number, "", "must be NAME=value"))
            continue
        name, written = form.groups()
        value = _value(written)
        if value is None:
            message = "must have its closing quote in the same line, and nothing after it"
            faults.append(_fault(path, number, name, message))
        elif "\0" in value:
            faults.append(_fault(path, number, name, "must not hold a NUL character"))
        elif name.startswith("DFLASHCTL_"):
            message = "must not begin with DFLASHCTL_, as dflashctl's own do"
            faults.append(_fault(path, number, name, message))
        elif name in secrets:
            faults.append(_fault(path, number, name, "is written twice"))
        else:
            secrets[name] = value
    return secrets, faults


def _value(written: str) -> str | None:
    quoted = written.lstrip()
    if quoted.startswith("'"):
        inner, closed, rest = quoted[1:].partition("'")
        return inner if closed and _COMMENT.fullmatch(rest) else None
    if quoted.startswith('"'):
        form = re.fullmatch(r'"((?:[^"\\]|\\.)*)"(.*)', quoted)
        if form is None or not _COMMENT.fullmatch(form[2]):
            return None
        return re.sub(r"\\(.)", lambda m: _ESCAPED.get(m[1], m[0]), form[1])
    return re.split(r"\s+#", written, maxsplit=1)[0].strip()


def _fault(path: Path, line: int, where: str, message: str) -> Fault:
    return Fault(path=path, line=line, where=where, message=message)
