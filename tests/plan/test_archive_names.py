from __future__ import annotations

from dataclasses import replace

import pytest

from dflashctl.plan.checkpoints import plan_archive
from tests.plan.scenes import OVER, with_playbook
from tests.plan.test_rollback import ARCHIVED, SPEC, STORE


@pytest.mark.provokes("refused.archive_exists")
def test_a_second_archive_of_one_name_is_refused_before_anything_is_read() -> None:
    desired = with_playbook(checkpoints=replace(SPEC, archive_to="/archive"))
    seen = replace(OVER, store=replace(STORE, archives=(ARCHIVED,)))
    taken = plan_archive(desired, seen, "v1", then_remove=False)
    assert [refusal.code for refusal in taken.refusals] == ["archive_exists"]
    assert plan_archive(desired, seen, "v2", then_remove=False).refusals == ()
