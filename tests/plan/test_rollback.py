from __future__ import annotations

from dataclasses import replace

import pytest

from dflashctl.agent.keeping import (
    ArchiveSeen,
    ClearedSeen,
    RestoreCheckpoints,
    RestoreCleared,
    StoreSeen,
)
from dflashctl.agent.protocol import PlaceFiles, StartRun
from dflashctl.agent.recorded import RunRecord
from dflashctl.agent.seen import Observed
from dflashctl.plan.model import Plan
from dflashctl.plan.rollback import Wanted, as_it_was, plan_rollback
from dflashctl.playbook.model import CheckpointSpec
from tests.plan.scenes import (
    BUSY,
    DESIRED,
    EARLIER,
    EMPTY,
    GB,
    NEW,
    OLD,
    OVER,
    RECORD,
    RUN_ID,
    SCRIPT,
    TRAIN,
    action,
    actions,
    codes,
    placed,
    said,
    with_playbook,
)

RESUMING = replace(RECORD, resume=("bash", "/root/start.sh", "--resume", "latest"))


def there(seen: Observed, record: RunRecord = RECORD) -> Observed:
    """The target as a look for the old files finds it: today's are in place."""
    train, script = as_it_was(DESIRED, record).files
    files = (placed(train, sha256=NEW, text="new\n"), placed(script))
    return replace(seen, files=files)


def rollback(seen: Observed, record: RunRecord = RECORD, **changes: object) -> Plan:
    desired = as_it_was(replace(DESIRED, **changes), record)  # type: ignore[arg-type] # any field, by its name
    return plan_rollback(desired, there(seen, record), record, wait=True)


def test_a_rollback_stops_places_and_starts_without_sending_anything() -> None:
    plan = rollback(BUSY)
    assert actions(plan) == ["StopRun", "PlaceFiles", "StartRun", "VerifyRun"]
    assert (plan.refusals, plan.run_id) == ((), RUN_ID)
    (file,) = action(plan, PlaceFiles).files
    assert (file.dest, file.sha256, file.mode) == (TRAIN.dest, OLD, 0o644)


def test_everything_the_old_run_had_it_has_again() -> None:
    record = replace(
        RESUMING, cwd="/old", user="eve", env_base="minimal", exit_codes={"7": "refused"}
    )
    start = action(rollback(replace(BUSY, checkpoints=EMPTY), record), StartRun)
    assert (start.command, start.cwd, start.user) == (RECORD.fresh, "/old", "eve")
    assert (start.env_base, start.env, start.exit_codes) == (
        "minimal", EARLIER.env, {"7": "refused"},
    )  # fmt: skip
    assert [file.sha256 for file in start.release] == [OLD, SCRIPT.sha256]
    assert start.about.source == RECORD.source
    assert (start.about.fresh, start.about.resume) == (RESUMING.fresh, RESUMING.resume)


def test_the_new_run_says_which_one_it_repeats() -> None:
    plan = rollback(BUSY)
    assert action(plan, StartRun).about.repeats == EARLIER.id
    assert said(plan, StartRun)[1] == f"as run {EARLIER.id}"


def test_where_checkpoints_stay_it_goes_on_from_them_and_says_so() -> None:
    plan = rollback(OVER, RESUMING)
    assert action(plan, StartRun).command == RESUMING.resume
    assert "step 3400" in plan.notes[0]
    assert "goes on" in plan.notes[0]


@pytest.mark.provokes("refused.secrets_missing")
def test_a_secret_that_cannot_be_found_is_refused_by_its_name() -> None:
    plan = rollback(BUSY, secrets={})
    assert codes(plan) == ["secrets_missing"]
    assert "WANDB_API_KEY" in plan.refusals[0].message


@pytest.mark.provokes("refused.not_kept")
def test_contents_that_are_gone_are_refused_by_their_places() -> None:
    files = (replace(RECORD.files[0], kept=False), RECORD.files[1])
    plan = rollback(BUSY, replace(RECORD, files=files))
    assert codes(plan) == ["not_kept"]
    assert "/root/train.py" in plan.refusals[0].message


def test_the_plan_shows_how_the_files_go_back() -> None:
    (diff,) = rollback(BUSY, texts={OLD: "old\n"}).diffs
    assert diff.lines[1:] == ("-new", "+old")


SPEC = CheckpointSpec(path="/workspace/checkpoints")
ARCHIVED = ArchiveSeen(
    name="v1", form="tar", whole=True, at=1_795_852_000.0, names=("step-800",), latest_step=800,
    size=GB, allocated=GB, stored=GB, files=3, source="/workspace/checkpoints",
)  # fmt: skip
STORE = StoreSeen(
    checkpoints=(),
    left_out=0,
    archives=(),
    cleared=(ClearedSeen(id="t-next", at=1_795_852_700.0, count=9, latest_step=900, size=GB),),
    allocated=None,
    archive_free=None,
    same_disk=True,
    resumed_from=None,
)


def with_cleared(cleared_by: str | None) -> Plan:
    desired, seen = as_it_was(DESIRED, RESUMING), replace(there(BUSY), store=STORE)
    return plan_rollback(desired, seen, RESUMING, Wanted(cleared_by=cleared_by), wait=True)


def test_what_was_cleared_when_the_next_run_began_comes_back_before_the_start() -> None:
    plan = with_cleared("t-next")
    assert actions(plan) == ["StopRun", "RestoreCleared", "PlaceFiles", "StartRun", "VerifyRun"]
    assert action(plan, StartRun).command == RESUMING.resume
    what, why = said(plan, RestoreCleared)
    assert "step 900" in what
    assert "moved to /workspace/.checkpoints.dflashctl-trash" in why
    assert plan.refusals == ()


@pytest.mark.provokes("refused.not_cleared")
@pytest.mark.parametrize("cleared_by", ["t-other", None])
def test_what_was_not_cleared_cannot_come_back(cleared_by: str | None) -> None:
    assert codes(with_cleared(cleared_by)) == ["not_cleared"]


@pytest.mark.provokes("refused.no_such_archive", "refused.archive_cut")
def test_an_archive_comes_back_if_it_is_there() -> None:
    store = replace(STORE, archives=(ARCHIVED,))
    folder = replace(SPEC, archive_to="/archive")
    desired = as_it_was(with_playbook(checkpoints=folder), RESUMING)
    seen = replace(there(BUSY), store=store)

    def restored(name: str) -> Plan:
        return plan_rollback(desired, seen, RESUMING, Wanted(archive=name), wait=True)

    assert action(restored("v1"), RestoreCheckpoints).name == "v1"
    assert restored("v1").refusals == ()
    assert actions(restored("v1"))[:3] == ["VerifyArchive", "StopRun", "RestoreCheckpoints"]
    assert codes(restored("v2")) == ["no_such_archive"]
    cut = replace(STORE, archives=(replace(ARCHIVED, whole=False),))
    seen = replace(seen, store=cut)
    assert codes(restored("v1")) == ["archive_cut"]
