"""The NVIDIA driver's two halves, which must be of one version: kernel module and library."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from dflashctl.agent.seen import DriverSeen

_MODULE = ("sys/module/nvidia/version", "proc/driver/nvidia/version")
_LIBRARY = "libnvidia-ml.so.1"
_FOLDERS = ("usr/lib/*-linux-gnu", "usr/lib64", "usr/lib", "usr/local/nvidia/lib64", "lib64")
_VERSION = re.compile(r"\b\d+\.\d+(?:\.\d+)?\b")


def module(root: Path = Path("/")) -> str | None:
    """The version of the kernel module, which a container shares with its host."""
    for path in _MODULE:
        with suppress(OSError):
            found = _VERSION.search((root / path).read_text("utf-8", "replace"))
            if found:
                return found[0]
    return None


def library(root: Path = Path("/")) -> str | None:
    """The version of the library that programs here load, by the name that it links to."""
    for folder in _FOLDERS:
        for path in root.glob(f"{folder}/{_LIBRARY}"):
            found = re.search(r"\.so\.(\d+\.\d+(?:\.\d+)?)$", os.path.realpath(path))
            if found:
                return found[1]
    return None


def see(root: Path = Path("/")) -> DriverSeen:
    """Both halves."""
    return DriverSeen(module=module(root), library=library(root))
