"""The same work on many things at once."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, TypeVar

from dflashctl.errors import DflashError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Item = TypeVar("Item")
T = TypeVar("T")
AT_ONCE = 16
_LOOK_UP_S = 0.2


def each(
    items: Sequence[Item], work: Callable[[Item], T], at_once: int = AT_ONCE
) -> list[T | DflashError]:
    """The results in the items' order; where one failed, its error in that place.

    The calling thread takes its part, so that a single item needs no other. Ctrl-C is not
    held up by work that still waits: the other threads are daemons. Any other exception
    than a DflashError is a fault of ours and is raised when all are done.
    """
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    for index in range(len(items)):
        waiting.put(index)
    results: dict[int, T | DflashError] = {}
    faults: list[BaseException] = []

    def labour() -> None:
        while True:
            try:
                index = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                results[index] = work(items[index])
            except DflashError as error:
                results[index] = error
            except BaseException as error:  # raised again below
                faults.append(error)
                return

    threads = [
        threading.Thread(target=labour, name=f"beside {number}", daemon=True)
        for number in range(1, min(at_once, len(items)))
    ]
    for thread in threads:
        thread.start()
    labour()
    # Ctrl-C or a hang-up reached us in our own part: nothing is waited for.
    if all(isinstance(fault, Exception) for fault in faults):
        for thread in threads:
            # The system may hand a signal to any thread; what it means, this one has to see.
            while thread.is_alive():
                thread.join(_LOOK_UP_S)
    if faults:
        raise faults[0]
    return [results[index] for index in range(len(items))]
