"""The same deploy with Fabric, pyinfra, Ansible, and Ansible with Mitogen."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench.speed.parts.reach import DELAYS, changed, one_liner
from tests.bench.speed.table import times
from tests.bench.speed.timing import Failed, in_turns

if TYPE_CHECKING:
    from tests.bench.speed.lab import Lab
    from tests.bench.speed.table import Book
    from tests.bench.speed.timing import Sample

_FILES = Path(__file__).parents[1] / "peers"
_PACKAGES = {
    "Fabric": ("fabric",),
    "pyinfra": ("pyinfra",),
    "Ansible": ("ansible-core",),
    "Ansible + Mitogen": ("ansible-core", "mitogen"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kit:
    """Where the peers are, in an environment that goes with the lab."""

    lab: Lab
    venv: Path

    def tool(self, name: str) -> str:
        return str(self.venv / "bin" / name)

    def fabric(self, delay_s: float) -> Sample:
        script = str(_FILES / "fabric_naive.py")
        return self._deploy((self.tool("python"), script, self.lab.ssh_config), delay_s)

    def pyinfra(self, delay_s: float) -> Sample:
        sshd = self.lab.host.sshd
        told = {
            "ssh_port": self.lab.proxy.port,
            "ssh_user": sshd.user,
            "ssh_key": str(sshd.client_key),
            "ssh_known_hosts_file": str(sshd.known_hosts),
        }
        data = [word for name, value in told.items() for word in ("--data", f"{name}={value}")]
        script = str(_FILES / "pyinfra_deploy.py")
        return self._deploy((self.tool("pyinfra"), "-y", *data, sshd.host, script), delay_s)

    def ansible(self, delay_s: float) -> Sample:
        return self._ansible(delay_s, {})

    def mitogen(self, delay_s: float) -> Sample:
        (plugins,) = self.venv.glob("lib/python*/site-packages/ansible_mitogen/plugins/strategy")
        plugin = {"ANSIBLE_STRATEGY_PLUGINS": str(plugins), "ANSIBLE_STRATEGY": "mitogen_linear"}
        return self._ansible(delay_s, plugin)

    def _ansible(self, delay_s: float, more: dict[str, str]) -> Sample:
        lab = self.lab
        words = (
            *(self.tool("ansible-playbook"), "-i", "kpro6,", str(_FILES / "ansible_playbook.yml")),
            *("-e", f"folder={lab.folder}", "--ssh-common-args", f"-F {lab.ssh_config}"),
        )
        # Each run is somebody's first of the day: Ansible's shared connection lasts a minute.
        with tempfile.TemporaryDirectory(prefix="dflash-cp-", dir="/tmp") as control:
            environ = {
                "ANSIBLE_HOME": str(lab.folder / "ansible"),
                "ANSIBLE_SSH_CONTROL_PATH_DIR": control,
                "ANSIBLE_LOCALHOST_WARNING": "0",
                **more,
            }
            try:
                return self._deploy(words, delay_s, environ)
            finally:
                for path in Path(control).iterdir():
                    end = ("ssh", "-F", lab.ssh_config, "-S", str(path), "-O", "exit", "kpro6")
                    subprocess.run(end, capture_output=True, check=False, timeout=10)

    def _deploy(
        self, words: tuple[str, ...], delay_s: float, more: dict[str, str] | None = None
    ) -> Sample:
        self.lab.write_script("bare.sh", "/root/bare-checkpoints")
        return self.lab.measure(words, delay_s, more=more)


def measure(lab: Lab, book: Book, runs: int, *, ours_only: bool) -> None:
    """Rows against each that could be installed."""
    if ours_only:
        return
    kit = _Kit(lab=lab, venv=lab.folder / "peers")
    subprocess.run((sys.executable, "-m", "venv", str(kit.venv)), check=True, timeout=120)
    ways: dict[str, Callable[[float], Sample]] = {
        "dflashctl": changed(lab),
        "one-liner": one_liner(lab),
    }
    deploys = (kit.fabric, kit.pyinfra, kit.ansible, kit.mitogen)
    for (name, packages), once in zip(_PACKAGES.items(), deploys, strict=True):
        if why := _not_installed(kit, packages) or _fails(once):
            book.skip(name, why)
        else:
            ways[name] = once
    found = in_turns(ways, DELAYS, max(2, runs - 2))
    book.keep("peers", found)
    print(times(found), flush=True)
    ours = found["dflashctl"].seconds(0.1)
    for name, least in (
        ("Ansible", 5),
        ("pyinfra", 1.7),
        ("Ansible + Mitogen", None),
        ("Fabric", None),
    ):
        if name in found:
            theirs = found[name].seconds(0.1)
            book.add(
                f"deploy, changed, 100 ms: quicker than {name}",
                theirs / ours,
                "x",
                least=least,
                beside=f"{ours:.2f} s, {theirs:.2f} s",
            )


def _not_installed(kit: _Kit, packages: tuple[str, ...]) -> str:
    """Why it is not there; empty: it is."""
    words = (kit.tool("pip"), "install", "--quiet", "--disable-pip-version-check", *packages)
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=600)
    lines = done.stderr.strip().splitlines()
    return f"pip: {lines[-1]}" if done.returncode != 0 and lines else ""


def _fails(once: Callable[[float], Sample]) -> str:
    """Why it does not do the work here; empty: it does, and is compiled now."""
    try:
        once(0.0)
    except Failed as failed:
        return str(failed).strip().splitlines()[-1]
    return ""
