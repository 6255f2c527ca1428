"""The same work on many targets at once."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, TypeVar

from dflashctl.errors import DflashError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dflashctl.inventory.model import Target

T = TypeVar("T")


def each(
    targets: Sequence[Target], work: Callable[[Target], T], at_once: int = 16
) -> list[T | DflashError]:
    """The results in the targets' order; where one failed, its error in that place.

    Ctrl-C is not held up by work that still waits: the threads are daemons. Any other
    exception than a DflashError is a fault of ours and is raised when all are done.
    """
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    for index in range(len(targets)):
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
                results[index] = work(targets[index])
            except DflashError as error:
                results[index] = error
            except BaseException as error:  # raised again below
                faults.append(error)
                return

    threads = [
        threading.Thread(target=labour, name=f"target {number}", daemon=True)
        for number in range(min(at_once, len(targets)))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if faults:
        raise faults[0]
    return [results[index] for index in range(len(targets))]
