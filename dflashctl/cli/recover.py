"""After a connection died in a transaction: connect again, and ask what came of it."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from dflashctl.agent.protocol import Ask, Outcome
from dflashctl.errors import DflashError, TargetLacks, Unreachable

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from dflashctl.agent.protocol import Commit, Event, Failure
    from dflashctl.cli.call import Call
    from dflashctl.cli.reach import Reach
    from dflashctl.errors import LinkLost
    from dflashctl.inventory.model import Target

RECONNECT_S = 20.0
PAUSE_S = 1.0
# Connections that break again and again end the watching, too.
ASKED_AT_MOST = 3


class Recovery:
    """The new ways to targets whose connections died; a context manager, thread-safe.

    Targets on one host, which lose it together, share each further attempt to reach it.
    """

    def __init__(self, call: Call) -> None:
        self._call = call
        self._stack = ExitStack()
        self._making = threading.Lock()
        self._attempt = 0
        self._reach: Reach | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def outcome(
        self, target: Target, commit: Commit, tell: Callable[[Event], None], lost: LinkLost
    ) -> Outcome:
        """The outcome that the broken connection did not bring; waits while there is none yet.

        Raises:
            LinkLost: ``lost`` itself, when the target stays out of reach; without its
                transaction when that never began.
        """
        answer = self._ask(target, Ask(transaction=commit.transaction, look=commit.look), tell)
        if isinstance(answer, Outcome):
            return answer
        if answer is not None:
            lost.transaction = None
        raise lost

    def _ask(
        self, target: Target, question: Ask, tell: Callable[[Event], None]
    ) -> Outcome | Failure | None:
        """The answer, or None when none was to be had."""
        deadline, asked, attempt = time.monotonic() + RECONNECT_S, 0, 0
        while time.monotonic() < deadline and asked < ASKED_AT_MOST:
            reach, attempt = self._later_than(attempt)
            try:
                with reach.agent(target) as agent:
                    deadline, asked = time.monotonic() + RECONNECT_S, asked + 1
                    return agent.ask(question, tell)
            except (Unreachable, TargetLacks):  # a host that starts anew comes back
                time.sleep(PAUSE_S)
            except DflashError:
                # Whatever is amiss now, what has to be told is the transaction.
                return None
        return None

    def _later_than(self, attempt: int) -> tuple[Reach, int]:
        """The newest ways, made anew if whoever asks has tried them; and their number."""
        with self._making:
            if self._reach is None or self._attempt <= attempt:
                self._reach = self._stack.enter_context(self._call.reach())
                self._attempt += 1
            return self._reach, self._attempt
