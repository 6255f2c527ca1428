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
        fingerprint: of the dataset's files before they were read; None of several parts.
        parts: what each target has of the dataset, if it is spread over several.
    """

    report: dict[str, Any]
    task: dict[str, Any]
    fingerprint: str | None
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one target has of a dataset.

    Attributes:
        target: its name.
        counted: how many samples have which length, packed.
        about: samples, tokens, shortest, longest.
        fingerprint: of its files before they were read.
    """

    target: str
    counted: str
    about: dict[str, Any]
    fingerprint: str | None


def in_this_process(task: dict[str, Any], target: str, tell: Callable[[str, float], None]) -> Found:
    """Read a dataset of this machine and optimise, here and now.

    Raises:
        BadDataset, MissingModule: as on a target.
    """
    from dflashctl.agent.dataset import fingerprint
    from dflashctl.buckets import job

    before = fingerprint(task["path"])
    result = complaining(lambda: job.run(task, tell), task, target)
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
            report = complaining(
                lambda: job.here((counted,), found.task, tell), found.task, target.name
            )
        case _:
            from dflashctl.errors import Internal

            raise Internal(what=f"the optimiser on {target.name} answered nonsense")
    return Found(report=report, task=found.task, fingerprint=found.dataset)


def part_of(
    answer: dict[str, Any], task: dict[str, Any], target: str, fingerprint: str | None
) -> Part:
    """What a target counted. Raises BadDataset: some lengths no batch can have."""
    from dflashctl.buckets import job

    match answer:
        case {"counted": str(counted)}:
            about = complaining(lambda: job.part(counted, task), task, target)
        case _:
            from dflashctl.errors import Internal

            raise Internal(what=f"the optimiser on {target} answered nonsense")
    return Part(target=target, counted=counted, about=about, fingerprint=fingerprint)


def complaining(
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
