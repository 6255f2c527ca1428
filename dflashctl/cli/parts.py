"""A dataset that is spread over several targets: each counts its lengths, the counts add up."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from dflashctl.agent.optimizing import Optimize
    from dflashctl.agent.protocol import Event
    from dflashctl.cli.call import Call
    from dflashctl.cli.optimizer import Found, Part
    from dflashctl.errors import DflashError
    from dflashctl.inventory.model import Target

    Tell = Callable[[str, float], None]


def together(
    call: Call, targets: Sequence[Target], request: Optimize, tell: Tell
) -> Found | dict[str, DflashError]:
    """The one optimum for what all have, computed here; or the errors of those that failed.

    Raises:
        BadDataset: the lengths, taken together, are not fit for it.
    """
    from dflashctl.buckets import job
    from dflashctl.cli.optimizer import Found, complaining

    task = request.task
    found = _counted(call, targets, request, tell)
    parts = [one for one in found if not isinstance(one, Exception)]
    if len(parts) < len(found):
        pairs = zip(targets, found, strict=True)
        return {target.name: one for target, one in pairs if isinstance(one, Exception)}
    names = ", ".join(part.target for part in parts)
    counts = [part.counted for part in parts]
    report = complaining(lambda: job.here(counts, task, tell), task, names)
    return Found(report=report, task=task, fingerprint=None, parts=tuple(parts))


def _counted(
    call: Call, targets: Sequence[Target], request: Optimize, tell: Tell
) -> list[Part | DflashError]:
    """What each target has, all read at once; where one failed, its error in that place."""
    from dataclasses import replace

    from dflashctl.agent.optimizing import Working
    from dflashctl.cli.optimizer import part_of
    from dflashctl.link.fanout import each

    shares = dict.fromkeys((target.name for target in targets), 0.0)
    lock = Lock()
    counting = replace(request, task=request.task | {"only_counts": True})

    with call.reach() as reach:

        def count(target: Target) -> Part:
            def on_event(event: Event) -> None:
                if isinstance(event, Working):
                    with lock:
                        shares[target.name] = event.share
                        tell("reading", sum(shares.values()) / len(shares))

            with reach.agent(target) as agent:
                found = agent.optimize(counting, on_event)
            return part_of(found.result, request.task, target.name, found.dataset)

        return each(targets, count)


def part_object(part: Part) -> dict[str, Any]:
    """One target of ``optimize-buckets --json`` over several."""
    return {**part.about, "fingerprint": part.fingerprint, "error": None}


def gravest(failed: Iterable[DflashError]) -> DflashError:
    """The error whose exit code counts."""
    from dflashctl.errors import worst

    errors = list(failed)
    code = worst([error.exit_code for error in errors])
    return next(error for error in errors if error.exit_code == code)


def tell_failures(call: Call, failed: Mapping[str, DflashError]) -> int:
    """Why some targets told nothing, each of them; the gravest exit code."""
    from dflashctl.view import json
    from dflashctl.view.outcome import show_error

    for error in failed.values():
        show_error(call.screen, error)
    code = gravest(failed.values()).exit_code
    if call.json:
        shapes = {name: {"error": json.error_object(error)} for name, error in failed.items()}
        again = call.screen.again()
        call.screen.write(json.envelope(call.command, code, shapes, again=again, together=None))
    return code
