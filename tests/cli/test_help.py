"""The help of every command: it fits, it is whole, and it is quick."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from dflashctl.cli.main import app
from tests.cli.world import World

ROOT = Path(__file__).parents[2]
HEAVY = {"rich", "yaml", "fabric", "paramiko", "libtmux", "numpy"}


def commands(command: Any = None, *path: str) -> Iterator[tuple[str, Any]]:
    """Each command with the words that lead to it."""
    command = command or typer.main.get_command(app)
    yield " ".join(path), command
    for name, below in getattr(command, "commands", {}).items():
        yield from commands(below, *path, name)


COMMANDS = dict(commands())


@pytest.mark.parametrize("words", COMMANDS)
def test_it_fits_80_columns_and_nothing_is_cut(world: World, words: str) -> None:
    result = world.run(*words.split(), "-h")
    assert result.code == 0
    assert result.out.startswith(f"Usage: dflashctl {words}".rstrip())
    assert max(map(len, result.out.splitlines())) <= 80
    listed = result.out.partition("\nCommands:\n")[2].splitlines()
    assert [line for line in listed if line.endswith("...")] == [], "give it a short_help in main"


@pytest.mark.parametrize("words", COMMANDS)
def test_every_option_and_argument_says_what_it_is_for(words: str) -> None:
    command = COMMANDS[words]
    assert command.help or command.callback.__doc__
    silent = [one.opts for one in command.params if not one.hidden and not one.help]
    assert silent == []


def test_short_and_long_help_are_the_same(world: World) -> None:
    assert world.run("-h").out == world.run("--help").out


@pytest.mark.parametrize("words", ["--help", "--version", "deploy --help", "runs diff -h"])
def test_it_loads_nothing_heavy(tmp_path: Path, words: str) -> None:
    code = (
        "import sys; from dflashctl.cli.main import main; main(sys.argv[1:]); "
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        (sys.executable, "-c", code, *words.split()),
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    # To read the options before a verb, typer itself needs pydantic.
    assert not loaded & (HEAVY | ({"pydantic", "asyncio"} if words.startswith("--") else set()))
    assert "typer" in loaded
