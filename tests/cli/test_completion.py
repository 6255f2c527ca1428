"""Completion as the shells do it, and what it knows."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dflashctl.cli import memory
from dflashctl.cli.completion_scripts import SCRIPTS
from tests.cli.world import INVENTORY, World
from tests.lab.terminal import on_terminal

FISH_PROMPT = "function fish_prompt; echo 'ready> '; end"
ROOT = Path(__file__).parents[2]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with an inventory, playbooks and some files, and the program in ``bin``."""
    (tmp_path / "inventory").mkdir()
    (tmp_path / "inventory" / "hosts.yml").write_text(INVENTORY)
    (tmp_path / "playbooks").mkdir()
    for name in ("deploy.yml", "eval.yaml", "notes.txt"):
        (tmp_path / "playbooks" / name).write_text("name: x\n")
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "dflashctl"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m dflashctl "$@"\n')
    program.chmod(0o755)
    return tmp_path


def environment(place: Path) -> dict[str, str]:
    return {
        "PATH": f"{place}/bin:{os.environ['PATH']}", "HOME": str(place), "PYTHONPATH": str(ROOT),
        "TERM": "dumb",
    }  # fmt: skip


def asked(place: Path, *words: str) -> tuple[int, list[str]]:
    """What the program answers to a shell; the last word is the unfinished one."""
    done = subprocess.run(
        [sys.executable, "-m", "dflashctl", *words],
        cwd=place, env=environment(place) | {"_DFLASHCTL_COMPLETE": "bash"},
        capture_output=True, text=True, check=False, timeout=30,
    )  # fmt: skip
    assert done.stderr == ""
    return done.returncode, [line.partition("\t")[0] for line in done.stdout.splitlines()]


def test_targets_groups_and_containers_by_their_own_name(place: Path) -> None:
    everything = ["here", "kpro6", "kpro6/dflash", "dflash", "kpro6/eval", "eval", "training"]
    assert asked(place, "status", "-t", "") == (0, everything)
    assert asked(place, "stop", "--target", "kpro6/") == (0, ["kpro6/dflash", "kpro6/eval"])
    assert asked(place, "stop", "--target=x", "-t", "=") == (0, everything)


def test_hosts_are_those_of_the_inventory_and_of_ssh(place: Path) -> None:
    (place / ".ssh").mkdir()
    (place / ".ssh" / "config").write_text("Host kpro7 *.lab\n  User root\nhost=box\n")
    assert asked(place, "inventory", "trust", "kpro") == (
        0,
        ["kpro6", "kpro6/dflash", "kpro6/eval", "kpro7"],
    )
    assert asked(place, "init", "--host", "b") == (0, ["box"])
    assert not {"*.lab"} & set(asked(place, "init", "--host", "")[1])


def test_verbs_options_and_their_choices(place: Path) -> None:
    assert asked(place, "sta") == (0, ["status", "start"])
    assert asked(place, "inventory", "sh") == (0, ["show"])
    assert asked(place, "deploy", "--re") == (0, ["--restart"])
    assert asked(place, "--color", "") == (0, ["auto", "always", "never"])
    assert asked(place, "--color", "never", "--debug", "lo") == (0, ["logs"])


def test_where_a_path_belongs_the_shells_own_files_fit(place: Path) -> None:
    assert asked(place, "-i", "") == (1, [])
    found = asked(place, "deploy", "-p", "play")
    assert found == (1, ["playbooks/deploy.yml", "playbooks/eval.yaml"])
    assert asked(place, "play", "play") == found
    assert asked(place, "exec", "-t", "dflash", "--", "l") == (1, [])


def test_runs_are_those_that_earlier_commands_met_on_that_target(place: Path) -> None:
    home = {"HOME": str(place)}
    memory.remember(home, "runs", "kpro6/dflash", ["run-2", "run-1"])
    memory.add(home, "runs", "here", "run-9")
    assert asked(place, "logs", "-t", "dflash", "--run", "") == (0, ["run-2", "run-1"])
    assert asked(place, "logs", "--run", "run-9") == (0, ["run-9"])
    assert asked(place, "runs", "show", "") == (0, ["last", "previous", "run-2", "run-1", "run-9"])
    assert asked(place, "runs", "diff", "run-1", "pre") == (0, ["previous"])


