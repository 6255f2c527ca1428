"""Every check of a job: what is refused is a problem, and nothing is said twice."""

from __future__ import annotations

from dataclasses import replace

from dflashctl.agent.seen import LockSeen, Observed
from dflashctl.plan.diagnosis import job_findings
from dflashctl.plan.findings import Finding, target_findings
from dflashctl.playbook.model import PreflightSpec
from tests.plan.scenes import BARE, DESIRED, GB, SCRIPT, STRANGER, TRAIN, placed

READY = replace(BARE, files=(placed(TRAIN), placed(SCRIPT)))


def found(seen: Observed) -> dict[str, Finding]:
    of_target = target_findings(DESIRED.target, seen, 0.0)
    findings = (*of_target, *job_findings(DESIRED, seen, of_target))
    assert len({one.check for one in findings}) == len(findings)
    return {one.check: one for one in findings}


def test_where_all_is_well_no_check_is_left_out():
    checks = found(READY)
    names = ("state", "run", "files", "checkpoints", "interpreter", "GPUs free", "room")
    assert tuple(checks)[-len(names) :] == names
    assert not {one.grade for one in checks.values()} & {"problem", "warning"}
    assert "20.0 GB asked for" in checks["room"].evidence


def test_what_preflight_refuses_is_a_problem_with_its_remedy():
    assert READY.gpus is not None
    seen = replace(
        READY,
        gpus=replace(READY.gpus, holders=(STRANGER,)),
        problems=("no_cwd",),
        files=(placed(TRAIN, problem="directory", sha256=None), placed(SCRIPT)),
        disks=tuple(replace(disk, free=GB) for disk in READY.disks),
    )
    checks = found(seen)
    for name in ("GPUs free", "run", "files", "room"):
        assert (checks[name].grade, bool(checks[name].remedy)) == ("problem", True)


def test_a_guarded_folder_only_hinders_clearing():
    assert READY.checkpoints is not None
    seen = replace(READY, checkpoints=replace(READY.checkpoints, problem="home", entries=1))
    assert found(seen)["checkpoints"].grade == "warning"


def test_too_few_gpus_are_said_once():
    assert READY.gpus is not None
    checks = found(replace(READY, gpus=replace(READY.gpus, gpus=READY.gpus.gpus[:2])))
    assert checks["GPUs"].grade == "problem"


def test_gpus_that_the_job_alone_asks_for_are_told():
    job = replace(DESIRED.playbook, preflight=PreflightSpec(gpus=16))
    findings = job_findings(replace(DESIRED, playbook=job), READY, ())
    assert {one.check: one.grade for one in findings}["GPUs"] == "problem"


def test_a_transaction_at_work_is_a_warning():
    lock = LockSeen(who="ann@desk", since=1_795_856_400.0, transaction="t-1")
    checks = found(replace(READY, lock=lock))
    assert checks["state"].grade == "warning"
    assert "ann@desk" in checks["state"].evidence
