"""What is wrong on the operator's own side: programs, keys, the terminal. Nothing is contacted."""

from __future__ import annotations

import locale
import os
import shutil
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING

from dflashctl.plan.findings import Finding
from dflashctl.plan.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dflashctl.link.auth import KeyFile

_NARROW = 60
_ASK_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnSide:
    """This machine, as far as it matters here.

    Attributes:
        environ: the operator's environment.
        home: the home folder, as ssh takes it: the account's.
        identity_files: further key files, those that the inventory names.
        known_hosts: the known_hosts files that are used; empty: the usual one.
    """

    environ: Mapping[str, str]
    home: Path
    identity_files: tuple[Path, ...] = ()
    known_hosts: tuple[Path, ...] = ()

    @property
    def ssh_folder(self) -> Path:
        """Where ssh keeps keys and known hosts."""
        return self.home / ".ssh"


def own_findings(side: OwnSide) -> tuple[Finding, ...]:
    """Every check of this side. One that fails to be made does not keep the others from it."""
    found: list[Finding] = []
    for name, check in _CHECKS:
        try:
            found += check(side)
        except Exception as error:  # whatever it is, the other checks go on
            evidence = f"could not be checked: {type(error).__name__}: {error}"
            found.append(Finding(check=name, grade="unchecked", evidence=evidence))
    return tuple(found)


def _version(_: OwnSide) -> Iterator[Finding]:
    from dflashctl import __version__

    python = ".".join(map(str, sys.version_info[:3]))
    evidence = f"{__version__}, Python {python} ({sys.executable})"
    yield Finding(check="dflashctl", grade="ok", evidence=evidence)


def _packages(_: OwnSide) -> Iterator[Finding]:
    """Whether each package is there, and new enough."""
    import re
    from importlib import metadata

    versions, wrong = [], []
    for requirement in metadata.requires("dflashctl") or ():
        found = re.match(r"([\w.-]+)\s*>=\s*([\d.]+)", requirement)
        if found is None or "extra ==" in requirement:
            continue
        name, least = found[1], found[2]
        try:
            there = metadata.version(name)
        except metadata.PackageNotFoundError:
            wrong.append(f"{name} is missing")
            continue
        versions.append(f"{name} {there}")
        if _numbers(there) < _numbers(least):
            wrong.append(f"{name} is {there}, and {least} is needed")
    if wrong:
        remedy = "install dflashctl anew: pip install --force-reinstall dflashctl"
        yield Finding(check="packages", grade="problem", evidence="; ".join(wrong), remedy=remedy)
    else:
        yield Finding(check="packages", grade="ok", evidence=", ".join(versions))


def _numbers(version: str) -> tuple[int, ...]:
    import re

    return tuple(int(number) for number in re.findall(r"\d+", version)[:4])


def _ssh_client(_: OwnSide) -> Iterator[Finding]:
    ssh = shutil.which("ssh")
    if ssh is None:
        yield Finding(
            check="ssh",
            grade="warning",
            evidence="there is no ssh program; attach and shell need one, and ~/.ssh/config "
            "is read less exactly without it",
            remedy="install it (Debian: apt install openssh-client)",
        )
        return
    said = subprocess.run(
        (ssh, "-V"), capture_output=True, text=True, timeout=_ASK_S, check=False
    ).stderr.strip()
    yield Finding(check="ssh", grade="ok", evidence=said.partition(",")[0] or ssh)


def _agent(side: OwnSide) -> Iterator[Finding]:
    from dflashctl.link.auth import held_by_agent

    socket = side.environ.get("SSH_AUTH_SOCK")
    if not socket:
        locked = [str(key.path) for key in _keys_of(side) if key.encrypted]
        if locked:
            yield Finding(
                check="ssh-agent",
                grade="warning",
                evidence=f"none runs, and {', '.join(locked)} has a passphrase: each command asks",
                remedy='start one and give it the key: eval "$(ssh-agent)"; '
                f"{join(('ssh-add', *locked))}",
            )
        else:
            yield Finding(check="ssh-agent", grade="ok", evidence="none; keys are read from files")
        return
    try:
        held = held_by_agent(socket)
    except OSError as error:
        yield Finding(
            check="ssh-agent",
            grade="warning",
            evidence=f"SSH_AUTH_SOCK is {socket}, where none answers ({error})",
            remedy="log in anew, or unset SSH_AUTH_SOCK",
        )
        return
    if held:
        evidence = f"{counted(len(held), 'key')}: {', '.join(held)}"
        yield Finding(check="ssh-agent", grade="ok", evidence=evidence)
    else:
        remedy = "give it your key: ssh-add"
        evidence = "it runs and holds no key"
        yield Finding(check="ssh-agent", grade="warning", evidence=evidence, remedy=remedy)


