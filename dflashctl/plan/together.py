"""One run over several targets: each one's place in it, and what keeps them apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dflashctl.agent.fabric import Node
from dflashctl.errors import Refusal
from dflashctl.plan import words
from dflashctl.plan.model import Place
from dflashctl.plan.network import Spot, meeting
from dflashctl.plan.steps import live_run, lives

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dflashctl.agent.seen import Observed
    from dflashctl.plan.model import Desired, Sight


def places(sights: tuple[Sight, ...]) -> tuple[Place | Refusal, ...]:
    """Where each target of a run stands in it, in their order; or why it has no place.

    All targets of the run are to be given, and their playbook has ``distributed``.
    """
    first = sights[0]
    spec, names = first.desired.playbook.distributed, first.desired.nodes
    assert spec is not None, "the caller has looked"
    living = tuple(one.target for one in sights if lives(one.seen))
    again = {one.record.run.id: one.target for one in sights if one.record is not None}
    if len(again) > 1:
        runs = ", ".join(f"{run} on {name}" for run, name in again.items())
        refusal = Refusal(
            code="different_runs",
            message=f"the targets would go back to different runs: {runs}",
            remedy="name the run: dflashctl rollback RUN",
        )
        return (refusal,) * len(sights)
    if len(sights) == 1:
        node = Node(rank=0, names=names, port=spec.port)
        return (Place(node=node, lead=first.seen, living=living),)
    spots = tuple(
        Spot(
            name=one.target,
            interfaces=one.seen.interfaces,
            fabric_address=one.desired.target.fabric_address,
        )
        for one in sights
    )
    found = meeting(spots, spec.interface)
    lead = found[0]
    if isinstance(lead, Refusal):
        return tuple(one if isinstance(one, Refusal) else lead for one in found)
    return tuple(
        one
        if isinstance(one, Refusal)
        else Place(
            node=Node(
                rank=rank,
                names=names,
                port=spec.port,
                master=lead.address,
                address=one.address,
                interface=one.name,
            ),
            lead=first.seen,
            living=living,
        )
        for rank, one in enumerate(found)
    )


def bare_places(sights: tuple[Sight, ...]) -> tuple[Place, ...]:
    """The same for verbs that start nothing, so that it does not matter where targets meet."""
    first = sights[0]
    spec, names = first.desired.playbook.distributed, first.desired.nodes
    assert spec is not None, "the caller has looked"
    return tuple(
        Place(node=Node(rank=names.index(one.target), names=names, port=spec.port), lead=first.seen)
        for one in sights
    )


def first_of_each_folder(seen: Mapping[int, tuple[int, ...]]) -> dict[int, int]:
    """For each rank the lowest one that has the same folder.

    ``seen``: whose marks each rank saw there. Of two with one folder at least one has seen the
    other's, as each of them looks before it takes its own away.
    """
    first = {rank: rank for rank in seen}
    for rank, others in seen.items():
        group = {first[one] for one in (rank, *others) if one in first}
        first = {one: min(group) if at in group else at for one, at in first.items()}
    return first


def no_way(there: Place, here: Place, reason: str) -> Refusal:
    """The refusal when a node cannot reach node 0."""
    node = here.node
    return Refusal(
        code="no_way_between",
        message=f"{node.names[node.rank]} ({node.address} on {node.interface}) cannot reach "
        f"{node.names[0]} at {there.node.address}, port {node.port}: {reason}",
        remedy="let it through (firewall, routes), or name another way: fabric_address in the "
        "inventory, distributed.interface or distributed.port in the playbook",
    )


def split_refusals(desired: Desired, seen: Observed, *, restart: bool) -> Iterator[Refusal]:
    """What would tear a run over several targets apart."""
    place, spec = desired.place, desired.playbook.distributed
    run = live_run(seen)
    if run is not None and restart and (others := left_out(desired, seen)):
        yield Refusal(
            code="part_of_a_run",
            message=f"run {run.id} is at work on {words.listed(others)}, too, and would lose "
            f"{desired.target.name}",
            remedy="name all its targets, or stop it on all of them first: "
            f"dflashctl stop {_named(seen)}",
        )
    if place is None or spec is None:
        return
    if spec.min_nodes is not None and spec.min_nodes > len(place.node.names):
        yield Refusal(
            code="too_few_targets",
            message=f"distributed.min_nodes asks for {spec.min_nodes} targets, and the run has "
            f"{len(place.node.names)}",
            remedy="name more targets, or lower distributed.min_nodes",
        )
    if place.living and not lives(seen) and not restart:
        yield Refusal(
            code="part_of_a_run",
            message=f"the job runs on {words.listed(place.living)} and not on "
            f"{desired.target.name}, which cannot join that run",
            remedy="start it anew on all of them: dflashctl deploy --restart",
        )


def left_out(desired: Desired, seen: Observed) -> tuple[str, ...]:
    """The targets of the live run that the command is not about."""
    run = live_run(seen)
    if run is None or run.node is None:
        return ()
    about = desired.nodes or (desired.target.name,)
    return tuple(name for name in run.node.names if name not in about)


def _named(seen: Observed) -> str:
    names = seen.run.node.names if seen.run and seen.run.node else ()
    return " ".join(f"-t {name}" for name in names)
