from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dflashctl.agent.seen import DiskSeen, Observed
from dflashctl.errors import Internal
from dflashctl.inventory.model import Local, Target
from dflashctl.plan.deploy import plan_deploy
from dflashctl.plan.model import Desired, Plan
from dflashctl.plan.preflight import lacks
from dflashctl.playbook.model import PreflightSpec
from tests.plan.scenes import (
    BARE,
    BUSY,
    DEPLOYED,
    DESIRED,
    EMPTY,
    GB,
    GPUS,
    SCRIPT,
    SEVENTEEN,
    STRANGER,
    TRAIN,
    codes,
    gpu,
    placed,
    probe,
    with_playbook,
    with_run,
)

PROBING = with_playbook(
    preflight=PreflightSpec(gpus=8, python="/root/venv/bin/python", imports=("torch",))
)


def deploy(seen: Observed, desired: Desired = DESIRED) -> Plan:
    return plan_deploy(desired, seen, restart=True, clear=False, wait=True)


def only_refusal(seen: Observed, desired: Desired = DESIRED) -> tuple[str, str]:
    plan = deploy(seen, desired)
    assert len(plan.refusals) == 1, plan.refusals
    assert plan.refusals[0].remedy
    return plan.refusals[0].code, plan.refusals[0].message


def test_a_target_in_order_gives_no_refusal() -> None:
    for seen in (BARE, DEPLOYED, BUSY):
        assert deploy(seen).refusals == ()


@pytest.mark.provokes("refused.no_tmux")
def test_no_tmux() -> None:
    seen = replace(BARE, tmux=None)
    assert only_refusal(seen)[0] == "no_tmux"
    assert (lacks(seen), lacks(BARE)) == ("tmux", None)


@pytest.mark.provokes(
    "refused.gpu_held",
    "refused.gpus_missing",
    "refused.gpus_unreadable",
    "refused.gpus_unresponsive",
    "refused.no_uvm",
)
@pytest.mark.parametrize(
    ("gpus", "code", "words"),
    [
        (replace(GPUS, gpus=GPUS.gpus[:7]), "gpus_missing", "7 GPUs there, 8 wanted"),
        (replace(GPUS, status="absent", gpus=(), uvm=False), "gpus_missing", "no GPU there"),
        (
            replace(GPUS, status="unresponsive", gpus=()),
            "gpus_unresponsive",
            "a restart could not get the GPUs",
        ),
        (
            replace(GPUS, status="unreadable", gpus=(), error="Failed to initialize NVML"),
            "gpus_unreadable",
            "Failed to initialize NVML",
        ),
        (replace(GPUS, uvm=False), "no_uvm", "/dev/nvidia-uvm is missing"),
        (
            replace(GPUS, holders=(STRANGER,)),
            "gpu_held",
            "python3 (pid 31337, user eve) holds /dev/nvidia0, /dev/nvidia1",
        ),
    ],
)
def test_gpus_that_a_new_run_would_not_get(gpus: Any, code: str, words: str) -> None:
    for seen in (replace(BARE, gpus=gpus), replace(BUSY, gpus=gpus)):
        found, message = only_refusal(seen)
        assert found == code
        assert words in message


def test_our_own_processes_may_hold_the_gpus() -> None:
    ours = replace(STRANGER, ours=True)
    assert deploy(replace(BUSY, gpus=replace(GPUS, holders=(ours,)))).refusals == ()


def test_memory_with_no_holder_in_sight_is_held_from_outside() -> None:
    held = replace(GPUS, gpus=(*GPUS.gpus[:7], gpu(7, used_mib=70_000)))
    code, message = only_refusal(replace(BARE, gpus=held))
    assert code == "gpu_held"
    assert message == ("memory of GPU 7 (70000 MiB) is held by something outside this container")
    assert deploy(replace(BUSY, gpus=held)).refusals == ()


def test_the_inventorys_number_of_gpus_holds_where_the_playbook_names_none() -> None:
    silent = with_playbook(preflight=PreflightSpec())
    assert only_refusal(replace(BARE, gpus=replace(GPUS, gpus=GPUS.gpus[:7])), silent)[0] == (
        "gpus_missing"
    )


