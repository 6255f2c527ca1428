"""What the tests of the link share: sshd on loopback, a home of its own, a scripted agent."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from dflashctl.inventory.model import Local, Target
from dflashctl.link.connect import Connections
from tests.link.fakes import write_python
from tests.sshd import Sshd, start_sshd, why_no_sshd

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def ssh_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty configuration for ssh, in the place of the one of the tests' user."""
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    config = tmp_path / "ssh_config"
    config.touch()
    ssh = shutil.which("ssh")
    if ssh is not None:
        wrapper = tmp_path / "bin" / "ssh"
        wrapper.parent.mkdir()
        wrapper.write_text(f'#!/bin/sh\nexec {ssh} -F "{config}" "$@"\n')
        wrapper.chmod(0o755)
        monkeypatch.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")
    return config


@pytest.fixture(scope="session")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """One server for all tests that need nothing special of it."""
    reason = why_no_sshd()
    if reason is not None:
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("sshd")
    server = start_sshd(folder, path="/usr/local/bin:/usr/bin:/bin", home=folder)
    yield server
    server.stop()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home for agents, so that none is kept in that of the tests' user."""
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def here(tmp_path: Path, home: Path) -> Target:
    """This machine as a target, where ``python3`` takes ``home`` for the user's home."""
    return Target(name="here", route=Local(), path=(write_python(tmp_path / "py", home),))


@pytest.fixture
def connections() -> Iterator[Connections]:
    """Connections that have no terminal to ask on."""
    with Connections(ask=lambda _: None) as made:
        yield made
