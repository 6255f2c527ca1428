"""Many targets at a glance."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from dflashctl.errors import ContainerStopped, Unreachable
from dflashctl.view.fleet import ROWS, alike, overview, sick_first, summary
from dflashctl.view.status import Report, Verdict
from tests.plan.scenes import BARE, BUSY, METRICS, OVER

SPIKE = Verdict(code="loss_spike", since=None, evidence="9.1 after 4.5")


def running(target: str, step: float = 254, tokens_per_s: float = 25_100) -> Report:
    metrics = replace(METRICS, step=step, tokens_per_s=tokens_per_s)
    return Report(target=target, seen=replace(BUSY, metrics=metrics))


def dead(target: str, host: str = "kpro9") -> Report:
    error = Unreachable(target=target, address=host, reason="connection refused")
    return Report(target=target, error=error)


def failed(target: str) -> Report:
    return Report(target=target, seen=OVER)


FLEET = (
    *(running(f"kpro{n // 8}/c{n}", 254 + n, 25_000 + 10 * n) for n in range(40)),
    failed("kpro5/c40"),
    replace(running("kpro5/c41"), verdicts=(SPIKE,)),
    *(dead(f"kpro9/c{n}") for n in range(42, 62)),
    Report(target="kpro6", seen=BARE),
    Report(target="kpro7", seen=BARE),
)
GROUPS = {
    "everything": tuple(report.target for report in FLEET),
    "big": tuple(f"kpro{n // 8}/c{n}" for n in range(32)),
}


def drawn(
    reports: tuple[Report, ...], width: int = 80, groups: dict[str, tuple[str, ...]] | None = None
) -> list[str]:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    with console.capture() as caught:
        for part in overview(console, reports, groups or {}):
            console.print(part)
    return [line.rstrip() for line in caught.get().splitlines()]


def test_a_fleet_is_told_on_a_screen_of_80_columns() -> None:
    assert drawn(FLEET, groups=GROUPS) == [
        "64 targets: 41 running (1 with a verdict), 2 never started, 1 failed, 20",
        "unreachable",
        "",
        "TARGETS                STATE               RUN                           GPUS",
        "kpro5/c40              FAILED              exit code 1, 0.0 s ago        8x 0%",
        "kpro9/c42 and 19 more  UNREACHABLE         connection refused            -",
        "kpro5/c41              RUNNING loss spike  11%, 25.1 Ktok/s              8x 0%",
        "32 in big              RUNNING             11 to 12%, 25 to 25.3 Ktok/s  256x 0%",
        "8 in everything        RUNNING             12%, 25.3 to 25.4 Ktok/s      64x 0%",
        "2 in everything        NONE                -                             16x 0%",
    ]


def test_without_groups_they_are_counted_by_their_host() -> None:
    lines = drawn(FLEET[:40] + FLEET[-2:])
    assert [line.split()[:4] for line in lines[3:]] == [
        *(["8", "on", f"kpro{n}", "RUNNING"] for n in range(5)),
        ["2", "in", "no", "group"],
    ]


def test_hosts_with_a_container_each_are_one_line() -> None:
    lines = drawn(tuple(running(f"host{n}/dflash") for n in range(20)))
    assert [line.split()[:4] for line in lines[3:]] == [["20", "in", "no", "group"]]


def test_a_few_failed_ones_keep_a_line_each_and_many_do_not() -> None:
    rest = tuple(running(f"r{n}") for n in range(10))
    few = drawn((*rest, *(failed(f"f{n}") for n in range(3))))
    assert [line.split()[0] for line in few[3:6]] == ["f0", "f1", "f2"]
    many = drawn((*rest, *(failed(f"f{n}") for n in range(9))))
    assert many[3].startswith("f0 and 8 more")


def test_what_was_known_of_one_that_is_gone_stays() -> None:
    gone = replace(dead("d"), last=BUSY, last_age_s=34.0)
    lines = drawn((gone, *(running(f"r{n}") for n in range(10))))
    assert lines[3].split(None, 1)[1].startswith("UNREACHABLE, RUNNING 34 s ago")


def test_the_summary_counts_every_target() -> None:
    assert summary(FLEET).plain == (
        "64 targets: 41 running (1 with a verdict), 2 never started, 1 failed, 20 unreachable"
    )


def test_the_sick_come_first_and_the_rest_in_the_inventorys_order() -> None:
    reports = (
        running("a"), replace(running("b"), verdicts=(SPIKE,)), Report(target="c", seen=BARE),
        dead("d"), running("e"), failed("f"),
    )  # fmt: skip
    assert [report.target for report in sick_first(reports)] == ["d", "f", "b", "a", "c", "e"]


def test_one_error_of_many_targets_is_one() -> None:
    stopped = ContainerStopped(target="kpro9/c", vmid=200, host="kpro9")
    reports = (
        dead("kpro9/a"), dead("kpro9/b"), dead("kpro8/a", "kpro8"), running("x"),
        Report(target="kpro9/c", error=stopped),
    )  # fmt: skip
    told = [[report.target for report in same] for same in alike(reports)]
    assert told == [["kpro9/a", "kpro9/b"], ["kpro8/a"], ["kpro9/c"]]


@pytest.mark.parametrize("width", [80, 100, 160])
@pytest.mark.parametrize("count", [2, ROWS, ROWS + 1, 64])
def test_it_fits_the_terminal(width: int, count: int) -> None:
    lines = drawn(FLEET[-count:], width, GROUPS)
    assert max(map(len, lines)) <= width