def test_strangers_are_refused_even_where_no_number_of_gpus_is_named() -> None:
    desired = replace(
        with_playbook(preflight=PreflightSpec()), target=Target(name="here", route=Local())
    )
    nothing = replace(GPUS, status="absent", gpus=(), uvm=False)
    assert deploy(replace(BARE, gpus=nothing), desired).refusals == ()
    assert only_refusal(replace(BARE, gpus=replace(GPUS, holders=(STRANGER,))), desired)[0] == (
        "gpu_held"
    )


def test_a_job_that_wants_no_gpu_does_not_mind_them() -> None:
    desired = with_playbook(preflight=PreflightSpec(gpus=0))
    for gpus in (None, replace(GPUS, status="unresponsive", gpus=(), holders=(STRANGER,))):
        assert deploy(replace(BARE, gpus=gpus), desired).refusals == ()


@pytest.mark.provokes("refused.free_space")
def test_too_little_free_space_for_the_run() -> None:
    full = (*BARE.disks[:2], DiskSeen(path="/workspace/checkpoints", free=3 * GB, total=9 * GB))
    code, message = only_refusal(replace(BARE, disks=full))
    assert code == "free_space"
    assert message == (
        "3.0 GB are free on the disk of /workspace/checkpoints,"
        " and preflight.free_space wants 20.0 GB"
    )


def test_free_space_is_asked_of_the_working_directory_without_checkpoints() -> None:
    desired = with_playbook(checkpoints=None)
    full = (BARE.disks[0], DiskSeen(path="/root", free=3 * GB, total=9 * GB))
    seen = replace(BARE, checkpoints=None, disks=full)
    assert "the disk of /root," in only_refusal(seen, desired)[1]


def test_free_space_is_asked_of_the_home_without_either() -> None:
    desired = replace(with_run(cwd=None))
    desired = replace(desired, playbook=replace(desired.playbook, checkpoints=None))
    state = DiskSeen(path="/root/.local/state/dflashctl", free=3 * GB, total=9 * GB)
    seen = replace(BARE, checkpoints=None, disks=(state,))
    assert "/root/.local/state/dflashctl" in only_refusal(seen, desired)[1]


@pytest.mark.provokes("refused.no_room")
def test_files_need_room_twice_where_records_are_and_once_in_place() -> None:
    one_disk = tuple(replace(disk, free=8 * GB, total=9 * GB) for disk in BARE.disks)
    for size, expected in ((2 * GB, []), (3 * GB, ["no_room"])):
        big = replace(TRAIN, size=size)
        desired = replace(with_playbook(preflight=PreflightSpec(gpus=8)), files=(big, SCRIPT))
        assert codes(deploy(replace(BARE, disks=one_disk), desired)) == expected


def test_a_start_needs_room_for_its_records_even_if_no_file_is_sent() -> None:
    full = tuple(replace(disk, free=0) for disk in DEPLOYED.disks)
    desired = with_playbook(preflight=PreflightSpec(gpus=8))
    assert codes(deploy(replace(DEPLOYED, disks=full), desired)) == ["no_room"]


def test_each_disk_is_reckoned_by_itself() -> None:
    big = replace(TRAIN, size=3 * GB, dest="/opt/train.py")
    desired = replace(with_playbook(preflight=PreflightSpec(gpus=8)), files=(big,))
    seen = replace(
        BARE,
        files=(placed(big, sha256=None, stored=False),),
        disks=(
            DiskSeen(path="/root/.local/state/dflashctl", free=7 * GB, total=9 * GB),
            DiskSeen(path="/opt/train.py", free=2 * GB, total=8 * GB),
        ),
    )
    assert only_refusal(seen, desired) == (
        "no_room",
        "files and records need 3.0 GB on the disk of /opt/train.py, where 2.0 GB are free",
    )


@pytest.mark.provokes("refused.cannot_place")
@pytest.mark.parametrize(
    ("problem", "words"),
    [
        ("directory", "a directory is in its place"),
        ("not_a_file", "a device, socket or pipe is in its place"),
        ("unwritable", "no permission to write there"),
        ("no_parent", "what should be its directory is none"),
    ],
)
def test_a_file_that_cannot_be_put_in_place(problem: str, words: str) -> None:
    bad = placed(TRAIN, sha256=None, mode=None, problem=problem, real_dest="/mnt/train.py")
    code, message = only_refusal(replace(DEPLOYED, files=(bad, placed(SCRIPT))))
    assert code == "cannot_place"
    assert message == (f"/root/train.py (really /mnt/train.py) cannot be put in place: {words}")


