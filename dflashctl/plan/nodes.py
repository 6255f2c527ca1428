"""One run on several targets as a whole: its nodes, who is missing, who is slow."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Literal

from dflashctl.agent.process import signal_name
from dflashctl.agent.seen import LIVE_STATES, VerdictSeen
from dflashctl.plan import words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dflashctl.agent.fabric import FirstFailure
    from dflashctl.agent.seen import MetricsSeen, Observed, RunSeen

# A node that takes so many times what the others take holds them up: all wait for the last one.
SLOW = 1.3

NodeState = Literal[
    "STARTING", "RUNNING", "ADOPTED", "STOPPED", "FINISHED", "FAILED", "ORPHANED", "INTERRUPTED",
    "NONE", "UNREACHABLE", "NOT_ASKED", "OTHER_RUN",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeShown:
    """One target's part of a run over several.

    Attributes:
        state: the run's there; UNREACHABLE: it could not be looked at; NOT_ASKED: it was not
            among the targets of the command; OTHER_RUN: it has a newer one, or none.
        step: the last that it told of.
        work_s: what a step takes it, the waiting for others left out; None: it does not tell.
        step_s: what a step takes in all.
        ended_ago_s, how: when and how its part ended, if it did.
        first_failure: which of its processes failed first, as torchrun says; so long ago.
    """

    name: str
    rank: int
    state: NodeState
    step: float | None = None
    work_s: float | None = None
    step_s: float | None = None
    ended_ago_s: float | None = None
    how: str | None = None
    first_failure: FirstFailure | None = None
    failed_ago_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Across:
    """A run over several targets, from what each of them showed.

    ``verdicts``: what speaks against it as a whole, by the name of the target it speaks of.
    """

    run_id: str
    nodes: tuple[NodeShown, ...]
    verdicts: tuple[tuple[str, VerdictSeen], ...] = ()


def across(found: Mapping[str, Observed | None]) -> tuple[Across, ...]:
    """The runs over several targets among what was found; None is a target that gave no answer.

    Of each target only its newest run counts.
    """
    runs: dict[str, tuple[str, ...]] = {}
    for seen in found.values():
        run = seen.run if seen else None
        if run is not None and run.node is not None and len(run.node.names) > 1:
            runs.setdefault(run.id, run.node.names)
    return tuple(_whole(run_id, names, found) for run_id, names in runs.items())


def _whole(run_id: str, names: tuple[str, ...], found: Mapping[str, Observed | None]) -> Across:
    nodes = tuple(
        _node(run_id, name, rank, found.get(name, "not asked")) for rank, name in enumerate(names)
    )
    return Across(run_id=run_id, nodes=nodes, verdicts=(*_lost(nodes), *_stragglers(nodes)))


def _node(
    run_id: str, name: str, rank: int, seen: Observed | Literal["not asked"] | None
) -> NodeShown:
    if seen is None or seen == "not asked":
        state: NodeState = "UNREACHABLE" if seen is None else "NOT_ASKED"
        return NodeShown(name=name, rank=rank, state=state)
    run = seen.run
    if run is None or run.id != run_id:
        return NodeShown(name=name, rank=rank, state="OTHER_RUN")
    ended, metrics = run.ended_at, seen.metrics
    return NodeShown(
        name=name,
        rank=rank,
        state=run.state,
        step=metrics.step if metrics else None,
        work_s=metrics.work_s if metrics else None,
        step_s=_step_s(metrics) if metrics else None,
        ended_ago_s=None if ended is None else max(0.0, seen.now - ended),
        how=None if run.state in LIVE_STATES else _how(run),
        first_failure=run.first_failure,
        failed_ago_s=seen.now - run.first_failure.at if run.first_failure else None,
    )


def _step_s(metrics: MetricsSeen) -> float | None:
    rate = metrics.steps_per_s or metrics.measured_steps_per_s
    return 1 / rate if rate else None


def _how(run: RunSeen) -> str:
    """How its part ended, in a few words."""
    if run.stopped_by:
        return f"stopped by {run.stopped_by}"
    if run.oom:
        return "out of memory"
    if run.signal:
        return f"signal {run.signal}"
    if run.first_failure is not None:
        return _process(run.first_failure)
    if run.exit_code is not None:
        return f"exit code {run.exit_code}"
    return "nobody recorded how"


def _lost(nodes: tuple[NodeShown, ...]) -> Iterator[tuple[str, VerdictSeen]]:
    """Nodes without which the others go on or wait; of a run that failed who was the first."""
    live = [one for one in nodes if one.state in LIVE_STATES]
    gone = [one for one in nodes if one.state not in (*LIVE_STATES, "NOT_ASKED")]
    if live:
        for one in gone:
            rest = words.listed(tuple(other.name for other in live))
            evidence = f"node {one.rank}, {one.name}, is {_state(one)}; {rest} still at work"
            yield one.name, VerdictSeen(code="node_lost", since=None, evidence=evidence)
        return
    failed = sorted((one for one in gone if one.state == "FAILED"), key=_blame)
    if len(failed) > 1:
        first, second = failed[:2]
        evidence = (
            f"node {first.rank}, {first.name}, failed first ({first.how}); "
            f"then {second.name} ({second.how})"
        )
        yield first.name, VerdictSeen(code="node_failed_first", since=None, evidence=evidence)


def _blame(node: NodeShown) -> tuple[bool, float]:
    """Least for the node that pulled the others along.

    A process that a signal ended did not lose its peer; of others the oldest failure counts, and
    not the end of its torchrun, which waits for more.
    """
    told = node.first_failure
    ago = node.failed_ago_s if node.failed_ago_s is not None else node.ended_ago_s
    by_signal = told is not None and told.exit_code < 0
    return not by_signal, -(ago or 0.0)


def _process(failed: FirstFailure) -> str:
    """How a process ended: ``rank 2: signal KILL``."""
    if failed.exit_code >= 0:
        return f"rank {failed.rank}: exit code {failed.exit_code}"
    return f"rank {failed.rank}: signal {signal_name(-failed.exit_code)}"


def _state(node: NodeShown) -> str:
    match node.state:
        case "UNREACHABLE":
            return "unreachable"
        case "OTHER_RUN":
            return "without this run"
        case state:
            return f"{state} ({node.how})" if node.how else state


def _stragglers(nodes: tuple[NodeShown, ...]) -> Iterator[tuple[str, VerdictSeen]]:
    """Nodes that are slower than the others, by what all of them tell of."""
    live = [one for one in nodes if one.state in LIVE_STATES]
    for word, times in (
        ("of its own work", {one.name: one.work_s for one in live if one.work_s}),
        ("in all", {one.name: one.step_s for one in live if one.step_s}),
    ):
        if len(times) < 2:
            continue
        for name, mine in times.items():
            usual = median(other for who, other in times.items() if who != name)
            if mine > SLOW * usual:
                evidence = (
                    f"a step takes {name} {mine:.3g} s {word}, and the others {usual:.3g} s: "
                    "they wait for it"
                )
                yield name, VerdictSeen(code="straggler", since=None, evidence=evidence)
        return
