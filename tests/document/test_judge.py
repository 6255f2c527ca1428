from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from dflashctl.document.judge import close_matches, did_you_mean, judge, named
from dflashctl.document.read import read_document

if TYPE_CHECKING:
    from pathlib import Path


def even(value: int) -> int:
    if value % 2:
        raise ValueError(f"must be even, not {value}")
    return value


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Hub(Strict):
    width: int


class Wheel(Strict):
    spokes: Annotated[int, AfterValidator(even)]
    color: Literal["black", "white", "red"] = "black"
    size: Literal["big", "small"] = "big"
    maker: str | None = None
    hub: Hub | None = None


class Cart(Strict):
    version: Literal[1] = 1
    wheels: list[Wheel] = []
    spare: Wheel | None = None
    by_name: dict[str, Wheel] = {}


def complaints(tmp_path: Path, text: str) -> list[tuple[int, str, str]]:
    path = tmp_path / "cart.yml"
    path.write_text(text)
    document = read_document(path, "cart")
    with pytest.raises(ValidationError) as caught:
        Cart.model_validate(document.values)
    faults = judge(document, caught.value.errors(), Cart)
    return [(fault.line, fault.where, fault.message) for fault in faults]


def test_a_missing_field_is_told_in_the_line_of_what_lacks_it(tmp_path: Path) -> None:
    text = "wheels:\n  - spokes: 2\n  - color: white\n"
    assert complaints(tmp_path, text) == [(3, "wheels[1].spokes", "is missing")]


def test_an_unknown_field_comes_with_a_near_one_and_all_that_are_allowed(tmp_path: Path) -> None:
    ((line, where, message),) = complaints(
        tmp_path, "by_name:\n  left:\n    spokes: 2\n    colour: white\n"
    )
    assert (line, where) == (4, "by_name.left.colour")
    assert message == (
        "unknown field; did you mean color? (allowed: spokes, color, size, maker, hub)"
    )


def test_an_unknown_field_near_to_nothing_still_tells_what_is_allowed(tmp_path: Path) -> None:
    assert complaints(tmp_path, "xyz: 1\n") == [
        (1, "xyz", "unknown field (allowed: version, wheels, spare, by_name)")
    ]


def test_what_is_allowed_is_told_for_the_innermost_mapping(tmp_path: Path) -> None:
    (complaint,) = complaints(tmp_path, "spare:\n  spokes: 2\n  hub: {width: 1, widht: 2}\n")
    assert complaint == (
        3,
        "spare.hub.widht",
        "unknown field; did you mean width? (allowed: width)",
    )


def test_a_number_as_a_field_is_an_unknown_field(tmp_path: Path) -> None:
    (complaint,) = complaints(tmp_path, "spare:\n  spokes: 2\n  7: 1\n")
    assert complaint == (3, "spare[7]", "unknown field (allowed: spokes, color, size, maker, hub)")


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ("spare: {spokes: two}", "spare.spokes", "must be a whole number, not 'two'"),
        ("spare: {spokes: 2.5}", "spare.spokes", "must be a whole number, not 2.5"),
        ("spare: {spokes: true}", "spare.spokes", "must be a whole number, not true"),
        ("spare: {spokes: 3}", "spare.spokes", "must be even, not 3"),
        ("spare: {spokes: [1]}", "spare.spokes", "must be a whole number, not a list"),
        ("spare: [1]", "spare", "must be a mapping (lines of `name: value`), not a list"),
        ("wheels: {a: 1}", "wheels", "must be a list, not a mapping"),
        ("by_name: x", "by_name", "must be a mapping (lines of `name: value`), not 'x'"),
        ("version: 2", "version", "must be 1, not 2"),
        ('version: "1"', "version", "must be 1, not '1'"),
        (
            "spare: {spokes: 2, size: smal}",
            "spare.size",
            "must be big or small, not 'smal'; did you mean small?",
        ),
        (
            "spare: {spokes: 2, color: 5}",
            "spare.color",
            "must be one of black, white, red, not 5",
        ),
        (
            "spare: {spokes: 2, maker: 1.50}",
            "spare.maker",
            'YAML reads 1.50 as a number: put it in quotes, "1.50"',
        ),
        (
            "spare: {spokes: 2, maker: true}",
            "spare.maker",
            'YAML reads true as a truth value: put it in quotes, "true"',
        ),
        ("spare: {spokes: 2, maker: [a]}", "spare.maker", "must be text, not a list"),
        (
            "by_name: {12: {spokes: 2}}",
            "by_name[12]",
            'YAML reads 12 as a number: put it in quotes, "12"',
        ),
    ],
)
def test_a_complaint_says_what_was_read_and_what_is_allowed(
    tmp_path: Path, text: str, where: str, message: str
) -> None:
    assert complaints(tmp_path, f"\n\n{text}\n") == [(3, where, message)]


def test_what_yaml_misread_is_not_complained_of_again(tmp_path: Path) -> None:
    assert complaints(tmp_path, "version: 2\nspare: {spokes: 010}\n") == [
        (1, "version", "must be 1, not 2")
    ]


def test_near_names_are_found_whatever_their_case() -> None:
    assert close_matches("DFLSH", ("eval", "dflash", "kpro6")) == ("dflash",)
    assert did_you_mean("kpro", ("other", "kpro7")) == "; did you mean kpro7?"
    assert did_you_mean("zebra", ("kpro6",)) == ""


def test_long_text_is_cut_in_a_message() -> None:
    assert named("x" * 61) == repr("x" * 57 + "...")
    assert named("x" * 60) == repr("x" * 60)
