"""The container's files: a minimal Debian or Ubuntu, built once and kept in a cache.

It is the host's own suite, from the mirror that the host's apt uses. What a training box
has is there (python3, tmux, scp) and nothing of this project.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGES = ("openssh-client", "procps", "python3", "tini", "tmux")
_BUILD_LIMIT_S = 600.0


class LabUnavailable(Exception):
    """The lab cannot be built here, with the reason as its text."""


def cache_folder() -> Path:
    """Where the lab keeps what it builds, across test sessions."""
    chosen = os.environ.get("DFLASHCTL_LAB_CACHE")
    return Path(chosen or "~/.cache/dflashctl-lab").expanduser().absolute()


def rootfs(cache: Path) -> Path:
    """The folder of a ready root filesystem, built now if need be. Not to be changed.

    Raises:
        LabUnavailable: debootstrap failed.
    """
    suite = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    recipe = ("--variant=minbase", f"--include={','.join(PACKAGES)}", *_components(), suite)
    key = hashlib.sha256("\0".join((*recipe, platform.machine())).encode()).hexdigest()[:12]
    ready = cache / f"rootfs-{suite}-{key}"
    cache.mkdir(parents=True, exist_ok=True)
    with alone(cache / "build.lock"):
        if not ready.exists():
            _build(recipe, suite, ready)
    return ready


@contextmanager
def alone(lock: Path) -> Iterator[None]:
    """Hold a lock file, so that two test sessions do not do the same thing at once."""
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _build(recipe: tuple[str, ...], suite: str, ready: Path) -> None:
    part, log = ready.with_suffix(".part"), ready.with_suffix(".log")
    shutil.rmtree(part, ignore_errors=True)
    mirror = _mirror(suite)
    words = ("debootstrap", *recipe, str(part), *((mirror,) if mirror else ()))
    try:
        with log.open("wb") as written:
            subprocess.run(
                words,
                check=True,
                stdin=subprocess.DEVNULL,
                stdout=written,
                stderr=subprocess.STDOUT,
                timeout=_BUILD_LIMIT_S,
            )
        # Half of its size, and of no use in a container without a network.
        for spare in ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/man"):
            shutil.rmtree(part / spare, ignore_errors=True)
    except (subprocess.SubprocessError, OSError) as error:
        shutil.rmtree(part, ignore_errors=True)
        raise LabUnavailable(f"debootstrap failed, see {log}") from error
    part.rename(ready)


def _components() -> tuple[str, ...]:
    # tini is in Ubuntu's universe.
    ubuntu = platform.freedesktop_os_release().get("ID") == "ubuntu"
    return ("--components=main,universe",) if ubuntu else ()


def _mirror(suite: str) -> str | None:
    """The mirror that apt uses for this suite; None: debootstrap's own choice."""
    listed = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(SITE) $(CODENAME) $(COMPONENT)"],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    for line in listed.stdout.splitlines():
        site, _, rest = line.partition(" ")
        if rest == f"{suite} main" and site.startswith(("http://", "https://", "file:")):
            return site
    return None
