"""The argv by which the system's own ssh gives a person a terminal on a host.

ssh resolves its configuration itself; the inventory's values are added as options.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from dflashctl.link.sshconfig import parse_jumps, quoted

if TYPE_CHECKING:
    from dflashctl.inventory.model import SshAddress
    from dflashctl.link.transport import Words


def terminal_on(address: SshAddress, words: Words) -> Words:
    """``ssh -t`` to the address, to run ``words`` there. Strict about host keys."""
    # A RemoteCommand of ssh's configuration would make ssh refuse ours.
    return (
        *("ssh", "-t", "-a", "-o", "RemoteCommand=none"),
        *_options(address),
        *("--", address.address, shlex.join(words)),
    )


def _options(address: SshAddress) -> Words:
    words = ["-o", "StrictHostKeyChecking=yes"]
    if address.port is not None:
        words += ["-p", str(address.port)]
    if address.user is not None:
        words += ["-l", address.user]
    if address.identity_file is not None:
        words += ["-o", f"IdentityFile={quoted(str(address.identity_file))}"]
    if address.known_hosts_file is not None:
        words += ["-o", f"UserKnownHostsFile={quoted(str(address.known_hosts_file))}"]
    jump = address.jump
    if jump == "none":
        words += ["-o", "ProxyJump=none"]
    elif jump is not None:
        words += ["-o", f"ProxyCommand={_through(jump)}"]
    return tuple(words)


def _through(jump: SshAddress | str) -> str:
    """What ``-J`` stands for, with our own options for the host in between.

    With -J the strictness, the key and the known_hosts file would not hold for it.
    """
    hop = parse_jumps(jump) if isinstance(jump, str) else jump
    # The outer ssh expands % in all of it; only %h and %p of the end are meant for it.
    before = shlex.join(("ssh", "-a", *_options(hop))).replace("%", "%%")
    return f"{before} -W '[%h]:%p' -- {shlex.quote(hop.address)}"