@pytest.mark.parametrize(
    "text",
    ["hosts: [", "hosts: 7", "hosts: {a: {containers: {b: }}}", "", "- x", "a: !!python/x 1"],
)
def test_a_broken_inventory_is_no_trouble(place: Path, text: str) -> None:
    (place / "inventory" / "hosts.yml").write_text(text)
    code, found = asked(place, "status", "-t", "x")
    assert (code, found) == (0, [])


def test_no_name_can_be_more_than_a_word(place: Path) -> None:
    (place / "inventory" / "hosts.yml").write_text("hosts: {'$(touch x)': {}, 'a b': {}, ok: {}}")
    assert asked(place, "status", "-t", "") == (0, ["ok"])


def test_a_command_that_meets_a_run_keeps_it_in_mind(world: World) -> None:
    from tests.plan.scenes import BUSY

    world.answers = [BUSY]
    world.run("status", "--all")
    assert BUSY.run is not None
    assert memory.recall(world.environ, "runs", ["here"]) == [BUSY.run.id]
    assert memory.recall(world.environ, "runs") == [BUSY.run.id] * 4


def test_memory_that_is_broken_or_cannot_be_kept_is_no_trouble(tmp_path: Path) -> None:
    home = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    memory.remember(home, "runs", "box", (f"r{number}" for number in range(1000)))
    assert memory.recall(home, "runs") == [f"r{number}" for number in range(memory.MOST)]
    (tmp_path / "cache" / "dflashctl" / "names.json").write_text('{"runs": {"box": 7}}')
    assert memory.recall(home, "runs") == []
    (tmp_path / "file").write_text("")
    nowhere = {"XDG_CACHE_HOME": str(tmp_path / "file")}
    memory.add(nowhere, "runs", "box", "r1")
    assert memory.recall(nowhere, "runs") == []


def test_completion_imports_nothing_heavy(place: Path) -> None:
    program = (
        "import sys; sys.argv = ['dflashctl', 'status', '-t', '']\n"
        "from dflashctl.cli.main import main\n"
        "main(); print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=place, env=environment(place) | {"_DFLASHCTL_COMPLETE": "bash"},
        capture_output=True, text=True, check=True, timeout=30,
    )  # fmt: skip
    assert "training\t" in done.stdout
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    assert {"typer", "yaml"} <= loaded
    # The classes of the errors alone take a tenth of the time.
    assert "dflashctl.errors" not in done.stderr.split()
    assert not loaded & {"pydantic", "fabric", "paramiko", "rich", "libtmux", "numpy", "asyncio"}


def test_bash_completes(place: Path) -> None:
    script = (
        f"{SCRIPTS['bash']}\n"
        'ask() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _dflashctl dflashctl "${@: -1}" "";'
        ' echo "${COMPREPLY[@]}"; }\n'
        "ask dflashctl stop -t kpro6/\nask dflashctl de"
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        cwd=place, env=environment(place), capture_output=True, text=True, check=True, timeout=30,
    )  # fmt: skip
    assert done.stdout.splitlines() == ["kpro6/dflash kpro6/eval", "deploy"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_tab_key_completes(place: Path, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here")
    script = place / "script"
    script.write_text(SCRIPTS[shell])
    words, ready = {
        "bash": ("bash --norc -i", f"source {script}; PS1='ready> '\n"),
        "zsh": ("zsh -f -i", f"autoload -U compinit; compinit -u; . {script}; PS1='ready> '\n"),
        "fish": ("fish --no-config -i", f"source {script}; {FISH_PROMPT}\n"),
    }[shell]  # fmt: skip
    with on_terminal(
        words.split(), env=environment(place) | {"PWD": str(place)}, columns=120
    ) as terminal:
        terminal.type(f"cd {place}; {ready}")
        terminal.wait_for(r"ready> (?s:.*)ready> " if shell != "zsh" else r"ready> ")
        terminal.type("dflashctl inventory sh\t--js\t")
        terminal.wait_for(r"inventory show.*--json")
        terminal.type("; dflashctl stop -t kpro6/ev\t")
        terminal.wait_for(r"kpro6/eval")
