"""Messages survive the wire, and nothing else passes for one."""

import dataclasses
import json
import typing
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dflashctl.agent import protocol, seen, wire

# As large as the wire lets through.
COUNTS = st.integers(-(2**63), 2**63)
MESSAGES = tuple(
    kind
    for kind in {**vars(protocol), **vars(seen)}.values()
    if isinstance(kind, type) and dataclasses.is_dataclass(kind)
)


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Any value of a message field's type."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return st.none() | COUNTS | st.text()
    if origin is tuple:
        return st.lists(values(args[0]), max_size=2).map(tuple)
    if origin is dict:
        return st.dictionaries(st.text(), values(args[1]), max_size=2)
    if origin is typing.Literal:
        return st.sampled_from(args)
    if origin is not None:
        return st.one_of([values(arg) for arg in args])
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        build: Any = kind
        return st.builds(build, **{name: values(hint) for name, hint in hints.items()})
    scalars: dict[Any, st.SearchStrategy[Any]] = {
        int: COUNTS,
        float: st.floats(allow_nan=False, allow_infinity=False),
        str: st.text(alphabet=st.characters()),  # undecodable file names are surrogates
        type(None): st.none(),
    }
    return scalars.get(kind, st.from_type(kind))


@settings(max_examples=30)
@given(st.data())
@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
def test_every_message_comes_back_as_it_was_sent(kind: Any, data: st.DataObject) -> None:
    message = data.draw(values(kind))
    line = wire.dump(message)
    assert line.count(b"\n") == 1
    assert wire.load(kind, line) == message


@given(st.binary() | st.text())
def test_garbage_is_never_taken_for_a_message(line: bytes | str) -> None:
    with pytest.raises(wire.WireError):
        wire.load(protocol.Request, line)


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body.pop("lines"),
        lambda body: body.update(extra=1),
        lambda body: body.update(lines="10"),
        lambda body: body.update(lines=True),
        lambda body: body.update(follow=None),
        lambda body: body.update({"is": "Observed"}),
        lambda body: body.pop("is"),
    ],
)
def test_a_message_with_a_field_missing_unknown_or_mistyped_is_refused(change: Any) -> None:
    body = json.loads(wire.dump(protocol.Logs(job="a", run_id=None, lines=10, follow=False)))
    change(body)
    with pytest.raises(wire.WireError):
        wire.load(protocol.Request, json.dumps(body))


def test_deep_nesting_is_refused_rather_than_overflowing_the_stack() -> None:
    with pytest.raises(wire.WireError):
        wire.load(protocol.Request, "[" * 100_000)


@given(values(seen.Observed))
def test_what_was_learnt_is_not_looked_up_when_a_message_comes(message: seen.Observed):
    wire._shape.cache_clear()
    wire.learn(seen.Observed)
    before = wire._shape.cache_info().misses
    wire.from_json(seen.Observed, wire.to_json(message))
    assert wire._shape.cache_info().misses == before


@pytest.mark.parametrize("number", ["1e400", "-1e400", "Infinity", "NaN"])
def test_a_number_without_an_end_is_refused_in_every_place_for_one(number: str) -> None:
    places: list[tuple[Any, str]] = [
        (float, number),
        (float | None, number),
        (tuple[float, ...], f"[0.5, {number}]"),
        (dict[str, float], f'{{"a": {number}}}'),
    ]
    for kind, line in places:
        with pytest.raises(wire.WireError):
            wire.load(kind, line)
