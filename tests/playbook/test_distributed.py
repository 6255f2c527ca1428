"""The playbook's ``distributed``: what it says, and every mistake with its line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dflashctl.playbook.model import DistributedSpec

from .test_load import HEAD, faults, load

if TYPE_CHECKING:
    from pathlib import Path

SHORT = "distributed: {launcher: torchrun, nproc_per_node: 8}\n"


def test_what_is_not_said_has_a_default(tmp_path: Path) -> None:
    job = load(tmp_path, HEAD + SHORT)
    assert job.distributed == DistributedSpec(nproc_per_node=8)
    assert job.when_partial == "stop"
    assert load(tmp_path, HEAD).when_partial == "keep"


def test_all_of_it(tmp_path: Path) -> None:
    said = (
        "{launcher: torchrun, nproc_per_node: 4, port: 29500, rendezvous: c10d, min_nodes: 2, "
        "max_restarts: 3, interface: ib0}"
    )
    assert load(tmp_path, f"{HEAD}distributed: {said}\n").distributed == DistributedSpec(
        nproc_per_node=4, port=29500, rendezvous="c10d", min_nodes=2, max_restarts=3,
        interface="ib0",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("said", "where", "message"),
    [
        ("nproc_per_node: 0", "nproc_per_node", "must be from 1 to 1024, not 0"),
        ("port: 70000", "port", "must be a port from 1 to 65535, not 70000"),
        ("rendezvous: etcd", "rendezvous", "must be static or c10d, not 'etcd'"),
        ("launcher: mpirun", "launcher", "must be torchrun, not 'mpirun'"),
        ("interface: a b", "interface", "must be an interface's name (eth0) or auto"),
        ("max_restarts: -1", "max_restarts", "must be at least 0, not -1"),
        ("min_nodes: 2", "min_nodes", "goes with `rendezvous: c10d` only"),
        ("nodes: 2", "nodes", "unknown field"),
    ],
)
def test_a_mistake_is_told_with_its_line(
    tmp_path: Path, said: str, where: str, message: str
) -> None:
    fields = {"launcher": "torchrun", "nproc_per_node": "8"}
    name, _, value = said.partition(": ")
    lines = "".join(f"  {key}: {text}\n" for key, text in {**fields, name: value}.items())
    ((line, at, told),) = faults(tmp_path, f"{HEAD}distributed:\n{lines}")
    assert at == f"distributed.{where}"
    assert told.startswith(message)
    assert line == 4 + list({**fields, name: value}).index(name)


@pytest.mark.parametrize(
    ("more", "where", "message"),
    [
        ("run: {command: [torchrun, train.py]}", "run.command", "names what torchrun is to start"),
        (
            "run: {command: [python, -m, torch.distributed.run, t.py]}",
            "run.command",
            "names what torchrun is to start",
        ),
        ("run: {command: [a], env: {RANK: '0'}}", "run.env.RANK", "is torchrun's own"),
        ("run: {command: [a], env: {PET_NNODES: '2'}}", "run.env.PET_NNODES", "is torchrun's own"),
        ("watch: {restart: on-failure}", "watch.restart", "is for a run on one target"),
        ("on_partial: rollback", "on_partial", "one run over several targets cannot go back"),
    ],
)
def test_what_torchrun_leaves_no_room_for_is_refused(
    tmp_path: Path, more: str, where: str, message: str
) -> None:
    ((line, at, told),) = faults(tmp_path, f"{HEAD}{SHORT}{more}\n")
    assert (line, at) == (4, where)
    assert told.startswith(message)
    load(tmp_path, f"{HEAD}{more}\n")
