"""What a pruning keeps, and what may be purged."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dflashctl.agent.keeping import (
    ArchiveSeen,
    CheckpointSeen,
    ClearedSeen,
    PruneCheckpoints,
    PurgeCleared,
    StoreSeen,
)
from dflashctl.plan.checkpoints import plan_archive, plan_clear, plan_prune, plan_restore
from dflashctl.plan.retention import Rules, doomed, may_purge
from dflashctl.playbook.model import CheckpointSpec, TrashSpec
from tests.plan.scenes import BARE, BUSY, GB, PLAYBOOK, SEVENTEEN, action, codes, with_playbook

EMPTY = StoreSeen(
    checkpoints=(),
    left_out=0,
    archives=(),
    cleared=(),
    allocated=0,
    archive_free=900 * GB,
    same_disk=False,
    resumed_from=None,
)
KEPT = with_playbook(
    checkpoints=CheckpointSpec(
        path="/workspace/checkpoints", archive_to="/workspace/archive", trash=TrashSpec()
    )
)


def saved(step: int | None, *, complete: bool = True, metric: float | None = None) -> Any:
    return CheckpointSeen(
        name=f"step-{step}",
        step=step,
        at=float(step or 0),
        size=GB,
        complete=complete,
        why=None if complete else "no COMPLETE in it",
        metric=metric,
    )


def gone(store: StoreSeen, rules: Rules) -> list[int | None]:
    return [one.checkpoint.step for one in doomed(store, rules) if one.kept is None]


def test_the_rules_add_up() -> None:
    metrics = {300: 0.5, 400: 0.2, 500: 0.2, 600: 0.9}
    store = replace(
        EMPTY,
        checkpoints=tuple(saved(s, metric=metrics.get(s)) for s in range(100, 1100, 100)),
    )
    assert gone(store, Rules(last=2)) == [100, 200, 300, 400, 500, 600, 700, 800]
    assert gone(store, Rules(every=500)) == [100, 200, 300, 400, 600, 700, 800, 900]
    assert gone(store, Rules(last=1, best="loss")) == [100, 200, 300, 400, 600, 700, 800, 900]
    assert 600 not in gone(store, Rules(last=1, best="loss", best_is="max"))


def test_a_metric_that_no_checkpoint_tells_deletes_none() -> None:
    store = replace(EMPTY, checkpoints=tuple(saved(step) for step in range(100, 1100, 100)))
    assert gone(store, Rules(best="val_los")) == []
    assert gone(store, Rules(last=1, best="val_los")) == []


stores = st.builds(
    lambda parts, resumed: replace(
        EMPTY,
        checkpoints=tuple(saved(n, complete=whole) for n, whole in enumerate(parts, start=1)),
        resumed_from=f"step-{resumed}",
    ),
    st.lists(st.booleans(), max_size=12),
    st.integers(1, 12),
)
rules = st.builds(Rules, last=st.none() | st.integers(1, 3), every=st.none() | st.integers(1, 4))


@given(stores, rules)
def test_the_newest_and_the_one_resumed_from_stay_whatever_the_rules(
    store: StoreSeen, rules: Rules
) -> None:
    names = {one.checkpoint.name for one in doomed(store, rules) if one.kept is None}
    whole = [one.name for one in store.checkpoints if one.complete]
    assert not whole or whole[-1] not in names
    assert store.resumed_from not in names
    assert names <= set(whole), "what is not complete is not ours to judge"


def test_what_has_no_step_is_never_deleted() -> None:
    store = replace(EMPTY, checkpoints=(saved(None), saved(1), saved(2)))
    assert gone(store, Rules(last=1)) == [1]


def test_only_old_clearings_beyond_the_last_few_may_be_purged() -> None:
    day = 86400.0
    cleared = tuple(
        ClearedSeen(id=f"t-{n}", at=n * day, count=1, latest_step=n, size=1) for n in range(20)
    )
    found = may_purge(cleared, TrashSpec(keep=3, for_s=7 * day), 20 * day, more=1)
    assert [one.id for one in found] == [f"t-{n}" for n in range(13)]
    assert may_purge(cleared, TrashSpec(keep=21, for_s=0.0), 20 * day, more=1) == ()
    assert len(may_purge(cleared, TrashSpec(keep=20, for_s=0.0), 20 * day, more=0)) == 0
    assert len(may_purge(cleared, TrashSpec(keep=20, for_s=0.0), 20 * day, more=1)) == 1


def test_a_clearing_purges_what_the_playbook_lets_go_and_says_so() -> None:
    old = ClearedSeen(id="t-old", at=0.0, count=3, latest_step=9, size=GB)
    seen = replace(BARE, checkpoints=SEVENTEEN, store=replace(EMPTY, cleared=(old,)))
    plan = plan_clear(KEPT, seen, purge=False)
    assert action(plan, PurgeCleared).ids == ("t-old",)
    assert "checkpoints.trash" in plan.steps[1].why
    assert plan.asks == ()
    kept = replace(KEPT, playbook=replace(PLAYBOOK, checkpoints=CheckpointSpec(path="/x/y")))
    assert len(plan_clear(kept, seen, purge=False).steps) == 1


def test_what_cannot_be_undone_asks() -> None:
    store = replace(EMPTY, checkpoints=(saved(1), saved(2)))
    seen = replace(BARE, checkpoints=SEVENTEEN, store=store)
    assert plan_clear(KEPT, seen, purge=True).asks
    plan = plan_prune(KEPT, seen, Rules(last=1), trash=False)
    assert plan.asks
    assert action(plan, PruneCheckpoints).names == ("step-1",)


def test_a_live_run_keeps_its_checkpoints_but_may_be_archived_and_pruned_beside() -> None:
    store = replace(EMPTY, checkpoints=(saved(1), saved(2)))
    seen = replace(BUSY, store=store)
    assert "checkpoints_in_use" in codes(plan_clear(KEPT, seen, purge=False))
    assert "checkpoints_in_use" in codes(plan_archive(KEPT, seen, "a", then_remove=True))
    assert codes(plan_archive(KEPT, seen, "a", then_remove=False)) == []
    assert codes(plan_prune(KEPT, seen, Rules(last=1), trash=False)) == []


def archived(name: str, at: float) -> ArchiveSeen:
    return ArchiveSeen(
        name=name,
        form="tar.zst",
        whole=True,
        at=at,
        names=("step-1",),
        latest_step=1,
        size=GB,
        allocated=GB,
        stored=GB,
        files=1,
        source="/workspace/checkpoints",
    )


def test_an_archive_that_is_not_there_is_refused_with_those_that_are() -> None:
    seen = replace(BARE, store=replace(EMPTY, archives=(archived("before", 1.0),)))
    plan = plan_restore(KEPT, seen, "befor", None)
    assert codes(plan) == ["no_such_archive"]
    assert "before" in plan.refusals[0].message
    assert codes(plan_archive(KEPT, replace(seen, checkpoints=SEVENTEEN), "before",
                              then_remove=False)) == ["archive_exists"]  # fmt: skip


def test_restoring_over_newer_checkpoints_asks() -> None:
    store = replace(EMPTY, archives=(archived("old", 1.0), archived("new", 2e9)))
    seen = replace(BARE, checkpoints=SEVENTEEN, store=store)
    assert "step 3400" in plan_restore(KEPT, seen, "old", None).asks[0]
    assert plan_restore(KEPT, seen, "new", None).asks == ()
    assert plan_restore(KEPT, seen, "old", "/elsewhere/a").asks == ()


def test_an_archive_that_would_not_fit_is_refused_before_anything_is_stopped() -> None:
    store = replace(EMPTY, allocated=2 * GB, archive_free=GB)
    seen = replace(BARE, checkpoints=SEVENTEEN, store=store)
    assert codes(plan_archive(KEPT, seen, "a", then_remove=True)) == ["no_room"]
    renamed = replace(seen, store=replace(store, same_disk=True))
    assert codes(plan_archive(KEPT, renamed, "a", then_remove=True)) == []
    assert codes(plan_archive(KEPT, renamed, "a", then_remove=False)) == ["no_room"]
