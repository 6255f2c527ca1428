"""Contents of files brought to the disk, many at once."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Sequence
from pathlib import Path

# A file system that is asked by many at once writes its journal once for all of them.
_AT_ONCE = 16
_FEW = 3


def settle(paths: Sequence[Path]) -> None:
    """Wait until the contents of these files would outlast a power cut.

    Raises:
        OSError: one could not be written, with its name.
    """
    if len(paths) <= _FEW:
        for path in paths:
            _sync(path)
        return
    waiting: queue.SimpleQueue[Path] = queue.SimpleQueue()
    for path in paths:
        waiting.put(path)
    faults: list[BaseException] = []

    def work() -> None:
        try:
            while not faults:
                _sync(waiting.get_nowait())
        except queue.Empty:
            pass
        except BaseException as fault:  # raised again below
            faults.append(fault)

    threads = [threading.Thread(target=work) for _ in range(min(_AT_ONCE, len(paths)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if faults:
        raise faults[0]


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        os.fsync(handle)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        os.close(handle)
