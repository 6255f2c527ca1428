"""An ordinary user of this machine, for the time of a test session, and what sudo lets it do."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.lab.need import do_without, need

if TYPE_CHECKING:
    from collections.abc import Iterator

_SUDOERS = Path("/etc/sudoers.d")


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Its name and its password."""

    name: str
    password: str

    def may(self, *rules: str, path: str = "") -> None:
        """What sudo lets it do from here on: lines of sudoers, without the user's name.

        ``path``: a folder that root's programs are looked for in first.
        """
        usual = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        lines = [f'Defaults:{self.name} secure_path="{path}:{usual}"'] if path else []
        lines += [f"{self.name} {rule}" for rule in rules]
        self.says("\n".join(lines))

    def says(self, text: str) -> None:
        """The whole text of its file among the sudoers. It is checked before it counts."""
        place = _SUDOERS / self.name
        # sudo passes over names with a dot.
        draft = _SUDOERS / f"{self.name}.draft"
        draft.write_text(f"{text}\n")
        draft.chmod(0o440)
        subprocess.run(["visudo", "-c", "-q", "-f", draft], check=True, timeout=10)
        draft.rename(place)

    def forget(self) -> None:
        """sudo lets it do nothing."""
        (_SUDOERS / self.name).unlink(missing_ok=True)


@contextmanager
def account(home: Path) -> Iterator[Account]:
    """A new user of that home, who is in no group, and goes afterwards."""
    if os.geteuid() != 0:
        do_without("needs root to add a user")
    need("sudo", "visudo", "useradd", "chpasswd")
    name, password = f"dflash-test-{os.getpid()}", f"pw {os.urandom(6).hex()} $x'"
    subprocess.run(
        ["useradd", "--no-log-init", "-M", "-d", home, "-s", "/bin/sh", name],
        check=True,
        timeout=30,
    )
    try:
        subprocess.run(["chpasswd"], input=f"{name}:{password}", text=True, check=True, timeout=30)
        shutil.chown(home, name, name)
        yield Account(name=name, password=password)
    finally:
        Account(name=name, password=password).forget()
        subprocess.run(["userdel", name], check=True, capture_output=True, timeout=30)
