"""What is measured: a container behind a host's sshd, at the end of a line of any length."""

from __future__ import annotations

import os
import random
import shutil
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tests.bench.speed.timing import Sample, run
from tests.lab.container import Container, containers
from tests.lab.proxmox import Proxmox, proxmox
from tests.lab.proxy import Chain, Proxy
from tests.sshd import known_hosts_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

VMID = 200
SCRIPT_BYTES = 60_000
# What a trainer does as far as these measurements go: one checkpoint, and then no end.
_TRAINER = """\
#!/bin/sh
mkdir -p {checkpoints}/step-00000001
echo weights > {checkpoints}/step-00000001/model.bin
echo "step 1 loss=2.5"
exec sleep 86400
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lab:
    """The lab, and a folder here with all that its users need.

    Attributes:
        folder: inventory.yml, deploy.yml, ssh_config and train.sh; HOME of all that is run.
        proxy: on the way to the host for all of them.
    """

    folder: Path
    container: Container
    host: Proxmox
    proxy: Proxy

    @property
    def environ(self) -> dict[str, str]:
        """For ourselves and for all others alike. What they import gets compiled."""
        return {
            "PATH": os.environ["PATH"],
            "LC_ALL": "C.UTF-8",
            "HOME": str(self.folder),
            "DFLASHCTL_INVENTORY": str(self.folder / "inventory.yml"),
            "DFLASHCTL_PLAYBOOK": str(self.folder / "deploy.yml"),
            "COLUMNS": "100",
        }

    @property
    def ssh_config(self) -> str:
        """The file that makes ``ssh -F FILE kpro6`` work."""
        return str(self.folder / "ssh_config")

    def write_inventory(self, *more: Container, port: int | None = None, **target: Any) -> None:
        """Our own view: the container ``box``, set as told, and further ones of the host.

        ``port``: another than the proxy's.
        """
        sshd = self.host.sshd
        boxes = {"box": {"vmid": self.container.vmid, "route": "pct", **target}}
        boxes |= {f"box{one.vmid}": {"vmid": one.vmid, "route": "pct"} for one in more}
        host = {
            "address": sshd.host,
            "port": port or self.proxy.port,
            "user": sshd.user,
            "identity_file": str(sshd.client_key),
            "known_hosts_file": str(sshd.known_hosts),
            "proxy_jump": "none",
            "containers": boxes,
        }
        text = yaml.safe_dump({"version": 1, "default_target": "box", "hosts": {"kpro6": host}})
        (self.folder / "inventory.yml").write_text(text)

    def write_playbook(self, **changes: Any) -> None:
        """The job: a script, a session, and checkpoints that may be cleared."""
        playbook = {
            "version": 1,
            "name": "dflash",
            "files": [{"source": "train.sh", "dest": "/root/train.sh", "mode": "0755"}],
            "run": {"command": ["sh", "/root/train.sh"], "env_base": "minimal"},
            "checkpoints": {"path": "/root/checkpoints"},
            **changes,
        }
        (self.folder / "deploy.yml").write_text(yaml.safe_dump(playbook, sort_keys=False))

    def write_script(self, name: str, checkpoints: str) -> Path:
        """A script of 60 kB that was never sent before."""
        path = self.folder / name
        body = _TRAINER.format(checkpoints=checkpoints)
        noise = random.randbytes((SCRIPT_BYTES - len(body)) // 2 - 1).hex()
        path.write_text(f"{body}# {noise}\n")
        path.chmod(0o755)
        return path

    def measure(
        self,
        words: Sequence[str],
        delay_s: float,
        *,
        codes: Sequence[int] = (0,),
        more: Mapping[str, str] | None = None,
    ) -> Sample:
        """Run a program while a round trip to the host takes so long."""
        proxy, pct = self.proxy, self.host.pct
        proxy.up.delay_s = proxy.down.delay_s = delay_s / 2
        proxy.chain = Chain()
        pct.forget_calls()
        sent, received = proxy.up.count, proxy.down.count
        environ = {**self.environ, **(more or {})}
        sample = run(words, environ, codes=codes, cwd=self.folder)
        return replace(
            sample,
            round_trips=proxy.chain.round_trips,
            sent=proxy.up.count - sent,
            received=proxy.down.count - received,
            pct=len(pct.calls()),
        )

    def ours(self, delay_s: float, *words: str, codes: Sequence[int] = (0,)) -> Sample:
        """Measure a command of ours, as it is installed."""
        return self.measure((*dflashctl(), *words), delay_s, codes=codes)


def dflashctl() -> tuple[str, ...]:
    """The command as a person has it: the script beside this interpreter."""
    script = Path(sys.executable).with_name("dflashctl")
    return (str(script),) if script.exists() else (sys.executable, "-m", "dflashctl")


@contextmanager
def lab() -> Iterator[Lab]:
    """The lab with our job running in it; gone afterwards.

    Raises:
        LabUnavailable: it cannot be had here.
    """
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="dflash-speed-", dir="/tmp"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        (container,) = stack.enter_context(containers(VMID))
        for name in ("host", "home-over-there", "operator"):
            (folder / name).mkdir()
        # Today's scp wants sftp, and the shell of whoever runs this may be slow to start.
        sftp = ("Subsystem sftp internal-sftp",)
        made = proxmox(folder / "host", (container,), home=folder / "home-over-there", extra=sftp)
        host = stack.enter_context(made)
        yield stack.enter_context(at_the_end_of_a_line(container, host, folder / "operator"))


@contextmanager
def at_the_end_of_a_line(container: Container, host: Proxmox, folder: Path) -> Iterator[Lab]:
    """Our job running in that container, the first of its host, to be reached by a proxy.

    ``folder`` is empty, and becomes the operator's.
    """
    sshd = host.sshd
    with Proxy(target=(sshd.host, sshd.port)) as proxy:
        with sshd.known_hosts.open("a") as known:
            known.write(known_hosts_line(f"[{sshd.host}]:{proxy.port}", sshd.host_key))
        built = Lab(folder=folder, container=container, host=host, proxy=proxy)
        (folder / "ssh_config").write_text(_ssh_config(built))
        built.write_inventory()
        built.write_playbook()
        built.write_script("train.sh", "/root/checkpoints")
        built.ours(0.0, "deploy", "--restart", "--no-wait")
        yield built


def _ssh_config(built: Lab) -> str:
    sshd = built.host.sshd
    return f"""\
Host kpro6
  HostName {sshd.host}
  Port {built.proxy.port}
  User {sshd.user}
  IdentityFile {sshd.client_key}
  IdentitiesOnly yes
  UserKnownHostsFile {sshd.known_hosts}
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
  BatchMode yes
"""
