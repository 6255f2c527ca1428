"""Every preflight check of a job on a target, those that pass and those not made, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dflashctl.plan import words
from dflashctl.plan.deploy import plan_deploy
from dflashctl.plan.findings import Finding, Grade
from dflashctl.plan.look import probe_for
from dflashctl.plan.room import disk_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dflashctl.agent.seen import Observed
    from dflashctl.errors import Refusal
    from dflashctl.plan.model import Desired

# Which check a refusal of a plan belongs to, by its code.
_CHECKS = {
    "cannot_place": "files",
    "guarded": "checkpoints",
    "no_cwd": "run",
    "no_user": "run",
    "cannot_become_user": "run",
    "no_socket_folder": "tmux",
    "missing_imports": "interpreter",
    "python_unusable": "interpreter",
    "gpu_held": "GPUs free",
    "free_space": "room",
    "no_room": "room",
}
# What the look at the target itself says already, in `target_findings`.
_SAID = {
    "no_tmux": "tmux",
    "no_uvm": "uvm",
    "gpus_missing": "GPUs",
    "gpus_unresponsive": "GPUs",
    "gpus_unreadable": "GPUs",
}
_ORDER = ("state", "run", "files", "checkpoints", "interpreter", "GPUs free", "room")


def job_findings(
    desired: Desired, seen: Observed, of_target: tuple[Finding, ...]
) -> tuple[Finding, ...]:
    """What would make a deploy of the job fail, or do harm, there now.

    The plan is that of ``deploy --restart --clear-checkpoints``, which needs the most.
    ``of_target``: what is known of the target already; it is not said again.
    """
    clear = desired.playbook.checkpoints is not None
    plan = plan_deploy(desired, seen, restart=True, clear=clear, wait=True)
    known = {finding.check for finding in of_target if finding.grade == "problem"}
    refused: dict[str, list[Refusal]] = {}
    for refusal in plan.refusals:
        if _SAID.get(refusal.code) not in known:
            check = _CHECKS.get(refusal.code) or _SAID.get(refusal.code, refusal.code)
            refused.setdefault(check, []).append(refusal)
    found = [_state(seen), *_passed(desired, seen, refused)]
    for check, refusals in refused.items():
        # Nothing but --clear-checkpoints is hindered by a folder that is not to be cleared.
        grade: Grade = "warning" if check == "checkpoints" else "problem"
        found += [
            Finding(check=check, grade=grade, evidence=one.message, remedy=one.remedy)
            for one in refusals
        ]
    order = (*_ORDER, *refused)
    return tuple(sorted(found, key=lambda finding: order.index(finding.check)))


def _state(seen: Observed) -> Finding:
    if seen.lock is not None:
        evidence = f"{seen.state}; {seen.lock.who} is at work there since "
        evidence += words.moment(seen.lock.since)
        return Finding(
            check="state",
            grade="warning",
            evidence=evidence,
            remedy="wait until that is done",
        )
    if seen.cut is not None:
        remedy = "deploy or start again: it begins from what is there"
        evidence = words.cut_short(seen.cut)
        return Finding(check="state", grade="warning", evidence=evidence, remedy=remedy)
    return Finding(check="state", grade="ok", evidence=seen.state)


def _passed(
    desired: Desired, seen: Observed, refused: dict[str, list[Refusal]]
) -> Iterator[Finding]:
    """The checks that nothing was found against, and those that the playbook does not ask for."""
    playbook = desired.playbook
    run, store = playbook.run, seen.checkpoints
    if "run" not in refused:
        where = run.cwd if run is not None and run.cwd else "the home folder"
        who = run.user if run is not None and run.user else seen.user
        yield Finding(check="run", grade="ok", evidence=f"as {who}, in {where}")
    if "files" not in refused:
        evidence = f"{words.counted(len(desired.files), 'file')} can be put in place"
        yield Finding(check="files", grade="ok", evidence=evidence)
    if "checkpoints" not in refused:
        if store is None:
            evidence = "the playbook names no checkpoints.path"
            yield Finding(check="checkpoints", grade="unchecked", evidence=evidence)
        else:
            what = words.checkpoints(store) if store.entries else "none yet"
            evidence = f"{store.path}: {what}; can be cleared"
            yield Finding(check="checkpoints", grade="ok", evidence=evidence)
    if "interpreter" not in refused:
        probe = probe_for(playbook)
        if probe is None or seen.probe is None:
            evidence = "the playbook says nothing in preflight.python or preflight.imports"
            yield Finding(check="interpreter", grade="unchecked", evidence=evidence)
        else:
            imports = f", imports {words.listed(probe.imports)}" if probe.imports else ""
            evidence = f"{probe.python} is {seen.probe.version or 'there'}{imports}"
            yield Finding(check="interpreter", grade="ok", evidence=evidence)
    if "GPUs free" not in refused:
        yield _free(desired, seen)
    if "room" not in refused:
        yield _room(desired, seen)


def _free(desired: Desired, seen: Observed) -> Finding:
    gpus = seen.gpus
    if gpus is None or (gpus.status == "absent" and not gpus.devices):
        return Finding(check="GPUs free", grade="unchecked", evidence="there is no GPU")
    if desired.playbook.preflight.gpus == 0:
        evidence = "preflight.gpus: 0 says that the job uses none"
        return Finding(check="GPUs free", grade="unchecked", evidence=evidence)
    ours = sum(holder.ours for holder in gpus.holders)
    whose = f"{words.counted(ours, 'process')} of this job" if ours else "nobody"
    return Finding(check="GPUs free", grade="ok", evidence=f"held by {whose}")


def _room(desired: Desired, seen: Observed) -> Finding:
    store = desired.playbook.checkpoints
    path = store.path if store is not None else seen.state_dir
    disk = disk_for(path, seen)
    if disk is None:
        return Finding(check="room", grade="unchecked", evidence=f"no disk shows for {path}")
    wanted = desired.playbook.preflight.free_space
    asked = f"; {words.size(wanted)} asked for" if wanted is not None else ""
    evidence = f"{words.size(disk.free)} free on the disk of {path}{asked}"
    return Finding(check="room", grade="ok", evidence=evidence)
