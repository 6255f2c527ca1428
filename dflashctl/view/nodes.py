"""One run on several targets: its nodes as lines and as JSON, and one report for all of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dflashctl.plan.words import listed
from dflashctl.view import figures

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dflashctl.plan.nodes import Across, NodeShown
    from dflashctl.view.status import Report


def one_a_run(reports: Sequence[Report]) -> tuple[Report, ...]:
    """Targets of one run as one: node 0's report, or the first that there is, with all nodes."""
    shown: list[Report] = []
    told: set[str] = set()
    for report in reports:
        across = report.across
        if across is None:
            shown.append(report)
        elif across.run_id not in told:
            told.add(across.run_id)
            parts = [one for one in reports if one.across and one.across.run_id == across.run_id]
            shown.append(_joined(across, parts))
    return tuple(shown)


def _joined(across: Across, parts: Sequence[Report]) -> Report:
    if len(parts) == 1:
        return parts[0]
    rank = {node.name: node.rank for node in across.nodes}
    lead = min(parts, key=lambda one: (one.seen is None, rank[one.target]))
    verdicts = dict.fromkeys(verdict for part in parts for verdict in part.verdicts)
    return replace(
        lead, target=listed(tuple(one.target for one in parts)), verdicts=tuple(verdicts)
    )


def node_lines(across: Across) -> list[str]:
    """A line for each node: rank, target, state, step, and what a step takes it."""
    rows = [(str(node.rank), node.name, _state(node), _step(node)) for node in across.nodes]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return [
        "  ".join(
            (*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3])
        ).rstrip()
        for row in rows
    ]


def _state(node: NodeShown) -> str:
    word = {"NOT_ASKED": "not asked", "OTHER_RUN": "not in this run"}.get(node.state, node.state)
    return f"{word}, {node.how}" if node.how else word


def _step(node: NodeShown) -> str:
    parts = [] if node.step is None else [f"step {node.step:.0f}"]
    if node.ended_ago_s is not None:
        return ", ".join((*parts, f"ended {figures.duration(node.ended_ago_s)} ago"))
    if node.step_s is not None:
        parts.append(f"{node.step_s:.3g} s a step")
    if node.work_s is not None:
        parts.append(f"own work {node.work_s:.3g} s")
    return ", ".join(parts)


def runs_object(reports: Iterable[Report]) -> list[dict[str, Any]]:
    """The runs over several targets, each once."""
    runs = {one.across.run_id: one.across for one in reports if one.across is not None}
    return [
        {
            "id": run.run_id,
            "nodes": [_node_object(node) for node in run.nodes],
            "verdicts": [
                {"target": name, "code": verdict.code, "since": figures.iso(verdict.since),
                 "evidence": verdict.evidence}
                for name, verdict in run.verdicts
            ],
        }
        for run in runs.values()
    ]  # fmt: skip


def _node_object(node: NodeShown) -> dict[str, Any]:
    return {
        "target": node.name,
        "rank": node.rank,
        "state": node.state,
        "step": None if node.step is None else int(node.step),
        "step_s": node.step_s,
        "work_s": node.work_s,
        "ended_ago_s": node.ended_ago_s,
        "ended_by": node.how,
    }
