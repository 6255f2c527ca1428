"""What a metric was when a checkpoint was saved, as its name or its own files tell."""

from __future__ import annotations

import json
import math
import os
import re
from contextlib import suppress
from typing import Any

from dflashctl.agent.store import JSON_LIMIT, Entry

_NUMBER = r"[=_-](-?\d+(?:\.\d+)?(?:e[-+]?\d+)?)"


def metric_of(entry: Entry, metric: str) -> float | None:
    """The value in the checkpoint's name (``val_loss=0.21``), else in a JSON file in it."""
    found = re.search(rf"(?<![A-Za-z0-9]){re.escape(metric)}{_NUMBER}", entry.name)
    if found and math.isfinite(float(found[1])):
        return float(found[1])
    if not entry.directory:
        return None
    with suppress(OSError):
        for name in sorted(os.listdir(entry.path)):
            if name.endswith(".json"):
                value = _in_file(os.path.join(entry.path, name), metric)
                if value is not None:
                    return value
    return None


def _in_file(path: str, metric: str) -> float | None:
    with suppress(OSError, ValueError, RecursionError):
        if os.path.getsize(path) > JSON_LIMIT:
            return None
        with open(path, "rb") as file:
            value = json.load(file)
        if not isinstance(value, dict):
            return None
        # Hugging Face's trainer_state.json keeps what it logged, the newest last.
        logged = value.get("log_history")
        lines = logged if isinstance(logged, list) else []
        for line in (value, value.get("metrics"), *reversed(lines)):
            known = _number(line, metric)
            if known is not None:
                return known
    return None


def _number(line: Any, metric: str) -> float | None:
    value = line.get(metric) if isinstance(line, dict) else None
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    with suppress(OverflowError):  # an integer beyond all floats
        return float(value) if math.isfinite(value) else None
    return None
