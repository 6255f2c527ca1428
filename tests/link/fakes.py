"""A scripted agent in the place of the real one, and ways to run it where it does no harm."""

from __future__ import annotations

import hashlib
import json
import sys
from textwrap import dedent, indent
from typing import TYPE_CHECKING, Any

from dflashctl.agent import wire
from dflashctl.agent.seen import Observed
from dflashctl.inventory.model import SshAddress, Target
from dflashctl.link.bundle import Bundle, read_bundle

if TYPE_CHECKING:
    from pathlib import Path

    from dflashctl.link.connect import Connections
    from dflashctl.link.transport import Channel, Words
    from tests.sshd import Sshd

# What each scripted agent begins with.
_PRELUDE = '''
import os, sys, time
from dflashctl.agent import wire
from dflashctl.agent.protocol import *

def say(message):
    os.write(1, wire.dump(message))

_waiting = b""  # what came with the start
def hear():
    """The next request; the end of the input ends the agent."""
    global _waiting
    while b"\\n" not in _waiting:
        piece = os.read(0, 1 << 16)
        if not piece:
            sys.exit(0)
        _waiting += piece
    line, _, _waiting = _waiting.partition(b"\\n")
    return wire.load(Request, line)

def observed(**other):
    return wire.from_json(Observed, {**OBSERVED, **other})
'''

_SERVE = """\
def serve(state_dir, first):
    global _waiting
    _waiting = wire.out_of_a_word(first)"""


def observed_json() -> dict[str, Any]:
    """A dull observation as JSON values."""
    seen: dict[str, Any] = wire.to_json(
        Observed(
            fingerprint={},
            now=0.0,
            hostname="there",
            user="trainer",
            boot_id="b",
            state_dir="/s",
            python="3.11.0",
            tmux="3.3a",
            scp=True,
            state="NONE",
            run=None,
            session=None,
            gpus=None,
            files=(),
            checkpoints=None,
            store=None,
            disks=(),
            probe=None,
            cut=None,
            lock=None,
            terminal=None,
            problems=(),
        )
    )
    return seen


def scripted(body: str) -> Bundle:
    """A bundle whose ``serve`` does what the lines of ``body`` say.

    They may ``say(message)``, ``hear()`` a request and use all of the protocol's names.
    """
    indented = indent(dedent(body.strip("\n")), "    ")
    serve = f"{_PRELUDE}\nOBSERVED = {observed_json()!r}\n\n{_SERVE}\n{indented}\n"
    files = {path: text for path, text in read_bundle().files.items() if path[:8] != "libtmux/"}
    files["dflashctl/agent/serve.py"] = serve
    digest = hashlib.sha256(json.dumps(sorted(files.items())).encode()).hexdigest()
    return Bundle(sha256=digest, files=files)


def write_python(folder: Path, home: Path) -> str:
    """A ``python3`` that takes ``home`` for the user's home; the folder it is in."""
    folder.mkdir(exist_ok=True)
    patch = (
        "import pwd, os\n"
        f"_us = ('tester', 'x', os.getuid(), os.getgid(), '', {str(home)!r}, '/bin/sh')\n"
        "pwd.getpwuid = lambda uid: pwd.struct_passwd(_us)\n"
    )
    python = folder / "python3"
    python.write_text(
        f"#!{sys.executable} -IS\n"
        "import os, sys\n"
        "words = sys.argv[1:]\n"
        f"words[words.index('-c') + 1] = {patch!r} + words[words.index('-c') + 1]\n"
        f"os.execv({sys.executable!r}, [{sys.executable!r}, *words])\n"
    )
    python.chmod(0o755)
    return str(folder)


def address_of(sshd: Sshd, **other: object) -> SshAddress:
    """The server as an inventory knows it, with some of it told otherwise."""
    values: dict[str, object] = {
        "address": sshd.host,
        "port": sshd.port,
        "user": sshd.user,
        "identity_file": sshd.client_key,
        "known_hosts_file": sshd.known_hosts,
        **other,
    }
    return SshAddress(**values)  # type: ignore[arg-type] # wrong names fail when it runs


def target_at(address: SshAddress, path: str = "") -> Target:
    """A target at the address."""
    return Target(name="there", route=address, path=(path,) if path else ())


def run(connections: Connections, address: SshAddress, words: Words = ("echo", "hello")) -> bytes:
    """What a program at the address prints."""
    channel = connections.transport(target_at(address)).start(words)
    try:
        return read_all(channel)
    finally:
        channel.close()


def read_all(channel: Channel) -> bytes:
    """All that a program prints until it ends."""
    said = b""
    while piece := channel.read(10):
        said += piece
    return said