def _keys(side: OwnSide) -> Iterator[Finding]:
    from dflashctl.link.auth import held_by_agent, look_at_key

    keys = _keys_of(side)
    for key in keys:
        if key.problem is not None:
            yield Finding(
                check="key",
                grade="problem",
                evidence=f"{key.path}: {key.problem}",
                remedy=f"chmod 600 {key.path}" if "0600" in key.problem else "name another key",
            )
    for path in side.identity_files:
        if look_at_key(path) is None:
            remedy = "correct identity_file in the inventory"
            evidence = f"{path}, which the inventory names, is not there"
            yield Finding(check="key", grade="problem", evidence=evidence, remedy=remedy)
    good = [key for key in keys if key.problem is None]
    if good:
        names = ", ".join(f"{k.path}{' (passphrase)' if k.encrypted else ''}" for k in good)
        yield Finding(check="keys", grade="ok", evidence=names)
    elif not keys:
        socket = side.environ.get("SSH_AUTH_SOCK")
        held: tuple[str, ...] = ()
        if socket:
            try:
                held = held_by_agent(socket)
            except OSError:
                held = ()
        if held:
            evidence = "none in files; ssh-agent's are used"
            yield Finding(check="keys", grade="ok", evidence=evidence)
        else:
            yield Finding(
                check="keys",
                grade="warning",
                evidence=f"there is none in {side.ssh_folder}, and no agent holds one",
                remedy="make one, and have its .pub put into authorized_keys over there: "
                "ssh-keygen -t ed25519",
            )


def _keys_of(side: OwnSide) -> list[KeyFile]:
    from dflashctl.link.auth import look_at_key
    from dflashctl.link.sshconfig import DEFAULT_IDENTITIES

    usual = (side.ssh_folder / name for name in DEFAULT_IDENTITIES)
    looked = (look_at_key(path) for path in dict.fromkeys((*usual, *side.identity_files)))
    return [key for key in looked if key is not None]


def _ssh_folder(side: OwnSide) -> Iterator[Finding]:
    folder = side.ssh_folder
    if not folder.is_dir():
        yield Finding(check="~/.ssh", grade="unchecked", evidence=f"there is no {folder}")
        return
    mode = stat.S_IMODE(folder.stat().st_mode)
    evidence = f"{folder} has mode {mode:04o}"
    if mode & 0o022:
        remedy = f"others may put files there: chmod 700 {folder}"
        yield Finding(check="~/.ssh", grade="problem", evidence=evidence, remedy=remedy)
    else:
        yield Finding(check="~/.ssh", grade="ok", evidence=evidence)


def _known_hosts(side: OwnSide) -> Iterator[Finding]:
    from dflashctl.link.hostkeys import read_known_hosts

    for path in side.known_hosts or (side.ssh_folder / "known_hosts",):
        if not path.exists():
            evidence = f"there is no {path} yet; dflashctl inventory trust HOST begins it"
            yield Finding(check="known_hosts", grade="ok", evidence=evidence)
        elif not os.access(path, os.R_OK):
            evidence, remedy = f"{path} is unreadable", f"make it yours: chmod 600 {path}"
            yield Finding(check="known_hosts", grade="problem", evidence=evidence, remedy=remedy)
        else:
            evidence = f"{path}: {counted(len(read_known_hosts((path,)).keys), 'key')}"
            yield Finding(check="known_hosts", grade="ok", evidence=evidence)


def _terminal(side: OwnSide) -> Iterator[Finding]:
    if not sys.stdout.isatty():
        evidence = "standard output is none: plain text, no colours"
        yield Finding(check="terminal", grade="ok", evidence=evidence)
        return
    term = side.environ.get("TERM", "")
    width = shutil.get_terminal_size().columns
    colors = "no colours (NO_COLOR)" if side.environ.get("NO_COLOR") else "colours"
    if term in ("", "dumb"):
        remedy = "set TERM to what it is, such as xterm-256color; attach needs that"
        evidence = f"TERM is {term or 'not set'}: no colours, nothing moves"
        yield Finding(check="terminal", grade="warning", evidence=evidence, remedy=remedy)
    elif width < _NARROW:
        evidence = f"{term}, {width} columns: tables are folded"
        remedy = f"make it at least {_NARROW} columns wide"
        yield Finding(check="terminal", grade="warning", evidence=evidence, remedy=remedy)
    else:
        evidence = f"{term}, {width} columns, {colors}"
        yield Finding(check="terminal", grade="ok", evidence=evidence)


def _locale(_: OwnSide) -> Iterator[Finding]:
    encoding = sys.stdout.encoding or locale.getpreferredencoding(False)
    if encoding.lower().replace("-", "") == "utf8":
        yield Finding(check="locale", grade="ok", evidence=encoding)
    else:
        yield Finding(
            check="locale",
            grade="warning",
            evidence=f"{encoding}: what it lacks shows as ?",
            remedy="set LC_ALL=C.UTF-8",
        )


_CHECKS = (
    ("dflashctl", _version),
    ("packages", _packages),
    ("ssh", _ssh_client),
    ("ssh-agent", _agent),
    ("keys", _keys),
    ("~/.ssh", _ssh_folder),
    ("known_hosts", _known_hosts),
    ("terminal", _terminal),
    ("locale", _locale),
)
