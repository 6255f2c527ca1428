"""What to do about a test whose surroundings are not there."""

from __future__ import annotations

import os
import shutil
from typing import NoReturn

import pytest


def do_without(reason: str) -> NoReturn:
    """Skip the test with its reason; fail it where DFLASHCTL_REQUIRE_LAB=1 demands all."""
    if os.environ.get("DFLASHCTL_REQUIRE_LAB") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


def need(*programs: str) -> None:
    """Do without the test unless all these programs are here."""
    # sshd is in /usr/sbin, which an ordinary user's PATH often lacks.
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    missing = [program for program in programs if shutil.which(program, path=path) is None]
    if missing:
        do_without(f"needs {', '.join(missing)}")
