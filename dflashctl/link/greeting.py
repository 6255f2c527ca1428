"""The first words between us and a target: noise, then the loader's greeting."""

from __future__ import annotations

import json
import logging
import re
import time
from typing import TYPE_CHECKING

from dflashctl.agent.protocol import GREETING, VERSION
from dflashctl.errors import (
    DflashError,
    Internal,
    LinkLost,
    MissingTool,
    Refusal,
    Refused,
    Unreachable,
)

if TYPE_CHECKING:
    from dflashctl.inventory.model import Target
    from dflashctl.link.bundle import Bundle
    from dflashctl.link.deadlines import Deadlines
    from dflashctl.link.transport import Channel, Transport

_log = logging.getLogger("dflashctl.link")
_NOISE_LIMIT = 65536
_EXIT_S = 5.0
_LINE = re.compile(rb"%s (\d{1,9}) ([a-z]+)(?: ([^\n]*))?\r?\n" % GREETING.encode())


def greet(
    target: Target, transport: Transport, channel: Channel, bundle: Bundle, deadlines: Deadlines
) -> bytes:
    """Wait for the loader's greeting, and send it the bundle if it asks.

    Returns:
        What the agent has said since: the beginning of an answer to its first request.

    Raises:
        TargetLacks: no python3, one too old, no pct, a container that is not there or stopped.
        Refused: the agent's files cannot be kept there.
        Unreachable: nothing greeted in time, or something else answered.
    """
    try:
        word, rest, more = _await_word(channel, deadlines.greeting_s)
        if word == "send":
            packed = bundle.packed()
            _log.debug("%s: sending the agent, %d bytes", target.name, len(packed))
            channel.write(packed)
            word, rest, more = _await_word(channel, deadlines.install_s)
    except _NoGreetingError as silence:
        channel.close_input()
        code = None if silence.waiting else channel.exit_code(_EXIT_S)
        said = channel.stderr_tail()
        channel.close()
        raise _explain(target, transport, (code, said), silence) from silence
    except ConnectionError as error:
        channel.close()
        raise LinkLost(target=target.name, address=target.name, reason=str(error)) from error
    except BaseException:
        channel.close()
        raise
    if word == "ready":
        _log.debug("%s: the agent is ready", target.name)
        return more
    channel.close()
    raise _refusal(target, word, rest)


class _NoGreetingError(Exception):
    """``waiting``: the program over there may still run."""

    def __init__(self, what: str, noise: bytes, *, waiting: bool) -> None:
        super().__init__(what)
        self.waiting = waiting
        self.noise = noise.decode("utf-8", errors="replace").strip()


def _await_word(channel: Channel, timeout_s: float) -> tuple[str, str, bytes]:
    """The greeting's word, the rest of its line, and what came after it.

    It is found behind banners and other noise.
    """
    until = time.monotonic() + timeout_s
    said = b""
    while (found := _LINE.search(said)) is None:
        left = until - time.monotonic()
        if left <= 0:
            raise _NoGreetingError(f"no greeting within {timeout_s:g} s", said, waiting=True)
        if len(said) > _NOISE_LIMIT:
            raise _NoGreetingError("much output, but no greeting", said[:1000], waiting=True)
        try:
            piece = channel.read(left)
        except TimeoutError:
            continue
        if not piece:
            raise _NoGreetingError("it ended without a greeting", said, waiting=False)
        said += piece
    if int(found[1]) != VERSION:
        raise _NoGreetingError(f"it speaks version {int(found[1])}", b"", waiting=True)
    rest = (found[3] or b"").decode("utf-8", errors="replace")
    return found[2].decode("ascii"), rest, said[found.end() :]


def _explain(
    target: Target,
    transport: Transport,
    ended: tuple[int | None, str],
    silence: _NoGreetingError,
) -> DflashError:
    """Ask the transport why there was no greeting; else say what was seen."""
    code, stderr = ended
    try:
        known = transport.explain_silence(code, stderr)
    except DflashError as error:
        return error
    if known is not None:
        return known
    seen = (stderr.strip() or silence.noise).splitlines()[-1:]
    ending = f", exit code {code}" if code is not None else ""
    reason = "; ".join((f"{silence}{ending}", *seen))
    return Unreachable(target=target.name, address=target.name, reason=reason)


def _refusal(target: Target, word: str, rest: str) -> DflashError:
    if word == "old":
        detail = f"{target.python} is {rest.strip()}; 3.10 or newer is needed"
        return MissingTool(target=target.name, tool="python3", detail=detail)
    if word == "refused":
        try:
            path, reason = map(str, json.loads(rest))
        except (ValueError, TypeError, RecursionError):
            path, reason = "", rest
        refusal = Refusal(
            code="agent_cache",
            message=f"The agent's files cannot be kept in {path}: {reason}.",
            remedy=f"Make {path} a folder that only the user we log in as may write to, "
            "with a few megabytes free.",
        )
        return Refused(target=target.name, refusals=(refusal,))
    return Internal(what=f"{target.name} greeted with an unknown word", detail=f"{word} {rest}")
