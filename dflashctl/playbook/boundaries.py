"""The file of bucket boundaries that ``optimize-buckets --apply`` writes beside a playbook."""

from __future__ import annotations

import hashlib
import json
import stat
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from dflashctl.agent.records import write_atomically
from dflashctl.errors import BadBuckets, CannotWrite, SourceUnreadable

VERSION = 1
NAME = "buckets.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketsFile:
    """The boundaries, how they were chosen, and for which data.

    Attributes:
        path: the file on this machine.
        sha256: of its content.
        boundaries: from 0 to above every length.
        settings: of the batches, as training reads them (dflashctl.buckets.settings).
        rules: count, align and max_length, as they were asked for.
        expected_efficiency: real over padded tokens.
        dataset: target (null: this machine, or several), path, column, the fingerprint of its
            files, and parts: the fingerprints by target, if it is spread over several.
    """

    path: Path
    sha256: str
    boundaries: tuple[int, ...]
    settings: dict[str, Any]
    rules: dict[str, Any]
    expected_efficiency: float
    dataset: dict[str, Any]

    @property
    def fingerprints(self) -> dict[str | None, str | None]:
        """By target, that of the files that it has."""
        parts = self.dataset.get("parts")
        if isinstance(parts, dict):
            return dict(parts)
        return {self.dataset["target"]: self.dataset["fingerprint"]}


def read_boundaries(path: Path) -> BucketsFile:
    """Read such a file.

    Raises:
        SourceUnreadable: it is not there, or may not be read.
        BadBuckets: it is something else, or of another version.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SourceUnreadable(path=path, reason=error.strerror or str(error)) from error
    try:
        said = json.loads(data)
    except ValueError as error:
        raise BadBuckets(path=path, reason="it is no JSON") from error
    match said:
        case {
            "version": 1,
            "boundaries": [0, *_] as boundaries,
            "settings": dict(settings),
            "rules": dict(rules),
            "expected_efficiency": float(efficiency),
            "dataset": {"target": _, "path": str(), "column": _, "fingerprint": _} as dataset,
        } if all(type(edge) is int for edge in boundaries) and _ascend(boundaries):
            return BucketsFile(
                path=path,
                sha256=hashlib.sha256(data).hexdigest(),
                boundaries=tuple(boundaries),
                settings=settings,
                rules=rules,
                expected_efficiency=efficiency,
                dataset=dataset,
            )
        case {"version": version} if version != VERSION:
            raise BadBuckets(path=path, reason=f"it is of version {version}, not {VERSION}")
        case _:
            raise BadBuckets(path=path, reason="it is no file that --apply wrote")


def _ascend(boundaries: list[int]) -> bool:
    return len(boundaries) > 1 and all(low < high for low, high in pairwise(boundaries))


def write_boundaries(
    path: Path,
    report: dict[str, Any],
    dataset: dict[str, Any],
    predicted_tokens_per_s: float | None = None,
) -> None:
    """Write what an optimiser found; the file is wholly the old or wholly the new one.

    Raises:
        CannotWrite: the place cannot be written.
    """
    from dflashctl import __version__

    taken = ("boundaries", "settings", "rules", "expected_efficiency", "budget_fill",
             "histogram_sha256", "samples", "tokens")  # fmt: skip
    value = {
        "version": VERSION,
        **{name: report[name] for name in taken},
        "predicted_tokens_per_s": predicted_tokens_per_s,
        "dataset": dataset,
        "made_by": f"dflashctl {__version__}",
    }
    place = path.resolve()  # a link stays one
    try:
        mode = stat.S_IMODE(place.stat().st_mode) if place.exists() else 0o666
        write_atomically(place, (json.dumps(value, indent=1) + "\n").encode(), mode)
    except OSError as error:
        raise CannotWrite(path=path, reason=error.strerror or str(error)) from error
