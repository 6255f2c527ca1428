"""Reading a stream to its end in the background, so that its writer is never held up."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_TAIL = 8192


class DrainedTail:
    """Reads a stream until its end in a thread of its own, and keeps the last part."""

    def __init__(self, read: Callable[[], bytes], name: str) -> None:
        """``read`` gives some bytes, b"" at the end; an OSError of it counts as the end."""
        self._read = read
        self._kept = b""
        self._thread = threading.Thread(target=self._drain, name=f"stderr of {name}", daemon=True)
        self._thread.start()

    def text(self, timeout_s: float = 0.0) -> str:
        """The last part, decoded. Waits for the stream's end, but at most ``timeout_s``."""
        self._thread.join(timeout_s)
        return self._kept.decode("utf-8", errors="replace")

    def _drain(self) -> None:
        try:
            while data := self._read():
                self._kept = (self._kept + data)[-_TAIL:]
        except OSError:
            return
