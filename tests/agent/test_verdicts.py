"""Each verdict: a run that it speaks against, and a healthy twin."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from dflashctl.agent.metrics import Values
from dflashctl.agent.seen import BucketsSeen, GpusSeen
from dflashctl.agent.series import Progress, Series, read_progress
from dflashctl.agent.verdicts import Evidence, Glance, Xid, judge
from tests.plan.scenes import GPUS

START = 1.8e9
HOUR, DAY = 3600.0, 86400.0


def progress(series: Series, at: float) -> Progress:
    state = {"version": 1, "at": at, "collector": [1, 2], "problem": None, "printed_at": at}
    found = read_progress({**state, **series.state()})
    assert found is not None
    return found


def codes(seen: Evidence) -> set[str]:
    return {verdict.code for verdict in judge(seen)}


def run(
    count: int, point: Callable[[int], Values], every_s: float = 10.0, then_s: float = 1.0
) -> Evidence:
    """A run that has printed ``count`` points, looked at ``then_s`` after the last."""
    series = Series()
    for index in range(count):
        series.add(START + index * every_s, {"step": float(index * 10), **point(index)})
    now = START + (count - 1) * every_s + then_s
    return Evidence(now=now, live=True, progress=progress(series, now))


DICE = random.Random(7)
NOISE = [DICE.gauss(0, 0.02) for _ in range(4000)]


def loss(index: int) -> float:
    return 0.9 + 3 * math.exp(-index / 300) + NOISE[index]


def plain(index: int) -> Values:
    return {"loss": loss(index), "tokens_per_s": 32_000 * (1 + 3 * NOISE[index]),
            "accuracy": 0.6 * (1 - math.exp(-index / 300)) + NOISE[index] / 2}  # fmt: skip


HEALTHY = run(1200, plain)


def test_nothing_speaks_against_a_healthy_run() -> None:
    assert judge(HEALTHY) == ()


@pytest.mark.parametrize(("every_s", "silent_s", "stalled"), [
    (10, 299, False), (10, 301, True), (60, 599, False), (60, 601, True), (1, 301, True),
])  # fmt: skip
def test_no_step_for_long_is_a_stall(every_s: float, silent_s: float, *, stalled: bool) -> None:
    seen = run(300, plain, every_s, silent_s)
    assert codes(seen) == ({"stalled"} if stalled else set())


def test_a_pause_that_came_twice_is_no_stall() -> None:
    series, at = Series(), START
    for index in range(400):
        at += 900 if index in (100, 200) else 10
        series.add(at, {"step": float(index), **plain(index)})
    assert codes(Evidence(now=at + 1000, live=True, progress=progress(series, at))) == set()
    late = Evidence(now=at + 1500, live=True, progress=progress(series, at))
    assert codes(late) == {"stalled"}


def test_a_stall_says_since_when_and_what_is_usual() -> None:
    (verdict,) = judge(run(300, plain, 10.0, 1000.0))
    assert verdict.since == START + 2990
    assert verdict.evidence == "no step after 2990 for 17 min; usually one is seen every 10 s"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_no_number_is_told_at_once(value: float) -> None:
    assert codes(run(50, lambda i: {"loss": value if i == 49 else 1.0})) == {"loss_not_finite"}
    assert codes(run(50, lambda i: {"loss": value if i == 40 else 1.0})) == set()


def test_a_gradient_may_overflow_now_and_then() -> None:
    def point(index: int) -> Values:
        return {"loss": 1.0, "grad_norm": math.inf if index >= limit else 1.0}

    limit = 48
    assert codes(run(50, point)) == set()
    limit = 40
    assert codes(run(50, point)) == {"loss_not_finite"}


def test_a_loss_that_jumps_up_and_comes_back_is_a_spike() -> None:
    jump = {1100: 4.6, 1101: 6.4}
    seen = run(1120, lambda i: {"loss": jump.get(i, 0.93 + NOISE[i])})
    (verdict,) = judge(seen)
    assert verdict.code == "loss_spike"
    assert verdict.since == START + 11_010
    assert "from 0.9" in verdict.evidence
    assert "to 6.4 at step 11010" in verdict.evidence


def test_one_high_loss_among_many_is_noise_unless_it_is_enormous() -> None:
    assert codes(run(1120, lambda i: {"loss": 1.9 if i == 1100 else 0.93 + NOISE[i]})) == set()
    assert codes(run(1120, lambda i: {"loss": 9.9 if i == 1100 else 0.93 + NOISE[i]})) == {
        "loss_spike"
    }


def test_an_accuracy_that_falls_back_is_told() -> None:
    def falls(index: int) -> Values:
        values = plain(index)
        if index > 1000:
            values["accuracy"] -= 0.2 * min(1.0, (index - 1000) / 60)
        return values

    (verdict,) = judge(run(1200, falls))
    assert verdict.code == "accuracy_falling"
    assert verdict.evidence.startswith("the accuracy fell from 5")


def test_a_plateau_of_the_accuracy_is_none() -> None:
    assert codes(run(1200, lambda i: {"accuracy": min(0.6, i / 500) + 3 * NOISE[i]})) == set()


def test_batches_sorted_by_length_make_the_loss_swing() -> None:
    seen = run(800, lambda i: {"loss": 1.0 + 0.3 * ((i % 25) / 25 - 0.5) + NOISE[i] / 2})
    (verdict,) = judge(seen)
    assert verdict.code == "loss_oscillates"
    assert "a period of 25 points" in verdict.evidence


def test_noise_and_a_slow_wave_are_no_oscillation() -> None:
    assert codes(run(800, lambda i: {"loss": 1.0 + 6 * NOISE[i]})) == set()
    assert codes(run(800, lambda i: {"loss": 1.0 + 0.3 * math.sin(i / 200)})) == set()


def test_a_throughput_far_below_the_runs_own_is_told() -> None:
    seen = run(1200, lambda i: {"loss": 1.0, "tokens_per_s": 11_900.0 if i > 1150 else 32_000.0})
    (verdict,) = judge(seen)
    assert verdict.code == "throughput_drop"
    assert verdict.evidence == "11,900 tokens/s where 32,000 are usual in this run"
    assert codes(run(1200, lambda i: {"tokens_per_s": 26_000.0 if i > 1150 else 32_000.0})) == set()


BUCKETS = BucketsSeen(path="/b", sha256="0" * 12, boundaries=(0, 8192),
                      expected_efficiency=0.868, predicted_tokens_per_s=32_000.0)  # fmt: skip


@pytest.mark.parametrize(("speed", "found"), [
    (31_000.0, set()), (20_000.0, set()), (11_900.0, {"throughput_drop"}),
])  # fmt: skip
def test_a_run_far_below_what_its_buckets_promised_is_told(speed: float, found: set[str]) -> None:
    seen = run(200, lambda i: {"tokens_per_s": speed * (1 + NOISE[i])})
    assert codes(seen) == set(), "without a promise it is as it always was"
    assert codes(replace(seen, buckets=BUCKETS)) == found
    for verdict in judge(replace(seen, buckets=BUCKETS)):
        assert verdict.evidence.endswith("tokens/s are usual; the buckets promised 32,000")


@pytest.mark.parametrize(("efficiency", "points", "found"), [
    (0.868, 60, set()), (0.83, 60, set()), (0.772, 60, {"buckets_off"}),
    (0.93, 60, {"buckets_off"}), (0.772, 5, set()),  # 40 steps
])  # fmt: skip
def test_another_padding_than_the_buckets_promised_is_told(
    efficiency: float, points: int, found: set[str]
) -> None:
    seen = run(points, lambda i: {"loss": 1.0, "padding_efficiency": efficiency + NOISE[i]})
    assert codes(seen) == set()
    assert codes(replace(seen, buckets=BUCKETS)) == found


def test_other_padding_is_told_with_both_figures() -> None:
    seen = run(60, lambda _: {"padding_efficiency": 0.772})
    (verdict,) = judge(replace(seen, buckets=BUCKETS))
    assert verdict.evidence.startswith(
        "77.2% of the tokens are real where the buckets promised 86.8%"
    )


def test_without_tokens_the_steps_tell_a_drop() -> None:
    series, at = Series(), START
    for index in range(1280):
        at += 40 if index > 1200 else 10
        series.add(at, {"step": float(index), "loss": 1.0})
    assert codes(Evidence(now=at, live=True, progress=progress(series, at))) == {"throughput_drop"}


def gpus(count: int) -> GpusSeen:
    return replace(GPUS, gpus=GPUS.gpus[:count])


def glances(*use: tuple[int, ...], every_s: float = 60.0) -> tuple[Glance, ...]:
    last = HEALTHY.now
    return tuple(
        Glance(at=last - every_s * (len(use) - 1 - number), use=one)
        for number, one in enumerate(use)
    )


BUSY_8 = (97, 99, 95, 98, 96, 99, 97, 98)


@pytest.mark.parametrize(
    ("use", "found"),
    [
        ([BUSY_8] * 6, set()),
        ([(*BUSY_8[:7], 0)] * 6, {"gpus_idle"}),
        ([(0,) * 8] * 6, {"gpus_idle"}),
        ([(*BUSY_8[:7], 0)] * 5 + [BUSY_8], set()),  # it rested, and works again
        ([(*BUSY_8[:7], 30)] * 6, {"gpu_imbalance"}),
        ([BUSY_8, (0,) * 8, BUSY_8, (0,) * 8, BUSY_8, BUSY_8], set()),
        ([(*BUSY_8[:7], 0)] * 3, set()),  # too few looks
    ],
)
def test_gpus_are_judged_by_several_looks(use: list, found: set[str]) -> None:
    seen = replace(HEALTHY, gpus=gpus(8), gpus_at_start=8, glances=glances(*use))
    assert codes(seen) - {"gpu_imbalance"} | (codes(seen) & found) == found


def test_gpus_rest_while_the_trainer_saves() -> None:
    idle = glances(*[(0,) * 8] * 6)
    assert codes(replace(HEALTHY, now=HEALTHY.now + 60, glances=idle)) == set()


def test_fewer_gpus_than_at_the_start_are_told_with_what_the_driver_says() -> None:
    seen = replace(HEALTHY, gpus=gpus(7), gpus_at_start=8)
    assert codes(seen) == {"gpu_lost"}
    with_xid = replace(seen, xids=(Xid(at=START, gpu="0000:4e:00", number=79),))
    assert "Xid 79 of 0000:4e:00" in judge(with_xid)[0].evidence
    assert codes(replace(HEALTHY, gpus=gpus(8), gpus_at_start=8)) == set()
    hangs = replace(GPUS, status="unresponsive", gpus=())
    assert codes(replace(HEALTHY, gpus=hangs, gpus_at_start=8)) == set()


def test_an_error_of_the_driver_is_told_while_all_gpus_answer() -> None:
    seen = replace(HEALTHY, gpus=gpus(8), gpus_at_start=8,
                   xids=(Xid(at=START, gpu="0000:4e:00", number=48),))  # fmt: skip
    assert codes(seen) == {"gpu_error"}


@pytest.mark.parametrize(("bits", "hot"), [(0, False), (0x4, False), (0x20, True), (0x40, True)])
def test_heat_is_told_from_other_reasons_for_a_slow_clock(bits: int, *, hot: bool) -> None:
    seen = replace(HEALTHY, throttling=((3, bits),))
    assert codes(seen) == ({"gpu_throttled"} if hot else set())


@pytest.mark.parametrize(("free", "full"), [(12e9, False), (10.5e9, True), (0, True)])
def test_a_disk_without_room_for_the_next_checkpoint(free: float, *, full: bool) -> None:
    seen = replace(HEALTHY, checkpoint_bytes=10_000_000_000, free_bytes=int(free))
    assert codes(seen) == ({"disk_full_soon"} if full else set())


@pytest.mark.parametrize(("since_s", "overdue"), [(3000, False), (5300, False), (5500, True)])
def test_a_checkpoint_that_does_not_come(since_s: float, *, overdue: bool) -> None:
    saved = tuple(HEALTHY.now - since_s - 1800 * n for n in (3, 2, 1, 0))
    assert codes(replace(HEALTHY, saved_at=saved)) == ({"checkpoint_overdue"} if overdue else set())
    assert codes(replace(HEALTHY, saved_at=saved[-2:])) == set()


def test_a_memory_kill_is_told_of_the_living_and_of_the_dead() -> None:
    assert codes(replace(HEALTHY, oom=True)) == {"oom_kill"}
    assert codes(replace(HEALTHY, live=False, oom=True)) == {"oom_kill"}


def test_a_trainer_that_is_gone_without_a_word() -> None:
    assert codes(replace(HEALTHY, live=False, vanished=True)) == {"trainer_gone"}
    assert codes(replace(HEALTHY, live=False)) == set()


def test_without_a_collector_nothing_is_said_of_the_trainer() -> None:
    silent = replace(run(300, plain, 10.0, 9000.0), collecting=False)
    assert codes(silent) == {"not_recorded"}


def test_a_watchdog_that_is_gone_is_told() -> None:
    assert codes(replace(HEALTHY, watching=False)) == {"not_watched"}


def test_a_pattern_that_was_given_up_is_told() -> None:
    assert HEALTHY.progress is not None
    given_up = replace(HEALTHY.progress, problem="pattern_too_slow")
    assert codes(replace(HEALTHY, progress=given_up)) == {"metrics_unread"}


def five_days(seed: int) -> set[str]:
    """A healthy run, a point every six minutes, looked at now and then; all that was said."""
    dice, series, at, found = random.Random(seed), Series(), START, set[str]()
    noise, drift, level = dice.uniform(0.01, 0.12), 0.0, dice.uniform(0.5, 3.0)
    tau, evals = dice.uniform(0.1, 1.5) * DAY, dice.uniform(1, 6) * HOUR
    speed, next_eval, next_save = dice.uniform(5e3, 1e6), evals, HOUR
    step, saved = 0.0, []
    while at - START < 5 * DAY:
        gap = 360 * math.exp(0.05 * dice.gauss())
        gone = at - START
        if gone > next_save:
            gap, next_save = gap + dice.uniform(20, 120), next_save + HOUR
            saved.append(at)
        if gone > next_eval:
            gap, next_eval = gap + dice.uniform(60, 280), next_eval + evals
        if dice.random() < 0.001:
            gap += dice.uniform(30, 250)  # a file server that takes a breath
        at += gap
        step += 150
        drift = 0.95 * drift + dice.gauss(0, noise / 4)
        value = level + 6 * math.exp(-gone / tau) * (1 + 0.1 * math.exp(-gone / HOUR))
        value *= 1 + drift + math.exp(noise * dice.gauss()) - 1
        if dice.random() < 0.002:
            value *= dice.uniform(1.1, 1.45)  # a hard batch
        warm = 0.5 if gone < 600 else 1.0
        series.add(at, {
            "step": step, "total_steps": 200_000.0, "loss": value,
            "accuracy": min(1.0, 0.7 * (1 - math.exp(-gone / tau)) + dice.gauss(0, 0.01)),
            "grad_norm": math.inf if dice.random() < 0.003 else math.exp(0.5 * dice.gauss()),
            "tokens_per_s": speed * warm * math.exp(0.12 * dice.gauss()),
        })  # fmt: skip
        if dice.random() < 0.012:
            now = at + dice.uniform(0, 359)
            found |= codes(Evidence(
                now=now, live=True, progress=progress(series, now), saved_at=tuple(saved[-4:]),
                checkpoint_bytes=10**10, free_bytes=10**12,
            ))  # fmt: skip
    return found


@pytest.mark.parametrize("tens", range(10))
def test_a_hundred_healthy_runs_of_five_days_give_no_false_alarm(tens: int) -> None:
    alarms = {seed: five_days(seed) for seed in range(tens * 10, tens * 10 + 10)}
    assert {seed: found for seed, found in alarms.items() if found} == {}
