"""Whether what a step's ``when`` asks for is so, as the target was seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dflashctl.plan import words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dflashctl.agent.seen import Observed
    from dflashctl.playbook.model import WhenSpec


def unmet(when: WhenSpec, seen: Observed, *, files_changed: bool) -> str | None:
    """Why a step is not to be done, in a few words; None when all that is asked for is so."""
    return next(_reasons(when, seen, files_changed=files_changed), None)


def _reasons(when: WhenSpec, seen: Observed, *, files_changed: bool) -> Iterator[str]:
    state = "STALLED" if any(v.code == "stalled" for v in seen.verdicts) else seen.state
    if when.state and state not in when.state:
        yield f"the state is {state}, not {' or '.join(when.state)}"
    if when.gpus_free is not None and (free := gpus_free(seen)) < when.gpus_free:
        yield f"{words.counted(free, 'GPU')} free, not {when.gpus_free}"
    count = seen.checkpoints.count if seen.checkpoints else 0
    if when.at_least is not None and count < when.at_least:
        yield f"{words.counted(count, 'checkpoint')}, not at least {when.at_least}"
    if when.at_most is not None and count > when.at_most:
        yield f"{words.counted(count, 'checkpoint')}, not at most {when.at_most}"
    if when.files_changed is not None and when.files_changed != files_changed:
        yield "files have changed" if files_changed else "no file has changed"
    if when.missing and not set(when.missing) & set(seen.absent):
        there = "is" if len(when.missing) == 1 else "are"
        yield f"{words.listed(when.missing)} {there} there"


def gpus_free(seen: Observed) -> int:
    """How many GPUs nobody but this job holds."""
    if seen.gpus is None:
        return 0
    held = {device for h in seen.gpus.holders if not h.ours for device in h.devices}
    return sum(f"/dev/nvidia{gpu.index}" not in held for gpu in seen.gpus.gpus)
