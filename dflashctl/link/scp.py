"""The sending half of scp's protocol, which needs no answer before its end.

``scp -t`` answers with a zero byte when it is ready, when it has opened the file, and when it
has it all. Each answer that is waited for costs a round trip, and none says anything that the
last one does not: all is sent at once, and the three are read behind it.
"""

from __future__ import annotations

import shlex
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dflashctl.link.sshwire import Session
    from dflashctl.link.transport import Words

_ANSWERS = 3
_LONGEST_WORDS = 4096
_PIECE = 1 << 18
# A scp that could not open the file takes what follows for its next orders, of which these
# are the first letters; at any other it ends.
_ORDERS = b"CDTE\x01\x02"


class ScpError(Exception):
    """What scp over there complained of, or that it ended early."""


def start(session: Session, scp: Words, path: str) -> None:
    """Start the receiving half, by the words that start scp."""
    session.run(shlex.join((*scp, "-t", path)))


def send(
    session: Session, content: IO[bytes], size: int, name: str, sent: Callable[[int], None]
) -> None:
    """Send one file with mode 0600 and see that it was written.

    Args:
        session: one in which ``start`` was called.
        content: the file.
        size: how many bytes it has.
        name: what the order calls it, without blanks or slashes.
        sent: called with the number of bytes sent so far.

    Raises:
        ScpError: it was not written.
        ConnectionError: nothing can be sent any more; the session may tell why.
        TimeoutError: no answer comes.
    """
    answers = _Answers(session)
    first = content.read(_PIECE)
    session.write(f"C0600 {size} {name}\n".encode("ascii"))
    if first[:1] in _ORDERS:
        answers.await_all(_ANSWERS - 1)

    def pieces() -> Iterator[bytes]:
        done, piece = 0, first
        while piece:
            yield piece
            done += len(piece)
            sent(done)
            piece = content.read(_PIECE)
        yield b"\0"

    session.stream(pieces(), session.wire.deadlines.copy_stall_s)
    session.close_input()
    answers.await_all(_ANSWERS)


class _Answers:
    def __init__(self, session: Session) -> None:
        self._session, self._said = session, b""

    def await_all(self, count: int) -> None:
        while len(self._said) < count and not self._said.strip(b"\0"):
            piece = self._session.read(self._session.wire.deadlines.copy_stall_s)
            if not piece:
                raise ScpError("it ended early")
            self._said += piece
        if complaint := self._said.strip(b"\0\x01\x02\n")[:_LONGEST_WORDS]:
            raise ScpError(complaint.decode("utf-8", errors="replace"))
