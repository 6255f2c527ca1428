from __future__ import annotations

from dataclasses import replace

import pytest

from dflashctl.agent.keeping import ClearCheckpoints
from dflashctl.agent.protocol import (
    PlaceFiles,
    Receive,
    StartRun,
    StopRun,
    VerifyRun,
)
from dflashctl.agent.seen import CheckpointsSeen, CutTransaction, Observed, State
from dflashctl.errors import Internal, MissingSetting
from dflashctl.plan.deploy import plan_deploy
from dflashctl.plan.model import Desired, Plan
from tests.plan.scenes import (
    ADOPTED,
    BARE,
    BUSY,
    BY_HAND,
    DEPLOYED,
    DESIRED,
    EMPTY,
    OVER,
    RUN_ID,
    RUNNING,
    SCRIPT,
    SESSION,
    SEVENTEEN,
    TRAIN,
    action,
    actions,
    codes,
    placed,
    said,
    with_playbook,
    with_run,
)

RESUMING = with_run(resume=("bash", "/root/start.sh", "--resume", "latest"))


def deploy(seen: Observed, desired: Desired = DESIRED) -> Plan:
    return plan_deploy(desired, seen, restart=False, clear=False, wait=True)


def restart(seen: Observed, desired: Desired = DESIRED, *, clear: bool = False) -> Plan:
    return plan_deploy(desired, seen, restart=True, clear=clear, wait=True)


def test_a_first_deploy_sends_places_starts_and_verifies() -> None:
    plan = deploy(BARE)
    assert actions(plan) == ["Receive", "PlaceFiles", "StartRun", "VerifyRun"]
    assert (plan.refusals, plan.run_id) == ((), RUN_ID)


def test_the_main_job_stops_clears_places_and_starts_in_that_order() -> None:
    plan = restart(BUSY, clear=True)
    assert actions(plan) == [
        "Receive", "StopRun", "ClearCheckpoints", "PlaceFiles", "StartRun", "VerifyRun",
    ]  # fmt: skip
    assert plan.refusals == ()


def test_each_step_says_what_it_does_and_why() -> None:
    plan = restart(BUSY, clear=True)
    assert [(step.what, step.why) for step in plan.steps] == [
        ("send 1 file (2.0 kB)", "not kept on the target yet; checked by SHA-256"),
        (
            "stop run 2026-11-28T0900Z-dflash-a2b3 (pid 4242)",
            "--restart; INT, after 120 s TERM, then KILL",
        ),
        (
            "clear /workspace/checkpoints: 17 checkpoints (41.2 GB, newest step 3400)",
            (
                "--clear-checkpoints; moved to /workspace/.checkpoints.dflashctl-trash,"
                " nothing is deleted"
            ),
        ),
        ("put /root/train.py in place", "different there"),
        (f"start run {RUN_ID} in tmux session dflash: bash /root/start.sh", "--restart"),
        (
            "check that it lives for 10 s and has PYTORCH_CUDA_ALLOC_CONF, WANDB_API_KEY (secret)",
            "ready.alive_for",
        ),
    ]


def test_a_running_job_is_left_alone_without_restart() -> None:
    plan = deploy(BUSY)
    assert actions(plan) == ["Receive", "PlaceFiles"]
    assert plan.notes == ("dflash keeps running the old files; --restart applies them",)
    assert (plan.refusals, plan.run_id) == ((), None)


def test_with_the_files_in_place_and_the_job_running_there_is_nothing_to_do() -> None:
    plan = deploy(replace(BUSY, files=DEPLOYED.files))
    assert plan.steps == ()
    assert plan.notes == (
        "dflash keeps running, and its files are in place; --restart starts it anew",
    )


def test_a_hand_started_session_is_left_alone_without_restart() -> None:
    plan = deploy(ADOPTED)
    assert actions(plan) == ["Receive", "PlaceFiles"]
    assert plan.notes[-1] == (
        "the hand-started session dflash (pid 777) is left alone; --restart replaces it, too"
    )


def test_a_hand_started_session_is_stopped_like_any_other_on_restart() -> None:
    plan = restart(ADOPTED)
    stop = action(plan, StopRun)
    assert (stop.session, stop.run_id) == ("dflash", None)
    assert said(plan, StopRun)[0] == "stop the hand-started session dflash (pid 777)"


