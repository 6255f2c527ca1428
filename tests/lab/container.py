"""A real LXC container of a test session's own."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.lab.numeric import SITE, TORCH_SITE, installed, torch_site
from tests.lab.rootfs import LabUnavailable, alone, cache_folder, rootfs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PROGRAMS = ("lxc-start", "lxc-attach", "lxc-stop", "lxc-info", "debootstrap", "tmux", "sshd", "ip")
_CONFIG = """\
lxc.uts.name = ct{vmid}
lxc.rootfs.path = dir:{rootfs}
lxc.init.cmd = /usr/bin/tini -- /bin/sleep infinity
lxc.signal.halt = SIGTERM
lxc.net.0.type = empty
lxc.mount.auto = proc:mixed sys:ro cgroup:ro:force
lxc.pty.max = 1024
lxc.apparmor.profile = unconfined
"""
# A folder of this machine that is shown in the container, not to be written.
_MOUNT = "lxc.mount.entry = {shown} {place} none bind,ro,create=dir 0 0\n"


def why_no_lab() -> str | None:
    """Why the lab cannot be had here, for a test to skip with; None: it can be tried."""
    if not sys.platform.startswith("linux"):
        return "the lab needs Linux"
    if os.geteuid() != 0:
        return "the lab needs root"
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    missing = [program for program in PROGRAMS if shutil.which(program, path=path) is None]
    if missing:
        return f"the lab needs {', '.join(missing)}: make packages"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """One container, by its own LXC folder and its id.

    Its first process is tini, so that zombies are reaped. It has no network but its own
    loopback. Programs run in it as root, with HOME=/root and a UTF-8 locale.
    """

    lxc_folder: Path
    vmid: int

    @property
    def rootfs(self) -> Path:
        """Its root filesystem, as this machine sees it."""
        return self.lxc_folder / str(self.vmid) / "rootfs"

    def create(self, template: Path, shared: Path | None = None) -> None:
        """Make its files: a copy of the template, so that nothing is shared.

        Only shown in it, and not to be written, are the packages of `tests.lab.numeric`, and
        torch where `make torch-venv` has brought it. ``shared`` is a folder of this machine
        that is its /shared, as a host gives one to several containers.
        """
        self.rootfs.parent.mkdir(parents=True)
        subprocess.run(
            ["cp", "-a", "--reflink=auto", str(template), str(self.rootfs)], check=True, timeout=300
        )
        # As Proxmox writes it.
        hosts = f"127.0.0.1 localhost\n127.0.1.1 ct{self.vmid}\n"
        (self.rootfs / "etc/hosts").write_text(hosts)
        config = _CONFIG.format(vmid=self.vmid, rootfs=self.rootfs)
        shown = {f"{SITE}/{folder.name}": folder for folder in installed()}
        if torch := torch_site():
            shown[TORCH_SITE] = torch
        for place, folder in shown.items():
            config += _MOUNT.format(
                shown=str(folder).replace(" ", "\\040"), place=place.removeprefix("/")
            )
        if shared is not None:
            config += f"lxc.mount.entry = {shared} shared none bind,create=dir 0 0\n"
        (self.rootfs.parent / "config").write_text(config)

    def create_stopped(self) -> None:
        """Make it a container that exists and cannot be started: it has no files."""
        self.rootfs.mkdir(parents=True)
        config = _CONFIG.format(vmid=self.vmid, rootfs=self.rootfs)
        (self.rootfs.parent / "config").write_text(config)

    def start(self) -> None:
        """Start it and wait until it runs.

        Raises:
            LabUnavailable: it does not start here.
        """
        log = self.lxc_folder / f"{self.vmid}.log"
        done = subprocess.run(
            ["lxc-start", *self._named(), "-o", str(log), "-l", "ERROR"],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        if done.returncode != 0 or self.state() != "RUNNING":
            lines = log.read_text(errors="replace").splitlines() if log.exists() else []
            # The first is the cause, the others say that it was one.
            causes = [line.rpartition(" - ")[2] for line in lines if " ERROR " in line]
            reason = next(iter(causes), done.stderr.strip())
            raise LabUnavailable(f"the container did not start: {reason}")
        # Its network, but our files: it has no `ip`.
        loopback = ("-s", "NETWORK", "--", "ip", "link", "set", "lo", "up")
        subprocess.run(["lxc-attach", *self._named(), *loopback], check=True, timeout=30)

    def stop(self) -> None:
        """Stop it at once, whatever runs in it. Nothing happens when it is stopped."""
        if self.state() != "STOPPED":
            subprocess.run(["lxc-stop", *self._named(), "-k"], check=True, timeout=60)

    def state(self) -> str:
        """Its state in LXC's words: RUNNING, STOPPED, or something in between."""
        told = subprocess.run(
            ["lxc-info", *self._named(), "-s", "-H"],
            capture_output=True,
            text=True,
            check=True,
            timeout=30,
        )
        return told.stdout.strip()

    def init_pid(self) -> int:
        """Its first process, as this machine counts."""
        told = subprocess.run(
            ["lxc-info", *self._named(), "-p", "-H"],
            capture_output=True,
            text=True,
            check=True,
            timeout=30,
        )
        return int(told.stdout)

    def run(
        self, words: Sequence[str], *, stdin: str = "", timeout_s: float = 30
    ) -> subprocess.CompletedProcess[str]:
        """Run a program in it as root."""
        return subprocess.run(
            [*self._attach(), *words],
            input=stdin,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            check=False,
            timeout=timeout_s,
        )

    def put(self, path: str, data: bytes, mode: int = 0o644) -> None:
        """Write a file in it."""
        script = 'set -e; umask 077; cat > "$1"; chmod "$2" "$1"'
        subprocess.run(
            [*self._attach(), "sh", "-c", script, "sh", path, f"{mode:o}"],
            input=data,
            capture_output=True,
            check=True,
            timeout=60,
        )

    def make_folder(self) -> str:
        """A new, empty folder in it, with a unique and short name."""
        made = self.run(("mktemp", "-d", "/tmp/dflash-XXXXXX"))
        made.check_returncode()
        return made.stdout.strip()

    def remove_folder(self, folder: str) -> None:
        """Remove a folder that ``make_folder`` made, and all that is in it."""
        self.run(("rm", "-rf", "--one-file-system", "--", folder)).check_returncode()

    def _named(self) -> tuple[str, ...]:
        return ("-P", str(self.lxc_folder), "-n", str(self.vmid))

    def _attach(self) -> tuple[str, ...]:
        env = ("--clear-env", "-v", "HOME=/root", "-v", "LC_ALL=C.UTF-8")
        return ("lxc-attach", *self._named(), *env, "--")


