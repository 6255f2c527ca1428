"""Ctrl-C while something goes on that Ctrl-C cannot stop."""

from __future__ import annotations

import queue
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType


@contextmanager
def patient(first: Callable[[], None]) -> Iterator[None]:
    """The first Ctrl-C calls ``first`` and the work goes on; the second is a Ctrl-C.

    ``first`` runs in a thread of its own: what a signal interrupts may be in the middle of
    the very line that ``first`` would print.
    """
    # Its put() may be called in a signal handler; an Event's set() may not.
    pressed: queue.SimpleQueue[bool] = queue.SimpleQueue()
    told = False

    def on_interrupt(_: int, __: FrameType | None) -> None:
        nonlocal told
        if told:
            raise KeyboardInterrupt
        told = True
        pressed.put(True)

    def tell() -> None:
        if pressed.get():
            first()

    teller = threading.Thread(target=tell, name="Ctrl-C", daemon=True)
    teller.start()
    before = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        pressed.put(False)
        teller.join()