def test_an_orphaned_run_is_stopped_on_restart() -> None:
    orphan = replace(RUNNING, state="ORPHANED")
    plan = restart(replace(BUSY, state="ORPHANED", run=orphan, session=None))
    assert action(plan, StopRun).run_id == orphan.id
    assert "its session or supervisor is gone" in said(plan, StopRun)[0]


def test_an_orphaned_run_and_a_hand_started_session_are_both_stopped() -> None:
    orphan = replace(RUNNING, state="ORPHANED")
    plan = restart(replace(BUSY, state="ORPHANED", run=orphan, session=BY_HAND))
    stops = [step.action for step in plan.steps if isinstance(step.action, StopRun)]
    assert [(stop.session, stop.run_id) for stop in stops] == [
        ("dflash", orphan.id),
        ("dflash", None),
    ]


def test_a_run_under_an_earlier_session_name_is_stopped_there() -> None:
    renamed = with_playbook(session="dflash-2")
    plan = restart(replace(BUSY, session=None), renamed)
    assert action(plan, StopRun).session == "dflash"
    assert action(plan, StartRun).session == "dflash-2"


def test_a_session_left_over_from_an_ended_run_makes_room_for_the_new_one() -> None:
    plan = deploy(replace(OVER, session=SESSION))
    assert actions(plan) == ["StopRun", "StartRun", "VerifyRun"]
    assert said(plan, StopRun)[0] == "stop the session dflash (pid 4240), whose run is over"


@pytest.mark.parametrize("state", ["STOPPED", "FINISHED", "FAILED"])
def test_what_ended_is_started_again_without_restart(state: State) -> None:
    assert OVER.run
    over = replace(OVER, state=state, run=replace(OVER.run, state=state))
    assert actions(deploy(over)) == ["StartRun", "VerifyRun"]


def test_after_a_cut_transaction_what_really_runs_counts() -> None:
    cut = CutTransaction(id="t-1", step="StopRun", at=1_795_860_000.0, who="bob@lap")
    still_running = replace(BUSY, state="INTERRUPTED", cut=cut)
    gone = replace(OVER, state="INTERRUPTED", cut=cut)
    assert "StopRun" in actions(restart(still_running))
    assert "StartRun" not in actions(deploy(still_running))
    assert actions(deploy(gone)) == ["StartRun", "VerifyRun"]
    assert deploy(gone).notes[0] == (
        "what bob@lap began was cut short on 2026-11-28 10:00 UTC while stopping the run"
    )


def test_only_what_is_not_kept_is_sent_and_only_what_differs_is_placed() -> None:
    seen = replace(BARE, files=(placed(TRAIN, mode=0o600), placed(SCRIPT, stored=False)))
    plan = deploy(seen)
    assert action(plan, Receive).files == (SCRIPT,)
    assert action(plan, PlaceFiles).files == (TRAIN,)


def test_the_same_content_for_two_places_is_sent_once() -> None:
    twin = replace(TRAIN, dest="/root/copy.py")
    desired = replace(DESIRED, files=(TRAIN, twin))
    seen = replace(
        BARE,
        files=(placed(TRAIN, sha256=None, stored=False),) * 1
        + (placed(twin, sha256=None, stored=False),),
    )
    plan = deploy(seen, desired)
    assert len(action(plan, Receive).files) == 1
    assert action(plan, PlaceFiles).files == (TRAIN, twin)


