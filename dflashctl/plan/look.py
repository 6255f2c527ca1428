"""What to look at on a target, for each verb no more than it needs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dflashctl.agent.keeping import StoreSpec
from dflashctl.agent.protocol import Look, Probe
from dflashctl.plan.batching import dataset_of
from dflashctl.plan.diff import LONGEST_TEXT

if TYPE_CHECKING:
    from dflashctl.inventory.model import Target
    from dflashctl.plan.model import Desired
    from dflashctl.playbook.model import CheckpointSpec, Playbook


def look_for(desired: Desired, *, gpus: bool = True) -> Look:
    """The cheap look: state, session and checkpoints; for status, logs, attach and stop.

    ``gpus=False`` spares those who show no GPUs the seconds that nvidia-smi may take.
    """
    playbook = desired.playbook
    return Look(
        job=playbook.name,
        session=playbook.session,
        tmux_socket=desired.target.tmux_socket,
        checkpoints=store_of(playbook.checkpoints) if playbook.checkpoints else None,
        exit_codes=playbook.run.exit_codes if playbook.run else None,
        gpus=gpus,
    )


def look_before_start(desired: Desired) -> Look:
    """The whole look, for deploy and start: files and what preflight asks for, too."""
    run = desired.playbook.run
    return replace(
        look_for(desired),
        files=desired.files,
        cwd=run.cwd if run else None,
        user=run.user if run else None,
        probe=probe_for(desired.playbook),
        dataset=dataset_of(desired.boundaries, desired.target.name),
        network=desired.playbook.distributed is not None and len(desired.nodes) > 1,
    )


def look_before_placing(desired: Desired) -> Look:
    """The whole look with the texts of files that differ, so that a plan can show how."""
    return replace(look_before_start(desired), texts=LONGEST_TEXT)


def look_at_store(desired: Desired, metric: str | None = None) -> Look:
    """The cheap look, with every checkpoint, archive and clearing."""
    return replace(look_for(desired, gpus=False), whole_store=True, metric=metric)


def store_of(spec: CheckpointSpec) -> StoreSpec:
    """What the agent needs to know of the playbook's checkpoints."""
    return StoreSpec(
        path=spec.path,
        pattern=spec.pattern,
        step_from=spec.step_from,
        complete_when=spec.complete_when,
        archive_to=spec.archive_to,
    )


def look_at_target(target: Target) -> Look:
    """What a target is like, whatever the job: for checks. Its job is one that nobody has."""
    return Look(job="-", session="-", tmux_socket=target.tmux_socket, driver=True)


def probe_for(playbook: Playbook) -> Probe | None:
    """The interpreter to try, if the playbook names one or something to import."""
    spec, run = playbook.preflight, playbook.run
    if spec.python is None and not spec.imports:
        return None
    env = run.env if run else {}
    return Probe(python=spec.python or "python3", imports=spec.imports, env=env)
