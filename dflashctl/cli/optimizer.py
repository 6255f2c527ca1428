"""Where the optimiser works: on the target, or in this very process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    from dflashctl.agent.protocol import Event
    from dflashctl.cli.call import Call
    from dflashctl.inventory.model import Target

Where = Literal["auto", "target", "here"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What an optimiser found.

    Attributes:
        report: all that there is to tell (dflashctl.buckets.report).
        task: what it was asked.
        fingerprint: of the dataset's files before they were read.
    """

    report: dict[str, Any]
    task: dict[str, Any]
    fingerprint: str | None


def in_this_process(task: dict[str, Any], target: str, tell: Callable[[str, float], None]) -> Found:
    """Read a dataset of this machine and optimise, here and now.

    Raises:
        BadDataset, MissingModule: as on a target.
    """
    from dflashctl.agent.dataset import fingerprint
    from dflashctl.buckets import job

    before = fingerprint(task["path"])
    result = _complaining(lambda: job.run(task, tell), task, target)
    return Found(report=result["report"], task=task, fingerprint=before)


def on_target(
    call: Call, target: Target, request: Any, tell: Callable[[str, float], None]
) -> Found:
    """Have it done on the target; where its Python has no numpy, lengths are counted there.

    ``request``: an Optimize or a Fetch. Raises:
        BadDataset, MissingModule, MissingTool, NoOptimizer: what stands against it.
    """
    from dflashctl.agent.optimizing import Working
    from dflashctl.buckets import job

    def on_event(event: Event) -> None:
        if isinstance(event, Working):
            tell(event.stage, event.share)

    with call.at(target) as agent:
        found = agent.optimize(request, on_event)
    match found.result:
        case {"report": dict(report)}:
            pass
        case {"counted": str(counted)}:
            report = _complaining(
                lambda: job.here(counted, found.task, tell), found.task, target.name
            )
        case _:
            from dflashctl.errors import Internal

            raise Internal(what=f"the optimiser on {target.name} answered nonsense")
    return Found(report=report, task=found.task, fingerprint=found.dataset)


def _complaining(
    work: Callable[[], dict[str, Any]], task: dict[str, Any], target: str
) -> dict[str, Any]:
    """Do it; what is wrong with the data becomes the error that it would be on a target."""
    from dflashctl.buckets import job

    try:
        return work()
    except job.EXPECTED as error:
        from dflashctl.agent.protocol import Failure
        from dflashctl.link.optimizer import of_the_optimizer

        known = of_the_optimizer(target, Failure(**job.complaint(error, task)))
        assert known is not None, "every complaint is known there"
        raise known from error