def test_a_place_that_needs_no_writing_may_be_unwritable() -> None:
    seen = replace(DEPLOYED, files=(placed(TRAIN, problem="unwritable"), placed(SCRIPT)))
    assert deploy(seen).refusals == ()


def test_every_problem_is_told_at_once() -> None:
    bad = tuple(
        placed(file, sha256=None, mode=None, problem="unwritable") for file in (TRAIN, SCRIPT)
    )
    plan = deploy(replace(BARE, files=bad, tmux=None, problems=("no_cwd",)))
    assert codes(plan) == ["cannot_place", "cannot_place", "no_tmux", "no_cwd"]


@pytest.mark.provokes(
    "refused.cannot_become_user", "refused.no_cwd", "refused.no_socket_folder", "refused.no_user"
)
@pytest.mark.parametrize(
    ("problem", "words"),
    [
        ("no_cwd", "the working directory /root does not exist"),
        ("no_user", "there is no user trainer on the target"),
        ("cannot_become_user", "root may not start a run as trainer"),
        ("something_new", "something_new"),
    ],
)
def test_surroundings_that_a_run_cannot_start_in(problem: str, words: str) -> None:
    seen = replace(BARE, problems=(problem,))
    assert only_refusal(seen, with_run(user="trainer")) == (problem, words)


@pytest.mark.provokes("refused.guarded")
@pytest.mark.parametrize(
    ("problem", "words"),
    [
        ("root", "it is the root of the filesystem"),
        ("home", "it is a home directory"),
        ("short", "it has fewer than two components"),
        ("holds_state", "it holds dflashctl's own records"),
        ("holds_files", "it holds files that the playbook puts in place"),
        ("not_a_directory", "it is not a directory"),
        ("unwritable", "no permission to move what is in it"),
    ],
)
def test_a_path_that_is_not_to_be_cleared(problem: str, words: str) -> None:
    for folder in (SEVENTEEN, EMPTY, replace(EMPTY, exists=False)):
        seen = replace(BUSY, checkpoints=replace(folder, problem=problem, real_path="/data"))
        plan = plan_deploy(DESIRED, seen, restart=True, clear=True, wait=True)
        assert codes(plan) == ["guarded"]
        assert plan.refusals[0].message == (
            f"/workspace/checkpoints, really /data, is not cleared: {words}"
        )
        assert deploy(seen).refusals == ()


def test_an_interpreter_that_works_and_has_all_modules() -> None:
    assert deploy(replace(BARE, probe=probe()), PROBING).refusals == ()


@pytest.mark.provokes("refused.missing_imports")
def test_modules_that_cannot_be_imported() -> None:
    seen = replace(BARE, probe=probe(missing=("torch (ModuleNotFoundError)",)))
    assert only_refusal(seen, PROBING) == (
        "missing_imports",
        "/root/venv/bin/python cannot import torch (ModuleNotFoundError)",
    )


@pytest.mark.provokes("refused.python_unusable")
@pytest.mark.parametrize(
    ("problem", "words"),
    [
        ("not_found", "there is no such program"),
        ("not_executable", "it may not be executed"),
        ("timeout", "it does not get ready in time"),
        ("fails", "it ends with an error"),
    ],
)
def test_an_interpreter_that_cannot_be_used(problem: str, words: str) -> None:
    code, message = only_refusal(replace(BARE, probe=probe(problem=problem)), PROBING)
    assert code == "python_unusable"
    assert message == f"/root/venv/bin/python cannot be used: {words}"


def test_a_look_that_left_something_out_is_a_fault_and_no_consent() -> None:
    with pytest.raises(Internal):
        deploy(BARE, PROBING)
    with pytest.raises(Internal):
        deploy(replace(BARE, gpus=None))


def test_beside_a_running_job_only_the_files_matter() -> None:
    seen = replace(BUSY, gpus=replace(GPUS, status="unresponsive", gpus=()), tmux=None)
    plan = plan_deploy(DESIRED, seen, restart=False, clear=False, wait=True)
    assert plan.refusals == ()
