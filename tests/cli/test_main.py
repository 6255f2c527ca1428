from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dflashctl import __version__
from dflashctl.cli.call import Call
from dflashctl.cli.main import main
from tests.cli.world import World

ROOT = Path(__file__).parents[2]
VERBS = ("deploy", "status", "attach", "logs", "stop", "start", "inventory")


def in_a_process(*arguments: str, cwd: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """The program as a shell starts it."""
    return subprocess.run(
        (sys.executable, "-m", "dflashctl", *arguments),
        cwd=cwd,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": str(cwd), **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_no_verb_is_a_usage_mistake_that_shows_the_help(world: World) -> None:
    result = world.run()
    assert result.code == 2
    assert "Commands:" in result.out


def test_the_version_is_the_package_s(world: World) -> None:
    assert world.run("--version").out == f"dflashctl {__version__}\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("bogus",), "No such command 'bogus'"),
        (("deploy", "--bogus"), "No such option: --bogus"),
        (("status", "extra"), "(extra). A target is named with -t."),
        (("completion", "tcsh"), "'tcsh' is not one of"),
        (("logs", "-n", "-1"), "-n"),
        (("logs", "-n", "many"), "-n"),
        (("--color", "blue", "status"), "'blue' is not one of"),
        (("-i",), "requires an argument"),
        (("inventory",), "Missing command"),
    ],
)
def test_a_usage_mistake_is_2_with_one_message(
    world: World, words: tuple[str, ...], message: str
) -> None:
    result = world.run(*words)
    assert result.code == 2
    assert message in result.err
    assert "See: dflashctl" in result.err
    assert "Traceback" not in result.err
    assert result.out == ""


def test_a_global_option_in_the_wrong_place_is_told_where_it_goes(world: World) -> None:
    assert "dflashctl --debug status" in world.run("status", "--debug").err
    assert "dflashctl -i PATH runs show" in world.run("runs", "show", "-i", "x").err


@pytest.mark.provokes("unknown_target")
def test_an_unknown_target_is_told_with_its_near_ones(world: World) -> None:
    result = world.run("status", "-t", "dflsh")
    assert result.code == 2
    assert "dflash" in result.err


@pytest.mark.provokes("no_file")
def test_no_inventory_is_told_with_the_places_looked_in(world: World) -> None:
    (world.cwd / "inventory" / "hosts.yml").unlink()
    result = world.run("status")
    assert result.code == 2
    assert result.err.count("looked in: ") == 2
    assert f"no inventory {world.cwd}/gone.yml" in world.run("-i", "gone.yml", "status").err


def test_the_inventory_of_the_option_is_read(world: World) -> None:
    other = world.cwd / "other.yml"
    other.write_text("version: 1\nhosts: {only: {connection: local}}\n", encoding="utf-8")
    assert "only" in world.run("-i", str(other), "inventory", "show").out
    world.environ["DFLASHCTL_INVENTORY"] = str(other)
    assert "only" in world.run("inventory", "show").out


def test_the_inventory_shows_the_ways_and_marks_the_default(world: World) -> None:
    out = world.run("inventory", "show").out
    assert "here *" in out
    assert "pct 200 on kpro6, ssh root@192.0.2.6" in out
    assert "ssh 192.0.2.61, via root@192.0.2.6" in out


@pytest.mark.parametrize("columns", ["40", "80"])
def test_a_name_too_long_for_a_table_stays_whole(world: World, columns: str) -> None:
    long = "a-machine-with-a-rather-long-name.training.example.org"
    hosts = world.cwd / "inventory" / "hosts.yml"
    hosts.write_text(hosts.read_text().replace("kpro6:\n", f"{long}:\n").replace(
        "proxy_jump: kpro6", f"proxy_jump: {long}"
    ))  # fmt: skip
    world.environ["COLUMNS"] = columns
    lines = world.run("inventory", "show").out.splitlines()
    assert f"{long}/dflash" in lines
    assert "  8 GPUs" in lines
    assert "here *" in lines


@pytest.mark.provokes("internal")
@pytest.mark.parametrize("verb", ["deploy", "status", "stop", "start", "logs"])
def test_a_fault_of_ours_is_one_line_without_a_traceback(world: World, verb: str) -> None:
    world.answers = [ZeroDivisionError("oh no")]
    world.log = [ZeroDivisionError("oh no")]
    result = world.run(verb)
    assert result.code == 1
    assert "a fault of dflashctl: ZeroDivisionError: oh no" in result.err
    assert "--debug" in result.err
    assert "Traceback" not in result.err


def test_debug_shows_the_traceback(world: World) -> None:
    world.answers = [ZeroDivisionError("oh\x1b]0;x\x07 no")]
    result = world.run("--debug", "status")
    assert result.code == 1
    assert "Traceback (most recent call last)" in result.err
    assert "\x1b" not in result.err


def test_a_fault_in_json_is_an_object(world: World) -> None:
    world.answers = [ZeroDivisionError("oh no")]
    result = world.run("status", "--json")
    assert json.loads(result.out)["error"]["code"] == "internal"


@pytest.mark.provokes("interrupted")
@pytest.mark.parametrize("verb", ["deploy", "status", "stop", "start"])
def test_ctrl_c_is_130_and_touches_nothing(world: World, verb: str) -> None:
    world.answers = [KeyboardInterrupt()]
    result = world.run(verb)
    assert result.code == 130
    assert "Nothing was touched" in result.err
    assert world.commits == []


def test_the_program_starts_as_a_module(tmp_path: Path) -> None:
    done = in_a_process("--version", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, f"dflashctl {__version__}\n")


def test_an_error_of_a_real_process_is_words_on_stderr_and_a_code(tmp_path: Path) -> None:
    done = in_a_process("status", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("error: there is no inventory here.\n")
    assert done.stdout == ""


@pytest.mark.parametrize("words", ["inventory show", "inventory show --json"])
def test_a_reader_that_leaves_early_is_no_error(world: World, words: str) -> None:
    program = f"{sys.executable} -m dflashctl {words}"
    done = subprocess.run(
        ("bash", "-c", f'sleep 0.3 | {{ {program}; echo "code $?" >&2; }} | true'),
        cwd=world.cwd,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": str(world.cwd)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == "code 0\n"


def test_outside_a_test_the_world_is_the_process_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DFLASHCTL_INVENTORY", str(tmp_path / "none.yml"))
    try:
        assert main(["inventory", "show"]) == 2
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert "none.yml" in capsys.readouterr().err


def test_a_call_without_a_verb_knows_no_verb() -> None:
    assert Call(environ={}, cwd=Path()).command == ""
