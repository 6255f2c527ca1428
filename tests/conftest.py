"""Fixtures for all tests: a private surrounding for each, sshd, and the lab."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.lab.container import Container, containers, why_no_lab
from tests.lab.need import do_without
from tests.lab.proxmox import Proxmox, proxmox
from tests.lab.rootfs import LabUnavailable, cache_folder
from tests.lab.routes import Route, local_route, pct_route, ssh_route
from tests.sshd import Sshd, start_sshd, why_no_sshd

if TYPE_CHECKING:
    from collections.abc import Iterator

# What could lead a test to the tmux server, the state or the settings of whoever runs it.
_PERSONAL = (
    "DFLASHCTL_INVENTORY",
    "DFLASHCTL_PLAYBOOK",
    "SSH_AUTH_SOCK",
    "TMUX",
    "TMUX_PANE",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lab:
    """A container that runs (200), one that does not (202), and the host of both."""

    container: Container
    stopped: Container
    host: Proxmox


def pytest_configure() -> None:
    """Settle where the lab is kept, before tests get a HOME of their own."""
    os.environ["DFLASHCTL_LAB_CACHE"] = str(cache_folder())
    # A shell starts what it runs in the background deaf to Ctrl-C, nohup to a hang-up: and so
    # all children.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    _judge_no_example_by_the_clock()


def _judge_no_example_by_the_clock() -> None:
    """A busy machine is slow, and no property is false for it."""
    try:
        from hypothesis import HealthCheck, settings
    except ImportError:  # the trainer's tests run without it
        return
    settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("busy")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs the lab, so that it can be left out."""
    for item in items:
        if {"lab", "neighbour"} & set(getattr(item, "fixturenames", ())):
            item.add_marker("lab")


@pytest.fixture
def work() -> Iterator[Path]:
    """An empty folder with a short name, as the paths of sockets must be short."""
    folder = Path(tempfile.mkdtemp(prefix="dflash-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(autouse=True)
def private_home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty HOME and no tmux server but the test's own."""
    folder = Path(tempfile.mkdtemp(prefix="dflash-home-", dir="/tmp"))
    for name in _PERSONAL:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("TMUX_TMPDIR", str(folder))
    yield folder
    for socket in folder.glob("tmux-*/*"):
        subprocess.run(
            ["tmux", "-S", str(socket), "kill-server"], capture_output=True, check=False, timeout=10
        )
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """What ``--debug`` sets up in this very process ends with the test."""
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    yield
    root.setLevel(level)
    for added in [handler for handler in root.handlers if handler not in handlers]:
        root.removeHandler(added)


@pytest.fixture(scope="session")
def sshd() -> Iterator[Sshd]:
    """An OpenSSH server on loopback that lets in who runs the tests."""
    if reason := why_no_sshd():
        do_without(reason)
    folder = Path(tempfile.mkdtemp(prefix="dflash-sshd-", dir="/tmp"))
    server = start_sshd(folder)
    yield server
    server.stop()
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """A real container behind a real sshd with a ``pct``; skipped where it cannot be."""
    if reason := why_no_lab():
        do_without(reason)
    folder = Path(tempfile.mkdtemp(prefix="dflash-lab-", dir="/tmp"))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder)
        try:
            (container,) = stack.enter_context(containers(200))
        except LabUnavailable as unavailable:
            do_without(str(unavailable))
        stopped = Container(lxc_folder=container.lxc_folder, vmid=202)
        stopped.create_stopped()
        host = stack.enter_context(proxmox(folder, (container, stopped)))
        yield Lab(container=container, stopped=stopped, host=host)


@pytest.fixture(scope="session")
def neighbour(lab: Lab) -> Iterator[Container]:
    """A second running container (201) of the same host."""
    with containers(201) as (container,):
        lab.host.pct.know(container)
        yield container


@pytest.fixture(params=["local", "ssh", pytest.param("pct", marks=pytest.mark.lab)])
def route(request: pytest.FixtureRequest, private_home: Path) -> Iterator[Route]:
    """The target ``box``, in each of the three ways."""
    with ExitStack() as stack:
        match request.param:
            case "local":
                yield stack.enter_context(local_route(private_home))
            case "ssh":
                server: Sshd = request.getfixturevalue("sshd")
                yield stack.enter_context(ssh_route(private_home, server))
            case _:
                built: Lab = request.getfixturevalue("lab")
                stack.enter_context(built.host.pct.restored())
                yield stack.enter_context(pct_route(built.container, built.host.sshd))
