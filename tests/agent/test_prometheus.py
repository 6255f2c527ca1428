from __future__ import annotations

import re
from dataclasses import replace

from dflashctl.agent.prometheus import exposition
from dflashctl.agent.seen import VerdictSeen
from tests.plan.scenes import BARE, BUSY, METRICS

LINE = re.compile(r'dflashctl_[a-z_]+\{([a-z_]+="(?:[^"\\\n]|\\.)*",?)+\} -?[0-9.e+-]+')


def test_every_line_is_of_the_format() -> None:
    verdict = VerdictSeen(code="stalled", since=None, evidence="x")
    text = exposition(
        "dflash", replace(BUSY, metrics=METRICS, verdicts=(verdict,)), {"t": 'a"\\\n'}
    )
    lines = text.splitlines()
    for line in lines:
        assert line.startswith(("# HELP ", "# TYPE ")) or LINE.fullmatch(line), line
    names = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(names) == len(set(names))
    assert 'code="stalled"} 1' in text
    assert re.search(r"dflashctl_step\{.*\} 254\n", text)
    assert text.count("dflashctl_gpu_temperature_celsius{") == 8


def test_where_nothing_runs_that_is_all_that_is_told() -> None:
    text = exposition("dflash", replace(BARE, gpus=None, checkpoints=None), {})
    assert 'dflashctl_up{job_name="dflash",run=""} 0' in text
    assert "step" not in text
