"""What a forked trainer does: as a fresh process would, without importing torch first."""

from __future__ import annotations

import os
import sys


def train(environment: dict[str, str], words: list[str], log: str) -> None:
    os.environ.pop("DFLASH_BUCKETS", None)
    os.environ.update(environment)
    output = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
    os.dup2(output, 1)
    os.dup2(output, 2)
    import train_dflash_pipeline

    sys.exit(train_dflash_pipeline.main(words))
