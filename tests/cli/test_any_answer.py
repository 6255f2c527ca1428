"""A target may answer anything that has the shape of an answer: it is shown, or refused.

No value of any size and no text ends as a fault of ours, and nothing that a terminal obeys
reaches it.
"""

from __future__ import annotations

import dataclasses
import json
import tempfile
import typing
import unicodedata
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dflashctl.agent.protocol import Failure, Outcome
from dflashctl.agent.recorded import RunRecord
from dflashctl.agent.seen import Observed
from tests.cli.world import World, make

pytestmark = pytest.mark.hostile

NASTY = [
    *("\x1b]52;c;aGk=\x07", "\x1b[2J", "\x9b31m", "\r", "\n", "\t", "\x00", "\x7f", "\udc80"),
    *("\u202e", "[bold]", "", "..", "/", "-rf", "é", "日本", "x" * 300),
    "2026-11-29T1206Z-dflash-k3f9",
]
TEXT = st.lists(st.sampled_from(NASTY) | st.characters(), max_size=4).map("".join)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
NUMBERS = FINITE | st.sampled_from([0.0, -1.0, 1e300, 2.0**63, 1e18])
COUNTS = st.integers(-(2**63), 2**63) | st.integers(-2, 2000)
JSON = st.recursive(
    st.none() | st.booleans() | COUNTS | NUMBERS | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
FEW = settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow,
                           HealthCheck.data_too_large],
)  # fmt: skip


@cache
def any_of(kind: Any) -> st.SearchStrategy[Any]:
    """Any value of a type that the wire lets through."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return JSON
    if origin is tuple:
        return st.lists(st.deferred(lambda: any_of(args[0])), max_size=2).map(tuple)
    if origin is dict:
        return st.dictionaries(TEXT, any_of(args[1]), max_size=2)
    if origin is typing.Literal:
        return st.sampled_from(args)
    if origin is not None:
        return st.one_of([any_of(arg) for arg in args])
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        build: Any = kind
        return st.builds(build, **{name: any_of(hint) for name, hint in hints.items()})
    scalars: dict[Any, st.SearchStrategy[Any]] = {
        float: NUMBERS, int: COUNTS, str: TEXT, type(None): st.none()
    }  # fmt: skip
    return scalars.get(kind, st.from_type(kind))


OBSERVED = any_of(Observed)
OUTCOME = st.builds(
    Outcome,
    run_id=st.none() | TEXT,
    failed_at=st.none() | st.integers(0, 9),
    failure=st.none() | any_of(Failure),
    observed=OBSERVED,
)


def world(capsys: pytest.CaptureFixture[str]) -> World:
    return make(Path(tempfile.mkdtemp(prefix="dflash-any-", dir="/tmp")), capsys)


def harmless(text: str) -> bool:
    return all(one in "\n\t" or unicodedata.category(one) not in ("Cc", "Cs") for one in text)


def shown(there: World, *words: str) -> None:
    """The command ends in words, and not in a fault of ours."""
    done = there.run("--color", "never", *words)
    # That it does not hold what was asked for is not to be taken for anything else.
    assert done.code != 1 or "the look left out" in done.err, done.err
    assert harmless(done.out), repr(done.out)
    assert harmless(done.err), repr(done.err)
    if "--json" in words:
        assert json.loads(done.out)["exit_code"] == done.code


@pytest.mark.parametrize(
    "words",
    [
        ("status",),
        ("status", "--json"),
        ("deploy", "--dry-run"),
        ("deploy", "--restart", "--clear-checkpoints", "--dry-run", "--json"),
        ("doctor",),
        ("checkpoints", "list"),
        ("checkpoints", "list", "--json"),
        ("checkpoints", "prune", "--dry-run"),
        ("checkpoints", "restore", "one", "--dry-run"),
    ],
    ids=" ".join,
)
def test_any_look_is_shown_or_refused(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]):
    there = world(capsys)

    @FEW
    @given(OBSERVED)
    def any_look(seen: Observed) -> None:
        there.answers = [seen]
        shown(there, *words)

    any_look()


@pytest.mark.parametrize("words", [("deploy", "--restart"), ("deploy", "--json"), ("stop",)])
def test_any_outcome_is_told(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]):
    there = world(capsys)

    @FEW
    @given(OUTCOME)
    def any_outcome(outcome: Outcome) -> None:
        there.commit = lambda _, __: outcome
        shown(there, *words)

    any_outcome()


@pytest.mark.parametrize(
    "words",
    [
        ("runs", "list"),
        ("runs", "list", "--json"),
        ("runs", "show", "@1"),
        ("runs", "diff", "@1", "@2"),
        ("rollback", "--dry-run"),
    ],
    ids=" ".join,
)
def test_any_records_are_shown(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]):
    there = world(capsys)

    @FEW
    @given(st.lists(any_of(RunRecord), min_size=1, max_size=3))
    def any_records(records: list[RunRecord]) -> None:
        there.records = records
        shown(there, *words)

    any_records()
