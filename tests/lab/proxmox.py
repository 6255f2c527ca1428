"""A host of containers: a real OpenSSH server on loopback where ``pct`` is our stand-in."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.lab.container import Container
from tests.lab.stand_in import program
from tests.sshd import Sshd, start_sshd

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

# As Proxmox writes it for a container that was given no GPU.
DEFAULT_CONFIG = """\
arch: amd64
cores: 2
hostname: {name}
memory: 2048
ostype: debian
rootfs: local-zfs:subvol-{vmid}-disk-0,size=8G
swap: 0
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pct:
    """The stand-in, in a folder that is the first of its host's PATH."""

    folder: Path

    def know(self, container: Container, config: str | None = None) -> None:
        """Let it have this container, with the text of its configuration file."""
        text = config or DEFAULT_CONFIG.format(vmid=container.vmid, name=f"ct{container.vmid}")
        with self._changing() as settings:
            settings["containers"][str(container.vmid)] = {
                "lxc_folder": str(container.lxc_folder),
                "config": text,
            }

    def behave(self, **settings: Any) -> None:
        """Set what its docstring lists: ``start_up_s``, ``keep_env`` and so on."""
        with self._changing() as current:
            current.update(settings)

    def calls(self) -> list[list[str]]:
        """The argv of each call since the last `forget_calls`, oldest first."""
        log = self.folder / "pct-calls.jsonl"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    def forget_calls(self) -> None:
        """Count calls from here."""
        (self.folder / "pct-calls.jsonl").unlink(missing_ok=True)

    @contextmanager
    def restored(self) -> Iterator[None]:
        """Whatever is set meanwhile, set it back in the end."""
        before = (self.folder / "pct.json").read_bytes()
        try:
            yield
        finally:
            (self.folder / "pct.json").write_bytes(before)

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Any]]:
        path = self.folder / "pct.json"
        settings = json.loads(path.read_text())
        yield settings
        path.write_text(json.dumps(settings, indent=1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxmox:
    """The host: how to get in, and its ``pct``."""

    sshd: Sshd
    pct: Pct


def install_pct(folder: Path) -> Pct:
    """Put the stand-in into a folder, knowing no container yet."""
    tool = folder / "pct"
    tool.write_bytes(program("pct", sys.executable))
    tool.chmod(0o755)
    (folder / "pct.json").write_text('{"containers": {}}')
    return Pct(folder=folder)


@contextmanager
def proxmox(
    folder: Path,
    containers: Sequence[Container],
    *,
    home: Path | None = None,
    extra: Sequence[str] = (),
) -> Iterator[Proxmox]:
    """A running host of these containers, with all its files in an empty folder.

    ``home`` and ``extra`` are for its sshd: see `start_sshd`.
    """
    (folder / "bin").mkdir()
    (folder / "sshd").mkdir()
    pct = install_pct(folder / "bin")
    for container in containers:
        pct.know(container)
    path = f"{pct.folder}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    sshd = start_sshd(folder / "sshd", path=path, home=home, extra=extra)
    try:
        yield Proxmox(sshd=sshd, pct=pct)
    finally:
        sshd.stop()
