"""A program in the foreground, at our end of the wire."""

from __future__ import annotations

import threading

from dflashctl.agent.protocol import CommandEnd, Event, Reply, Request, RunCommand
from dflashctl.errors import DflashError
from dflashctl.link.foreground import Foreground


class Slow:
    """Ends of streams whose input comes to its end when it is let."""

    def __init__(self) -> None:
        self.let = threading.Event()

    def read(self, size: int) -> bytes:
        self.let.wait(10)
        return b""

    def write(self, stream: str, data: bytes) -> None:
        raise AssertionError("nothing was printed")


def test_what_is_read_after_the_program_s_end_is_not_the_next_one_s_input() -> None:
    sent: list[Request] = []
    ends = Slow()

    def hear() -> Event | Reply:
        return CommandEnd(exit_code=0)

    request = RunCommand(words=("true",))
    program = Foreground("box", sent.append, hear, lambda _: DflashError(), ends)
    assert program.run(request) == 0
    feeders = [thread for thread in threading.enumerate() if thread.name == "_feed"]
    ends.let.set()
    for feeder in feeders:
        feeder.join(10)
        assert not feeder.is_alive()
    assert feeders
    assert sent == [request]
