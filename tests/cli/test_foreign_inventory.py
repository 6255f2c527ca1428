"""An inventory of Ansible's on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dflashctl.cli import memory
from tests.cli.test_completion import asked, place
from tests.cli.world import World

__all__ = ["place"]

ANSIBLE = """\
all:
  hosts:
    kpro6: {ansible_host: 192.0.2.6, ansible_user: root}
    sw1: {ansible_connection: network_cli}
  children:
    training:
      hosts:
        dflash: {proxmox_vmid: 200, proxmox_node: kpro6}
"""


@pytest.fixture
def foreign(world: World) -> World:
    (world.cwd / "ansible.yml").write_text(ANSIBLE)
    program = world.cwd / "inventory.sh"
    program.write_text("#!/bin/sh\necho 'no token' >&2\nexit 7\n")
    program.chmod(0o755)
    return world


def test_it_is_shown_as_targets_with_what_is_left_out(foreign: World) -> None:
    shown = foreign.run("-i", "ansible.yml", "inventory", "show")
    assert shown.code == 0
    row = shown.out.splitlines()[-1].split()
    way = ["pct", "200", "on", "kpro6,", "ssh", "root@192.0.2.6"]
    assert row == ["kpro6/dflash", *way, "-", "training"]
    assert "left out: sw1, ansible_connection is network_cli" in shown.err
    value = json.loads(foreign.run("-i", "ansible.yml", "inventory", "show", "--json").out)
    assert list(value["targets"]) == ["kpro6", "kpro6/dflash"]
    assert value["left_out"] == {"sw1": "ansible_connection is network_cli"}


def test_a_verb_takes_its_targets(foreign: World) -> None:
    value = json.loads(foreign.run("-i", "ansible.yml", "status", "-t", "training", "--json").out)
    assert list(value["targets"]) == ["kpro6/dflash"]
    refused = foreign.run("-i", "ansible.yml", "status", "-t", "sw1")
    assert refused.code == 2
    assert "sw1 is no target: ansible_connection is network_cli" in refused.err


@pytest.mark.provokes("inventory_program")
def test_a_program_that_fails_is_told_with_its_own_words(foreign: World) -> None:
    failed = foreign.run("-i", "inventory.sh", "status")
    assert failed.code == 2
    assert "the inventory's program ended with exit code 7" in failed.err
    assert "no token" in failed.err


def test_nothing_is_written_into_it_and_no_host_is_asked(foreign: World) -> None:
    refused = foreign.run("-i", "ansible.yml", "inventory", "discover", "kpro6", "--write")
    assert refused.code == 2
    assert "it is an inventory of Ansible's, which is only read" in refused.err
    assert (foreign.cwd / "ansible.yml").read_text() == ANSIBLE


def test_ours_is_printed_for_ansible_and_taken_back(foreign: World) -> None:
    printed = foreign.run("inventory", "show", "--format", "ansible")
    assert printed.code == 0
    (foreign.cwd / "theirs.yml").write_text(printed.out)
    ways = [
        json.loads(foreign.run(*option, "inventory", "show", "--json").out)["targets"]
        for option in ((), ("-i", "theirs.yml"))
    ]
    assert ways[0] == ways[1]
    both = foreign.run("inventory", "show", "--format", "ansible", "--json")
    assert both.code == 2


def test_completion_knows_what_a_command_met_and_runs_no_program(place: Path) -> None:
    program = place / "inventory.sh"
    program.write_text("#!/bin/sh\ntouch ran\n")
    program.chmod(0o755)
    assert asked(place, "-i", "inventory.sh", "status", "-t", "") == (0, [])
    environ = {"HOME": str(place)}
    memory.remember(environ, "targets", str(program), ("a", "kpro6/dflash"))
    memory.remember(environ, "groups", str(program), ("training",))
    words = ["a", "kpro6/dflash", "dflash", "training"]
    assert asked(place, "-i", "inventory.sh", "status", "-t", "") == (0, words)
    assert not (place / "ran").exists()


def test_a_command_leaves_the_names_for_completion(foreign: World) -> None:
    foreign.run("-i", "ansible.yml", "inventory", "show")
    path = str(foreign.cwd / "ansible.yml")
    assert memory.recall(foreign.environ, "targets", (path,)) == ["kpro6", "kpro6/dflash"]
    assert memory.recall(foreign.environ, "groups", (path,)) == ["training"]
