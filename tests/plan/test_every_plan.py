"""What holds for every plan, whatever is observed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dflashctl.agent.keeping import ClearCheckpoints
from dflashctl.agent.protocol import (
    PlaceFiles,
    Receive,
    StartRun,
    StopRun,
    VerifyRun,
)
from dflashctl.agent.seen import CutTransaction, DiskSeen, Observed
from dflashctl.plan.deploy import plan_deploy
from dflashctl.plan.model import Desired, Plan
from dflashctl.plan.start import plan_start
from dflashctl.plan.steps import lives
from dflashctl.plan.stop import plan_stop
from dflashctl.playbook.model import CheckpointSpec
from tests.plan.scenes import (
    BARE,
    BY_HAND,
    DESIRED,
    FAILED,
    GB,
    GPUS,
    RUNNING,
    SCRIPT,
    SESSION,
    SEVENTEEN,
    STRANGER,
    TRAIN,
    placed,
    with_run,
)

RUN_STATES = ("STARTING", "RUNNING", "ORPHANED", "STOPPED", "FINISHED", "FAILED")
PROBLEMS = (None, "home", "short", "holds_state", "not_a_directory", "unwritable")
CUT = CutTransaction(id="t-1", step="StartRun", at=1_795_860_000.0, who="bob@lap")

runs = st.none() | st.builds(
    lambda state, session: replace(
        RUNNING if state in ("STARTING", "RUNNING", "ORPHANED") else FAILED,
        state=state,
        session=session,
    ),
    st.sampled_from(RUN_STATES),
    st.sampled_from(["dflash", "earlier-name"]),
)
sessions = st.sampled_from([None, SESSION, BY_HAND])
folders = st.none() | st.builds(
    lambda exists, count, problem, mount: replace(
        SEVENTEEN,
        exists=exists,
        entries=count if exists else 0,
        count=count if exists else 0,
        complete=count if exists else 0,
        problem=problem,
        mount_point=mount,
    ),
    st.booleans(),
    st.integers(0, 3),
    st.sampled_from(PROBLEMS),
    st.booleans(),
)
files = st.tuples(
    *(
        st.builds(
            lambda sha256, mode, stored, problem, file=file: placed(
                file, sha256=sha256, mode=mode, stored=stored, problem=problem
            ),
            st.sampled_from([None, file.sha256, "d" * 64]),
            st.sampled_from([None, file.mode, 0o600]),
            st.booleans(),
            st.sampled_from([None, None, "directory", "unwritable"]),
        )
        for file in (TRAIN, SCRIPT)
    )
)
gpus = st.builds(
    lambda status, count, uvm, holders: replace(
        GPUS, status=status, gpus=GPUS.gpus[:count], uvm=uvm, holders=holders
    ),
    st.sampled_from(["ok", "ok", "unresponsive", "unreadable", "absent"]),
    st.sampled_from([0, 7, 8]),
    st.booleans(),
    st.sampled_from([(), (STRANGER,), (replace(STRANGER, ours=True),)]),
)
disks = st.lists(
    st.builds(
        lambda path, free: DiskSeen(path=path, free=free, total=9000 * GB),
        st.sampled_from(["/", "/root", "/root/.local/state/dflashctl", "/workspace/checkpoints"]),
        st.sampled_from([0, 3 * GB, 900 * GB]),
    ),
    max_size=4,
).map(tuple)


@st.composite
def sights(draw: st.DrawFn) -> Observed:
    """A target as it may be found, the odd and the contradictory included."""
    parts: dict[str, Any] = {
        "run": draw(runs),
        "session": draw(sessions),
        "checkpoints": draw(folders.filter(lambda folder: folder is not None)),
        "files": draw(files),
        "gpus": draw(gpus),
        "disks": draw(disks),
        "tmux": draw(st.sampled_from([None, "tmux 3.5a"])),
        "cut": draw(st.sampled_from([None, CUT])),
        "problems": draw(st.sampled_from([(), ("no_cwd",)])),
        "state": draw(st.sampled_from(["NONE", "RUNNING", "ADOPTED", "INTERRUPTED", "STOPPED"])),
    }
    return replace(BARE, **parts)


KEPT = CheckpointSpec(path="/workspace/checkpoints", archive_to="/workspace/archive")
jobs = st.sampled_from([DESIRED, with_run(resume=("resume",)), replace(DESIRED, secrets={})]).map(
    lambda job: replace(job, playbook=replace(job.playbook, checkpoints=KEPT))
)
flags = st.fixed_dictionaries(
    {
        **{name: st.booleans() for name in ("restart", "clear", "wait")},
        "archive": st.sampled_from([None, "before"]),
    }
)


def places(plan: Plan, kind: type[Any]) -> list[int]:
    return [n for n, step in enumerate(plan.steps) if isinstance(step.action, kind)]


@given(jobs, sights(), flags)
def test_what_lives_is_stopped_before_anything_is_cleared_placed_anew_or_started(
    desired: Desired, seen: Observed, flags: dict[str, Any]
) -> None:
    plan = plan_deploy(desired, seen, **flags)
    stops, starts, clears = (
        places(plan, StopRun),
        places(plan, StartRun),
        places(plan, ClearCheckpoints),
    )
    if lives(seen) and (starts or clears):
        assert stops
    for later in (*starts, *clears):
        assert all(stop < later for stop in stops)
    if starts and seen.session is not None:
        assert seen.session.name in {
            step.action.session for step in plan.steps if isinstance(step.action, StopRun)
        }


@given(jobs, sights(), flags)
def test_without_restart_what_lives_is_neither_stopped_nor_started_nor_cleared(
    desired: Desired, seen: Observed, flags: dict[str, Any]
) -> None:
    plan = plan_deploy(desired, seen, **{**flags, "restart": False})
    if lives(seen):
        assert not places(plan, StopRun) + places(plan, StartRun) + places(plan, ClearCheckpoints)
        assert plan.run_id is None
        assert plan.notes
        if flags["clear"]:
            assert "clear_while_running" in {refusal.code for refusal in plan.refusals}


@given(jobs, sights(), flags)
def test_checkpoints_are_cleared_only_when_asked_and_a_guarded_path_never(
    desired: Desired, seen: Observed, flags: dict[str, Any]
) -> None:
    plan = plan_deploy(desired, seen, **flags)
    if places(plan, ClearCheckpoints):
        assert flags["clear"]
        assert seen.checkpoints
        guarded = "guarded" in {refusal.code for refusal in plan.refusals}
        assert guarded == (seen.checkpoints.problem is not None)


@given(jobs, sights(), flags)
def test_a_start_is_always_verified_and_has_all_its_files_in_place(
    desired: Desired, seen: Observed, flags: dict[str, Any]
) -> None:
    plan = plan_deploy(desired, seen, **flags)
    starts = places(plan, StartRun)
    assert [n + 1 for n in starts] == places(plan, VerifyRun)
    assert plan.run_id == (desired.run_id if starts else None)
    sent = {f for step in plan.steps if isinstance(step.action, Receive) for f in step.action.files}
    put = {
        f for step in plan.steps if isinstance(step.action, PlaceFiles) for f in step.action.files
    }
    for wanted, there in zip(desired.files, seen.files, strict=True):
        assert (wanted in put) == ((there.sha256, there.mode) != (wanted.sha256, wanted.mode))
        assert (wanted in sent) == (not there.stored)


@given(jobs, sights(), flags)
def test_a_run_that_could_not_get_its_gpus_or_its_session_is_never_let_through(
    desired: Desired, seen: Observed, flags: dict[str, Any]
) -> None:
    plan = plan_deploy(desired, seen, **flags)
    if places(plan, StartRun) and not plan.refusals:
        assert seen.tmux
        assert seen.gpus
        assert (seen.gpus.status, len(seen.gpus.gpus), seen.gpus.uvm) == ("ok", 8, True)
        assert all(holder.ours for holder in seen.gpus.holders)
        assert not seen.problems


@given(jobs, sights(), flags)
def test_the_same_sight_gives_the_same_plan_and_every_step_its_reason(
    desired: Desired, seen: Observed, flags: dict[str, Any]
) -> None:
    plan = plan_deploy(desired, seen, **flags)
    assert plan == plan_deploy(desired, seen, **flags)
    assert all(step.what and step.why for step in plan.steps)
    assert all(refusal.message and refusal.remedy for refusal in plan.refusals)


@given(jobs, sights())
def test_stop_stops_what_lives_and_start_starts_only_where_nothing_does(
    desired: Desired, seen: Observed
) -> None:
    stop, start = plan_stop(desired, seen), plan_start(desired, seen, wait=True)
    assert bool(stop.steps) == lives(seen)
    assert bool(places(start, StartRun)) != lives(seen)
    assert stop.notes or stop.steps
    assert start.notes or start.steps