def test_the_run_is_started_as_the_playbook_says() -> None:
    plan = deploy(BARE)
    start, verify = action(plan, StartRun), action(plan, VerifyRun)
    assert start.run_id == verify.run_id == RUN_ID
    assert start.command == ("bash", "/root/start.sh")
    assert (start.cwd, start.user, start.env_base) == ("/root", None, "login")
    assert start.env == {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    assert start.secrets == {"WANDB_API_KEY": "not to be seen"}
    assert start.release == (TRAIN, SCRIPT)
    assert (start.signal, start.grace_s) == ("INT", 120.0)
    assert start.exit_codes == {"75": "interrupted"}
    assert verify.alive_for_s == 10.0


def test_no_word_of_a_plan_shows_a_secret() -> None:
    plan = restart(BUSY, clear=True)
    text = " ".join([*plan.notes, *(f"{step.what} {step.why}" for step in plan.steps)])
    assert "not to be seen" not in text
    assert "not to be seen" not in repr(DESIRED)
    assert "not to be seen" not in repr(plan)


def test_without_waiting_the_start_alone_is_verified() -> None:
    plan = plan_deploy(DESIRED, BARE, restart=False, clear=False, wait=False)
    assert action(plan, VerifyRun).alive_for_s == 0
    assert said(plan, VerifyRun)[1] == "--no-wait"


@pytest.mark.provokes("refused.clear_while_running")
def test_clearing_under_a_running_job_is_refused() -> None:
    plan = plan_deploy(DESIRED, BUSY, restart=False, clear=True, wait=True)
    assert codes(plan) == ["clear_while_running"]
    assert "--restart" in plan.refusals[0].remedy
    assert "ClearCheckpoints" not in actions(plan)


def test_the_resolved_path_is_the_one_cleared_and_shown() -> None:
    seen = replace(BUSY, checkpoints=replace(SEVENTEEN, real_path="/data/ck"))
    plan = restart(seen, clear=True)
    clear = action(plan, ClearCheckpoints)
    assert (clear.path, clear.real_path) == ("/workspace/checkpoints", "/data/ck")
    what, why = said(plan, ClearCheckpoints)
    assert "(really /data/ck)" in what
    assert "/data/.ck.dflashctl-trash" in why


def test_a_mount_point_keeps_its_trash_inside() -> None:
    seen = replace(BUSY, checkpoints=replace(SEVENTEEN, mount_point=True))
    assert (
        "/workspace/checkpoints/.dflashctl-trash"
        in said(restart(seen, clear=True), ClearCheckpoints)[1]
    )


@pytest.mark.parametrize(
    ("folder", "note"),
    [
        (EMPTY, "nothing to clear: /workspace/checkpoints is empty"),
        (
            replace(EMPTY, exists=False),
            "nothing to clear: /workspace/checkpoints does not exist",
        ),
    ],
)
def test_with_nothing_to_clear_a_note_says_so(folder: CheckpointsSeen, note: str) -> None:
    plan = restart(replace(DEPLOYED, checkpoints=folder), clear=True)
    assert "ClearCheckpoints" not in actions(plan)
    assert note in plan.notes


def test_an_empty_folder_is_cleared_while_something_lives_that_may_yet_save() -> None:
    plan = restart(replace(BUSY, checkpoints=EMPTY), clear=True)
    assert actions(plan).index("StopRun") < actions(plan).index("ClearCheckpoints")


def test_checkpoints_that_stay_are_gone_on_from_if_the_playbook_knows_how() -> None:
    plan = restart(BUSY, RESUMING)
    assert action(plan, StartRun).command == RESUMING.playbook.run.resume  # type: ignore[union-attr]  # it has one
    (note,) = plan.notes
    assert note == (
        "in /workspace/checkpoints stays: 17 checkpoints (41.2 GB, newest step 3400);"
        " the new run goes on from there (run.resume)"
    )


def test_checkpoints_that_stay_are_named_if_the_playbook_has_no_resume() -> None:
    plan = restart(BUSY)
    assert action(plan, StartRun).command == ("bash", "/root/start.sh")
    assert plan.notes[0].endswith("; deploy --clear-checkpoints moves it away")


@pytest.mark.parametrize("clear", [True, False])
def test_after_a_clear_or_without_checkpoints_the_run_begins_anew(clear: bool) -> None:
    seen = BUSY if clear else replace(BUSY, checkpoints=EMPTY)
    assert action(restart(seen, RESUMING, clear=clear), StartRun).command == (
        "bash", "/root/start.sh",
    )  # fmt: skip


def test_a_playbook_without_run_or_checkpoints_says_what_is_missing() -> None:
    with pytest.raises(MissingSetting) as missing:
        deploy(BARE, with_playbook(run=None))
    assert (missing.value.verb, missing.value.setting) == ("deploy", "run")
    with pytest.raises(MissingSetting) as missing:
        restart(replace(BUSY, checkpoints=None), with_playbook(checkpoints=None), clear=True)
    assert missing.value.setting == "checkpoints.path"


def test_a_look_without_the_files_is_a_fault_and_no_plan() -> None:
    with pytest.raises(Internal):
        deploy(replace(BARE, files=()))


def test_a_running_job_with_another_command_or_environment_is_told() -> None:
    changed = with_run(command=("bash", "/root/other.sh"))
    plan = plan_deploy(changed, BUSY, restart=False, clear=False, wait=True)
    assert "keeps running another command" in plan.notes[0]
    changed = with_run(env={"PYTORCH_CUDA_ALLOC_CONF": "other"})
    plan = plan_deploy(changed, BUSY, restart=False, clear=False, wait=True)
    assert "keeps running in another environment" in plan.notes[0]
