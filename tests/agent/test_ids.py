from __future__ import annotations

import random
import re
import secrets
from datetime import UTC, datetime, timedelta, timezone

from dflashctl.agent.ids import run_id, transaction_id

NOON = datetime(2026, 11, 29, 12, 6, 59, tzinfo=UTC)


def test_a_run_id_is_the_minute_the_job_and_four_characters() -> None:
    assert run_id("dflash", NOON, lambda letters: letters[-1]) == "2026-11-29T1206Z-dflash-7777"


def test_the_minute_is_in_utc_wherever_the_operator_sits() -> None:
    there = NOON.astimezone(timezone(timedelta(hours=-8)))
    assert run_id("x", there, max) == run_id("x", NOON, max)


def test_the_same_chance_gives_the_same_id_and_other_chance_another() -> None:
    ids = [run_id("x", NOON, random.Random(seed).choice) for seed in (1, 1, 2)]
    assert ids[0] == ids[1] != ids[2]


def test_a_transaction_id_is_formed_like_a_runs() -> None:
    assert re.fullmatch(
        r"t-2026-11-29T1206Z-my-job-[a-z2-7]{4}", transaction_id("my-job", NOON, secrets.choice)
    )
