"""Which key each host accepted last, kept so that the next connection begins with it.

It is in ``$XDG_CACHE_HOME/dflashctl/keys.json`` (``~/.cache`` where that is not set): the
fingerprints of public keys by user, host and port. Losing it costs round trips, no more.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from dflashctl.link.hostkeys import fingerprint

if TYPE_CHECKING:
    from dflashctl.link.sshconfig import Hop


class AcceptedKeys:
    """What is known of all hosts, read when first asked for. Thread-safe."""

    def __init__(self) -> None:
        cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        self._place = Path(cache, "dflashctl", "keys.json")
        self._lock = threading.Lock()
        self._known: dict[str, str] | None = None

    def is_last(self, hop: Hop, blob: bytes | None) -> bool:
        """Whether it is the public key that the host accepted last."""
        with self._lock:
            last = self._all().get(_name(hop))
        return last is not None and blob is not None and fingerprint(blob) == last

    def keep(self, hop: Hop, blob: bytes) -> None:
        """The host has accepted this public key."""
        self._set(hop, fingerprint(blob))

    def forget(self, hop: Hop) -> None:
        """The host accepts the key no more."""
        self._set(hop, None)

    def _set(self, hop: Hop, accepted: str | None) -> None:
        with self._lock:
            # Anew: another command may have learnt something meanwhile.
            known, self._known = self._all(), None
            if known.get(_name(hop)) != accepted:
                others = {name: key for name, key in self._all().items() if name != _name(hop)}
                known = others | ({_name(hop): accepted} if accepted is not None else {})
                _write(self._place, known)
            self._known = known

    def _all(self) -> dict[str, str]:
        if self._known is None:
            try:
                known = json.loads(self._place.read_text(encoding="utf-8"))
                self._known = {str(name): str(key) for name, key in known.items()}
            except (OSError, ValueError, AttributeError):
                self._known = {}
        return self._known


def _name(hop: Hop) -> str:
    return f"{hop.user}@{hop.place}"


def _write(place: Path, known: dict[str, str]) -> None:
    # Where nothing can be kept, nothing is kept: no connection fails for that.
    with suppress(OSError):
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, fresh = tempfile.mkstemp(prefix="keys-", dir=place.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(known, file)
        Path(fresh).replace(place)
