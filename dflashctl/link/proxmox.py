"""Asks a host what it is and which containers it has: one program, one round trip."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from dflashctl.errors import Unreachable
from dflashctl.inventory.discover import FRAME, HostSeen, read
from dflashctl.link.sudo import WITHOUT_PASSWORD, SudoTransport

if TYPE_CHECKING:
    from dflashctl.link.transport import Transport

# pct loads Perl anew for each container, which takes a second or so.
_SILENCE_S = 60.0
_MOST_OUTPUT = 8 << 20
# Constant text; $1 is what each framing line begins with, $2 the words before pct, if any.
# `pct config` shows what is pending unless it is told not to, and old versions do not know how.
_SCRIPT = r"""
PATH=$PATH:/usr/sbin:/sbin
export LC_ALL=C
echo "$1 host $(uname -n | cut -d. -f1) $(id -u) $HOME"
for device in /dev/nvidia[0-9]*; do
  [ -e "$device" ] && echo "$1 device ${device#/dev/}"
done
if command -v pct >/dev/null; then
  if listed=$($2 pct list 2>&1); then
    echo "$1 list"
    printf '%s\n' "$listed"
    for vmid in $(printf '%s\n' "$listed" | cut -c1-10 | grep -x ' *[0-9][0-9]* *'); do
      echo "$1 config $vmid"
      $2 pct config "$vmid" --current 1 2>/dev/null || $2 pct config "$vmid" 2>/dev/null
    done
  else
    echo "$1 failed $?"
    printf '%s\n' "$listed"
  fi
fi
echo "$1 end"
"""


def ask_host(transport: Transport, target: str, address: str) -> HostSeen:
    """What the host is, and its containers.

    Args:
        transport: the way to the host.
        target: the host's name, for messages.
        address: where it is, for messages.

    Raises:
        Unreachable, HostKeyProblem, NotLetIn, SudoRefused: no answer, or none that makes sense.
    """
    if isinstance(transport, SudoTransport):
        # sudo may let us run pct, and no more than that; else it may want a password.
        seen = _ask(transport.plain, target, address, shlex.join(WITHOUT_PASSWORD))
        if seen.failed is None:
            return seen
    return _ask(transport, target, address, "")


def _ask(transport: Transport, target: str, address: str, before_pct: str) -> HostSeen:
    channel = transport.start(("sh", "-c", _SCRIPT, "sh", FRAME, before_pct))
    output = b""
    try:
        channel.close_input()
        while (piece := channel.read(_SILENCE_S)) and len(output) < _MOST_OUTPUT:
            output += piece
        return read(output.decode("utf-8", errors="replace"))
    except (TimeoutError, ConnectionError) as error:
        reason = "it gave no answer" if isinstance(error, TimeoutError) else str(error)
        raise Unreachable(target=target, address=address, reason=reason) from error
    except ValueError as error:
        said = (channel.stderr_tail() or output.decode(errors="replace")).strip().splitlines()[-1:]
        reason = "; ".join(("it did not answer as a POSIX shell does", *said))
        raise Unreachable(target=target, address=address, reason=reason) from error
    finally:
        channel.close()
