"""This terminal, handed to tmux on the target."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

from dflashctl.errors import Internal, LinkLost, NoTerminal
from dflashctl.inventory.model import InContainer, Local
from dflashctl.plan.look import look_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dflashctl.agent.protocol import Look
    from dflashctl.agent.seen import Observed
    from dflashctl.cli.call import Call
    from dflashctl.inventory.model import Target
    from dflashctl.link.transport import Words
    from dflashctl.plan.model import Desired

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SSH_FAILED = 255


def require(verb: str) -> None:
    """Raises NoTerminal unless input and output are one."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise NoTerminal(verb=verb)


def look(call: Call, desired: Desired) -> Look:
    """The cheap look, with the question which terminal type the target knows."""
    from dataclasses import replace

    return replace(look_for(desired, gpus=False), term=call.environ.get("TERM") or "vt100")


def hint(call: Call, *, read_only: bool) -> str:
    """What to know before the screen is tmux's."""
    # Inside another tmux the first Ctrl-b is taken by that one.
    detach = "Ctrl-b Ctrl-b d" if "TMUX" in call.environ else "Ctrl-b d"
    keys = "keys do not reach the trainer" if read_only else "Ctrl-C reaches the trainer"
    return f"{detach} detaches and leaves it running; {keys}"


def attach_words(
    desired: Desired, seen: Observed, environ: Mapping[str, str], *, read_only: bool
) -> Words:
    """The words that attach on the target, in an environment that is all ours."""
    target = desired.target
    usual = environ.get("PATH", _PATH) if isinstance(target.route, Local) else _PATH
    socket: Words = ()
    if target.tmux_socket is not None:
        socket = ("-S" if "/" in target.tmux_socket else "-L", target.tmux_socket)
    return (
        "env", "-i",
        f"TERM={seen.terminal or 'vt100'}",
        "LC_ALL=C.UTF-8",
        f"PATH={':'.join((*target.path, usual))}",
        "tmux", *socket, "attach-session", "-t", f"={desired.playbook.session}",
        *(("-r",) if read_only else ()),
    )  # fmt: skip


def run(target: Target, words: Words) -> None:
    """Give the terminal to ``words`` until they end.

    Raises:
        LinkLost: ssh says that the connection failed.
        Internal: tmux could not be attached to.
    """
    code = hand_over(words)
    if code == _SSH_FAILED and not isinstance(target.route, Local):
        raise LinkLost(target=target.name, address=_address(target), reason="ssh ended with 255")
    if code != 0:
        raise Internal(what=f"tmux attach-session on {target.name} ended with code {code}")


def hand_over(words: Words) -> int:
    """Give the terminal to ``words`` until they end; their exit code, 128 + n for a signal."""
    # Ctrl-C is the business of who has the terminal now. (A handler, not SIG_IGN, which
    # the child would inherit.)
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        code = subprocess.run(words, check=False).returncode
    finally:
        signal.signal(signal.SIGINT, before)
    return code if code >= 0 else 128 - code


def _address(target: Target) -> str:
    route = target.route.host if isinstance(target.route, InContainer) else target.route
    return "this machine" if isinstance(route, Local) else route.address
