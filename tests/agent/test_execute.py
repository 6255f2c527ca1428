"""Commands as steps of a transaction."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from dflashctl.agent import execute, process
from dflashctl.agent.failures import AgentError
from dflashctl.agent.journal import facts
from dflashctl.agent.protocol import ExecuteCommand, StepDone, StepPassed
from tests.agent.conftest import Bench, until


def command(script: str, **more: object) -> ExecuteCommand:
    settings: dict[str, object] = {
        "command": ("bash", "-c", script),
        "cwd": "/",
        "env_base": "minimal",
        "env": {},
        "timeout_s": 10.0,
    }
    return ExecuteCommand(**{**settings, **more})  # type: ignore[arg-type] # any field, by its name


def failed(script: str, **more: object) -> dict[str, object]:
    with pytest.raises(AgentError) as caught:
        execute.execute(command(script, **more), lambda _: None)
    assert caught.value.failure.code == "command_failed"
    return caught.value.failure.detail


def test_what_it_prints_last_is_kept_and_both_its_streams(tmp_path: Path) -> None:
    script = 'seq 1 100; echo "$NAME in $(pwd)" >&2'
    wanted = command(script, env={"NAME": "a b"}, cwd=str(tmp_path))
    said = execute.execute(wanted, lambda _: None).split("\n")
    assert (len(said), said[-2:]) == (execute.LINES, ["100", f"a b in {tmp_path}"])


def test_output_without_end_takes_no_memory_and_shows_its_newest_line() -> None:
    heard: list[str] = []
    said = execute.execute(command("yes | head -c 5000000; echo over"), heard.append)
    assert said.endswith("y\nover")
    assert heard


def test_a_failure_tells_its_code_or_signal_and_the_last_lines() -> None:
    detail = failed("echo bad news; exit 3")
    assert (detail["exit_code"], detail["signal"], detail["log"]) == (3, None, ["bad news"])
    assert failed("kill -9 $$")["signal"] == "KILL"


def test_what_cannot_be_started_says_why() -> None:
    assert "No such file" in str(failed("", command=("/nowhere",))["reason"])
    assert "No such file" in str(failed("", cwd="/nowhere")["reason"])


def test_what_takes_too_long_is_ended_with_its_children(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    begun = time.monotonic()
    detail = failed(f"sleep 60 & echo $! > {mark}; wait", timeout_s=0.5)
    assert "longer than 0.5 s" in str(detail["reason"])
    assert time.monotonic() - begun < 5
    until(lambda: process.look(int(mark.read_text())) is None)


def test_what_ignores_the_gentle_signal_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execute, "TERM_S", 0.3)
    assert failed("trap '' TERM; while :; do sleep 0.1; done", timeout_s=0.3)["signal"] == "KILL"


def test_what_it_leaves_running_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execute, "DRAIN_S", 0.2)
    begun = time.monotonic()
    assert execute.execute(command("echo started; sleep 3 & :"), lambda _: None) == "started"
    assert time.monotonic() - begun < 2


def test_a_failure_that_may_be_is_journalled_told_and_passed_over(bench: Bench) -> None:
    steps = (command("echo one; exit 1"), command("echo two"))
    outcome = bench.commit(*steps, may_fail=(0,))
    assert outcome.failure is None
    passed, done = [e for e in bench.events if isinstance(e, StepPassed | StepDone)]
    assert isinstance(passed, StepPassed)
    assert (passed.index, passed.failure.detail["log"]) == (0, ["one"])
    assert isinstance(done, StepDone)
    assert (done.index, done.facts["output"]) == (1, "two")
    known = [fact["fact"] for fact in facts(bench.state, "t-1")]
    assert known == ["begin", "step", "passed", "step", "done", "end"]


def test_any_other_failure_ends_the_transaction(bench: Bench) -> None:
    outcome = bench.commit(command("exit 1"), command("echo two"))
    assert outcome.failure
    assert outcome.failed_at == 0