@contextmanager
def containers(*vmids: int, shared: Path | None = None) -> Iterator[tuple[Container, ...]]:
    """Fresh containers, running; stopped and removed afterwards. ``shared``: all have it.

    Raises:
        LabUnavailable: they cannot be had here.
    """
    cache = cache_folder()
    template = rootfs(cache)
    with ExitStack() as stack:
        with alone(cache / "build.lock"):
            _remove_left_over(cache)
            folder = Path(tempfile.mkdtemp(prefix="run-", dir=cache))
            # Held as long as this session lives: a folder whose lock is free was left over.
            stack.enter_context(alone(folder / "lock"))
        stack.callback(_remove, folder)
        made = tuple(Container(lxc_folder=folder, vmid=vmid) for vmid in vmids)
        for container in made:
            container.create(template, shared)
            container.start()
        yield made


def _remove(folder: Path) -> None:
    """Stop the containers of an LXC folder, each by its name, and remove the folder."""
    for config in folder.glob("*/config"):
        Container(lxc_folder=folder, vmid=int(config.parent.name)).stop()
    # Under another name: while it goes, its lock goes too, and another session would take it
    # for left over.
    gone = folder.rename(folder.with_name(f"gone-{folder.name}"))
    shutil.rmtree(gone, ignore_errors=True)


def _remove_left_over(cache: Path) -> None:
    """Remove what sessions left that were killed before they could."""
    for folder in cache.glob("run-*"):
        with (folder / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            _remove(folder)
    for folder in cache.glob("gone-*"):
        shutil.rmtree(folder, ignore_errors=True)
