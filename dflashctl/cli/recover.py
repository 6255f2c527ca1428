"""After the connection died in a transaction: connect again, and ask what came of it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from dflashctl.agent.protocol import Ask, Outcome
from dflashctl.errors import DflashError, Unreachable

if TYPE_CHECKING:
    from collections.abc import Callable

    from dflashctl.agent.protocol import Commit, Event, Failure
    from dflashctl.cli.call import Call
    from dflashctl.errors import LinkLost
    from dflashctl.inventory.model import Target

RECONNECT_S = 20.0
PAUSE_S = 1.0
# Connections that break again and again end the watching, too.
ASKED_AT_MOST = 3


def outcome_after_loss(
    call: Call, target: Target, commit: Commit, tell: Callable[[Event], None], lost: LinkLost
) -> Outcome:
    """The outcome that the broken connection did not bring; waits while there is none yet.

    Raises:
        LinkLost: ``lost`` itself, when the target stays out of reach; without its
            transaction when that never began.
    """
    answer = _ask(call, target, Ask(transaction=commit.transaction, look=commit.look), tell)
    if isinstance(answer, Outcome):
        return answer
    if answer is not None:
        lost.transaction = None
    raise lost


def _ask(
    call: Call, target: Target, question: Ask, tell: Callable[[Event], None]
) -> Outcome | Failure | None:
    """The answer, or None when none was to be had."""
    deadline, asked = time.monotonic() + RECONNECT_S, 0
    while time.monotonic() < deadline and asked < ASKED_AT_MOST:
        try:
            with call.reach() as reach, reach.agent(target) as agent:
                deadline, asked = time.monotonic() + RECONNECT_S, asked + 1
                return agent.ask(question, tell)
        except Unreachable:
            time.sleep(PAUSE_S)
        except DflashError:
            # Whatever is amiss now, what has to be told is the transaction.
            return None
    return None
