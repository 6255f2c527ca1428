"""The words and variables by which torchrun makes one run of the targets' processes."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dflashctl.agent.fabric import Node
    from dflashctl.plan.model import Desired
    from dflashctl.playbook.model import DistributedSpec, Playbook, RunSpec

_PYTHON = r"python[0-9.]*"


def launcher(playbook: Playbook, run: RunSpec, node: Node, run_id: str) -> tuple[str, ...]:
    """What comes before the run's own words; nothing where the playbook has no ``distributed``.

    torchrun is the one of the interpreter that the command names, else of preflight's.
    """
    spec = playbook.distributed
    if spec is None:
        return ()
    program = run.command[0]
    named = re.fullmatch(_PYTHON, program.rpartition("/")[2])
    python = program if named else playbook.preflight.python or "python3"
    return (
        *(python, "-m", "torch.distributed.run"),
        *_meeting(spec, node, run_id),
        *("--nproc-per-node", str(spec.nproc_per_node)),
        *("--max-restarts", str(spec.max_restarts)),
        "--no-python",
    )


def _meeting(spec: DistributedSpec, node: Node, run_id: str) -> tuple[str, ...]:
    """How the nodes find each other.

    An address is always said: a container's own name often leads to its loopback, and torchrun
    would take that.
    """
    count = len(node.names)
    if node.master is None or node.address is None:
        return "--standalone", "--local-addr", "127.0.0.1"
    if spec.rendezvous == "static":
        return (
            *("--nnodes", str(count), "--node-rank", str(node.rank)),
            *("--master-addr", node.master, "--master-port", str(node.port)),
            *("--rdzv-id", run_id, "--local-addr", node.address),
        )
    host = f"[{node.master}]" if ":" in node.master else node.master
    return (
        *("--nnodes", f"{spec.min_nodes or count}:{count}", "--rdzv-backend", "c10d"),
        *("--rdzv-endpoint", f"{host}:{node.port}", "--rdzv-id", run_id),
        # Left to itself torchrun guesses from names whose the endpoint is.
        *("--rdzv-conf", f"is_host={int(node.rank == 0)}", "--local-addr", node.address),
    )


def with_network(run: RunSpec, desired: Desired) -> RunSpec:
    """The run with the variables that a run over several needs, unless it sets them itself."""
    playbook, place = desired.playbook, desired.place
    if playbook.distributed is None:
        return run
    # By default it would give its processes 30 s to save, whatever the playbook says.
    env = {"PET_SHUTDOWN_TIMEOUT": str(math.ceil(playbook.stop.grace_s))}
    # A store that outlives a restart would lead the new processes to the old ones' addresses.
    env |= {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    env |= _interface(place.node if place else None)
    secret = desired.secrets
    ours = {name: value for name, value in env.items() if name not in secret}
    return replace(run, env={**ours, **run.env})


def without_network(env: dict[str, str], node: Node | None) -> dict[str, str]:
    """A run's variables on record without those that named its interface."""
    ours = _interface(node)
    return {name: value for name, value in env.items() if ours.get(name) != value}


def _interface(node: Node | None) -> dict[str, str]:
    if node is None or node.interface is None:
        return {}
    # NCCL takes a plain name for the beginning of one.
    return {"NCCL_SOCKET_IFNAME": f"={node.interface}", "GLOO_SOCKET_IFNAME": node.interface}
