"""Another local user of this machine, who means no good. It needs root to become one."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

# Of no account, as far as is known, and above those that systems give away.
UID = 54_321

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")


def does(work: Callable[[], object]) -> None:
    """Have it done by the other user, and wait for the end.

    Raises:
        PermissionError: the system did not let that user.
    """
    code = os.waitstatus_to_exitcode(os.waitpid(_started(work), 0)[1])
    if code == 13:
        raise PermissionError
    assert code == 0, "the other user's work failed"


@contextmanager
def keeps_doing(work: Callable[[], object]) -> Iterator[None]:
    """The other user does it again and again meanwhile, whether it succeeds or not."""

    def forever() -> None:
        while True:
            try:
                work()
            except OSError:
                continue

    pid = _started(forever)
    try:
        yield
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)


def _started(work: Callable[[], object]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.setgroups([])
        os.setgid(UID)
        os.setuid(UID)
        work()
        code = 0
    except PermissionError:
        code = 13
    except BaseException:
        traceback.print_exc(file=sys.stderr)
    finally:
        os._exit(code)
