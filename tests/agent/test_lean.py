"""What is defined cheaply is used as any frozen dataclass is."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import pytest

from dflashctl.agent.lean import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Lean:
    """As below."""

    name: str
    secret: str = field(default="s", repr=False)
    many: dict[str, int] = field(default_factory=dict)
    aside: int = field(default=0, compare=False)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Usual:
    """As above."""

    name: str
    secret: str = dataclasses.field(default="s", repr=False)
    many: dict[str, int] = dataclasses.field(default_factory=dict)
    aside: int = dataclasses.field(default=0, compare=False)


BOTH = pytest.mark.parametrize("kind", [Lean, Usual])


@BOTH
def test_it_is_a_dataclass(kind: Any):
    one: Any = kind(name="a", many={"b": 1})
    assert dataclasses.fields(kind) == dataclasses.fields(one)
    assert [f.name for f in dataclasses.fields(one)] == ["name", "secret", "many", "aside"]
    assert dataclasses.replace(one, name="c") == kind(name="c", many={"b": 1})
    assert dataclasses.asdict(one) == {"name": "a", "secret": "s", "many": {"b": 1}, "aside": 0}


@BOTH
def test_equal_is_what_has_equal_fields_and_the_same_class(kind: Any):
    assert kind(name="a") == kind(name="a", aside=7)
    assert kind(name="a") != kind(name="b")
    assert kind(name="a") != ("a", "s", {}, 0)
    other: object = Usual(name="a") if kind is Lean else Lean(name="a")
    assert kind(name="a") != other


@BOTH
def test_hashes_are_those_of_the_fields(kind: Any):
    with pytest.raises(TypeError, match="unhashable type: 'dict'"):
        hash(kind(name="a"))
    assert hash(kind(name="a", many=())) == hash(kind(name="a", many=(), aside=3))


@BOTH
def test_what_is_not_to_be_shown_is_not(kind: Any):
    assert repr(kind(name="a")) == f"{kind.__name__}(name='a', many={{}}, aside=0)"


@BOTH
def test_it_is_frozen_and_has_no_room_for_more(kind: Any):
    one = kind(name="a")
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.name = "b"
    with pytest.raises(dataclasses.FrozenInstanceError):
        del one.name
    assert not hasattr(one, "__dict__")


@BOTH
@pytest.mark.parametrize("values", [{}, {"nam": "a"}, {"name": "a", "more": 1}])
def test_missing_and_unknown_fields_are_refused(kind: Any, values: dict[str, Any]):
    with pytest.raises(TypeError):
        kind(**values)


@BOTH
def test_words_without_names_are_refused(kind: Any):
    with pytest.raises(TypeError):
        kind("a")


@BOTH
def test_each_has_a_default_of_its_own(kind: Any):
    assert kind(name="a").many is not kind(name="b").many


@BOTH
def test_it_can_be_copied_and_pickled(kind: Any):
    one = kind(name="a", secret="t", many={"b": 1}, aside=3)
    for other in (copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        assert (other, other.aside) == (one, 3)


@BOTH
def test_it_is_matched_by_its_fields(kind: Any):
    match kind(name="a"):
        case Lean(name=name) | Usual(name=name):
            assert name == "a"
        case _:
            pytest.fail("it did not match")
