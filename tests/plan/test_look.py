from __future__ import annotations

from dataclasses import replace

from dflashctl.agent.keeping import StoreSpec
from dflashctl.agent.protocol import Look, Probe
from dflashctl.plan.look import look_before_start, look_for
from dflashctl.playbook.model import PreflightSpec
from tests.plan.scenes import DESIRED, SCRIPT, TARGET, TRAIN, with_playbook, with_run

CHEAP = Look(
    job="dflash",
    session="dflash",
    checkpoints=StoreSpec(path="/workspace/checkpoints"),
    exit_codes={"75": "interrupted"},
)


def test_the_cheap_look_leaves_files_and_preflight_out() -> None:
    assert look_for(DESIRED) == CHEAP


def test_those_who_show_no_gpus_do_not_wait_for_them() -> None:
    assert look_for(DESIRED, gpus=False) == replace(CHEAP, gpus=False)


def test_the_look_before_a_start_has_files_folder_and_user_too() -> None:
    assert look_before_start(with_run(user="trainer")) == replace(
        CHEAP, files=(TRAIN, SCRIPT), cwd="/root", user="trainer"
    )


def test_the_targets_own_tmux_socket_is_looked_at() -> None:
    desired = replace(DESIRED, target=replace(TARGET, tmux_socket="/run/demo.sock"))
    assert look_for(desired).tmux_socket == "/run/demo.sock"


def test_a_playbook_with_nothing_but_a_name_can_be_looked_for() -> None:
    desired = replace(with_playbook(run=None, checkpoints=None, files=()), files=())
    bare = Look(job="dflash", session="dflash")
    assert look_for(desired) == bare
    assert look_before_start(desired) == bare


def test_an_interpreter_is_probed_when_the_playbook_asks_for_it() -> None:
    run = with_playbook().playbook.run
    assert run
    declared = run.env | {"PYTHONPATH": "/opt/torch"}
    probe = Probe(python="/venv/bin/python", imports=(), env=declared)
    for spec, expected in (
        (PreflightSpec(), None),
        (PreflightSpec(python="/venv/bin/python"), probe),
        (PreflightSpec(imports=("numpy",)), replace(probe, python="python3", imports=("numpy",))),
    ):
        desired = with_playbook(preflight=spec, run=replace(run, env=declared))
        assert look_before_start(desired).probe == expected
