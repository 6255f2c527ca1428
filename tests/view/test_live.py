from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from dflashctl.errors import LinkLost
from dflashctl.view.live import screenful
from dflashctl.view.status import Report
from tests.plan.scenes import BUSY, METRICS

SEEN = replace(BUSY, metrics=METRICS)


def drawn(report: Report, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    with console.capture() as caught:
        console.print(screenful((report,), console, {}))
    return caught.get().splitlines()


@pytest.mark.parametrize("width", [80, 100, 129, 130, 160, 240])
def test_a_screen_fits_its_terminal(width: int) -> None:
    lines = drawn(Report(target="here", seen=SEEN), width)
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    assert text.count("%") >= 8
    assert "254 of 2,400" in text
    assert len(lines) < (24 if width < 130 else 16)


@pytest.mark.parametrize("width", [80, 160])
def test_what_was_known_stays_when_nothing_can_be_seen(width: int) -> None:
    gone = LinkLost(target="here", address="here", reason="no route")
    lines = drawn(Report(target="here", error=gone, last=SEEN, last_age_s=34.0), width)
    assert any("UNREACHABLE, RUNNING 34 s ago" in line for line in lines)
    assert any("254 of 2,400" in line for line in lines)


def test_of_a_target_that_was_never_seen_there_is_only_the_error() -> None:
    gone = LinkLost(target="here", address="here", reason="no route")
    assert len(drawn(Report(target="here", error=gone), 160)) == 3
