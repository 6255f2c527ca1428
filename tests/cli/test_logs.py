from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dflashctl.agent.protocol import LogEnd, LogText
from dflashctl.errors import LinkLost, NothingRuns
from tests.cli.world import World
from tests.plan.scenes import FAILED, OVER

END = LogEnd(run_id=FAILED.id, state="FAILED")


def test_the_output_comes_as_it_was_printed(world: World) -> None:
    world.log = [LogText(text="step 1\r\nst"), LogText(text="ep 2\r\n"), END]
    result = world.run("logs")
    assert (result.code, result.out, result.err) == (0, "step 1\nstep 2\n", "")


def test_sequences_are_dropped_also_where_a_piece_cuts_them(world: World) -> None:
    world.log = [
        LogText(text="a\x1b]0;ow"),
        LogText(text="ned\x07b\x1b[3"),
        LogText(text="1mc\n"),
        END,
    ]
    assert world.run("logs").out == "abc\n"


def test_a_progress_bar_is_lines_on_a_pipe(world: World) -> None:
    world.log = [LogText(text="10%\r"), LogText(text="20%\r\n"), END]
    assert world.run("logs").out == "10%\n20%\n"


def test_markup_in_the_output_is_only_text(world: World) -> None:
    world.log = [LogText(text="[bold]loss[/bold] :smile:\n"), END]
    assert world.run("--color", "always", "logs").out == "[bold]loss[/bold] :smile:\n"


def test_what_is_asked_for_is_what_the_options_say(world: World) -> None:
    world.log = [END]
    world.run("logs", "-n", "7", "--run", "r-1")
    world.run("logs", "-f")
    first, second = world.log_requests
    assert (first.job, first.lines, first.run_id, first.follow) == ("dflash", 7, "r-1", False)
    assert (second.lines, second.run_id, second.follow) == (100, None, True)


@pytest.mark.parametrize(
    ("run", "words"),
    [
        ({"state": "FINISHED", "exit_code": 0}, "finished (exit code 0)"),
        ({"exit_code": 3}, "failed (exit code 3)"),
        ({"exit_code": None, "signal": "KILL", "oom": True}, "failed (signal KILL, out of memory)"),
    ],
)
def test_the_end_of_a_followed_run_is_told_on_stderr(
    world: World, run: dict[str, Any], words: str
) -> None:
    world.log = [LogText(text="bye\n"), END]
    world.answers = [replace(OVER, run=replace(FAILED, **run))]
    result = world.run("logs", "-f")
    assert result.err == f"run {FAILED.id} {words}\n"
    assert result.out == "bye\n"


def test_of_an_older_run_only_its_state_is_known(world: World) -> None:
    world.log = [LogEnd(run_id="older", state="STOPPED")]
    world.answers = [OVER]
    assert world.run("logs", "-f", "--run", "older").err == "run older stopped\n"


def test_ctrl_c_ends_the_watching_and_nothing_else(world: World) -> None:
    world.log = [LogText(text="step 1\n"), KeyboardInterrupt()]
    result = world.run("logs", "-f")
    assert (result.code, result.out) == (130, "step 1\n")
    assert result.err == ""
    assert world.closed == 1


def test_a_run_that_is_not_there_is_named(world: World) -> None:
    world.log = [NothingRuns(target="here", session="dflash", state="NONE")]
    result = world.run("logs", "--run", "r-404")
    assert result.code == 3
    assert "here has no run r-404 of dflash" in result.err


def test_a_target_without_any_run_says_how_to_start_one(world: World) -> None:
    world.log = [NothingRuns(target="here", session="dflash", state="NONE")]
    result = world.run("logs")
    assert result.code == 3
    assert "dflashctl deploy" in result.err


def test_a_connection_that_dies_keeps_what_came(world: World) -> None:
    world.log = [
        LogText(text="step 1\n"),
        LinkLost(target="here", address="here", reason="silent for 30 s"),
    ]
    result = world.run("logs", "-f")
    assert (result.code, result.out) == (69, "step 1\n")
    assert "silent for 30 s" in result.err


def test_what_is_searched_for_is_asked_of_the_target(world: World) -> None:
    world.log = [END]
    world.run("logs", "--grep", "loss", "--since", "2h")
    world.run("logs", "--errors", "-n", "3")
    first, second = world.log_requests
    assert (first.grep, first.since_s, first.lines, first.errors) == ("loss", 7200.0, None, False)
    assert (second.grep, second.since_s, second.lines, second.errors) == (None, None, 3, True)


def test_raw_is_as_it_was_printed(world: World) -> None:
    world.log = [LogText(text="a\x1b[31mb\r\n"), END]
    assert world.run("logs", "--raw").out == "a\x1b[31mb\r\n"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--since", "soon"], "must be a number and a unit"),
        (["--grep", "("], "--grep is no regular expression"),
        (["--errors", "-f"], "-f does not go with --errors"),
        (["--errors", "--grep", "x"], "--grep does not go with --errors"),
        (["--raw", "--json"], "--raw does not go with --json"),
    ],
)
def test_options_that_make_no_sense_are_a_mistake(
    world: World, words: list[str], complaint: str
) -> None:
    result = world.run("logs", *words)
    assert result.code == 2
    assert complaint in result.err
