"""Which data boundaries are made for: the job, and the machines that have them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from dflashctl.cli.call import Call
    from dflashctl.cli.optimizer import Where
    from dflashctl.inventory.model import Target
    from dflashctl.playbook.model import Playbook

PLAYBOOKS = ("optimize-buckets.yml", "deploy.yml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The job, and where its data are.

    ``target`` is None where that is this machine, or several: ``parts``.
    """

    playbook: Playbook | None
    folder: Path
    target: Target | None
    here: bool
    parts: tuple[Target, ...] = ()

    @property
    def gpus(self) -> int | None:
        """How many there are, as far as each target declares its own."""
        counts = [one.gpus for one in (self.parts or (self.target,)) if one is not None]
        return None if not counts or None in counts else sum(filter(None, counts))

    @property
    def boundaries(self) -> Path:
        """The file of boundaries, whether it is there or not."""
        from dflashctl.playbook.boundaries import NAME

        if self.playbook is None:
            return self.folder / NAME
        return self.playbook.buckets or self.playbook.path.with_name(NAME)

    @property
    def job(self) -> str:
        """The job's name."""
        return self.playbook.name if self.playbook else "buckets"

    @property
    def session(self) -> str:
        """The tmux session of a detached optimiser."""
        return f"{self.playbook.session if self.playbook else 'dflash'}-buckets"

    @property
    def python(self) -> str:
        """The interpreter that reads the data on a target."""
        said = self.playbook.dataset.python if self.playbook and self.playbook.dataset else None
        return said or "python3"


def wanted_from(
    call: Call, names: list[str] | None, playbook: str | None, where: Where, *, everything: bool
) -> Wanted:
    """The playbook, if there is one, and the targets, if some are needed."""
    from dflashctl.errors import NoFile
    from dflashctl.inventory.model import Local

    job: Playbook | None = None
    try:
        job = call.outline(playbook, PLAYBOOKS)
    except NoFile:
        if playbook or call.environ.get("DFLASHCTL_PLAYBOOK"):
            raise
    if where == "here":
        return Wanted(playbook=job, folder=call.cwd, target=None, here=True)
    targets = call.targets(names, everything=everything)
    if len(targets) > 1:
        return Wanted(playbook=job, folder=call.cwd, target=None, here=False, parts=targets)
    # On this very machine our own interpreter will do, unless another one is named.
    own = job is None or job.dataset is None or job.dataset.python is None
    here = where == "auto" and own and isinstance(targets[0].route, Local)
    return Wanted(playbook=job, folder=call.cwd, target=targets[0], here=here)
