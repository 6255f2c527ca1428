"""How long it takes until the program speaks, where no machine is asked."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tests.bench.speed.lab import dflashctl
from tests.bench.speed.table import times
from tests.bench.speed.timing import in_turns, ratio, run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.bench.speed.lab import Lab
    from tests.bench.speed.table import Book
    from tests.bench.speed.timing import Sample

COMPLETE = {"_DFLASHCTL_COMPLETE": "1"}
# What is asked for, the words, what more the environment says, and how many times typer's import.
_STARTS: tuple[tuple[str, tuple[str, ...], Mapping[str, str], float], ...] = (
    ("--help", ("--help",), {}, 3.5),
    ("--version", ("--version",), {}, 2.0),
    ("completion", ("status", "-t", ""), COMPLETE, 2.0),
)


def measure(lab: Lab, book: Book, runs: int, *, ours_only: bool) -> None:
    """Rows of --help, --version and completion."""

    def way(words: tuple[str, ...], more: Mapping[str, str]) -> Callable[[float], Sample]:
        return lambda _: run((*dflashctl(), *words), {**lab.environ, **more})

    ways = {name: way(words, more) for name, words, more, _ in _STARTS}
    typer = (sys.executable, "-c", "import typer")
    ways["import typer"] = lambda _: run(typer, lab.environ)
    for once in ways.values():
        once(0.0)  # compiled, and in the page cache
    found = in_turns(ways, (0.0,), 3 * runs)
    book.keep("starts", found)
    print(times(found), flush=True)
    for name, words, more, most in _STARTS:
        book.add(
            f"{name}: against `import typer`",
            ratio(found[name], found["import typer"], 0.0),
            "x",
            most=most,
            beside=f"{1000 * found[name].seconds(0.0):.0f} ms",
        )
        count = len(imported(words, {**lab.environ, **more}))
        book.add(f"{name}: modules imported", count, "")


def imported(words: tuple[str, ...], environ: Mapping[str, str]) -> set[str]:
    """The modules that a start of ours imports, as Python itself lists them."""
    listing = run((sys.executable, "-X", "importtime", "-m", "dflashctl", *words), environ).errors
    lines = [line.split("|") for line in listing.splitlines() if line.startswith("import time:")]
    return {line[2].strip() for line in lines if line[1].strip().isdigit()}
