"""An inventory of Ansible's leads to the same container: as a file, and from a program."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.lab.routes import pct_route

from .conftest import Job, made

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import Lab

pytestmark = pytest.mark.lab


@pytest.fixture
def job(lab: Lab, work: Path) -> Iterator[Job]:
    with pct_route(lab.container, lab.host.sshd) as route:
        yield made(route, work)


def states(job: Job, *option: str) -> dict[str, Any]:
    done = job.dflashctl(*option, "status", "-t", "box", "--json")
    assert done.returncode == 3, done.stderr
    return {name: one["state"] for name, one in json.loads(done.stdout)["targets"].items()}


def test_a_file_and_a_program_lead_into_the_container(job: Job) -> None:
    printed = job.ok("inventory", "show", "--format", "ansible")
    (job.folder / "ansible.yml").write_text(printed)
    variables = yaml.safe_load(printed)["all"]["hosts"]["box"]
    assert variables["proxmox_vmid"] == 200
    # The Proxmox host itself is not in it: it only leads to the container.
    listing = {"_meta": {"hostvars": {"box": variables}}, "boxes": {"hosts": ["box"]}}
    program = job.folder / "boxes"
    program.write_text(f"#!{sys.executable}\nprint({json.dumps(json.dumps(listing))})\n")
    program.chmod(0o755)
    ours = states(job)
    assert list(ours.values()) == ["NONE"]
    assert states(job, "-i", "ansible.yml") == ours
    assert list(states(job, "-i", "./boxes").values()) == ["NONE"]
    shown = job.ok("-i", "./boxes", "inventory", "show")
    assert len(shown.splitlines()) == 2
