"""Each kind of fault that is known from the field is met by tests that are there."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.lessons import LESSONS

TESTS = Path(__file__).parent


def test_no_kind_of_fault_is_left_out() -> None:
    assert list(LESSONS) == list(range(1, 34))
    assert [number for number, lesson in LESSONS.items() if not lesson.tests] == []


@pytest.mark.parametrize("number", LESSONS)
def test_its_tests_are_there(number: int) -> None:
    """As pytest collects them: functions of a test module, that nothing skips for good."""
    for name in LESSONS[number].tests:
        path, _, function = name.partition("::")
        assert Path(path).name.startswith("test_")
        tree = ast.parse((TESTS / path).read_text(encoding="utf-8"))
        found = {one.name: one for one in tree.body if isinstance(one, ast.FunctionDef)}
        assert function in found, f"{path} has no {function}"
        marks = [ast.unparse(one) for one in found[function].decorator_list]
        assert not [mark for mark in marks if ".skip(" in mark or ".xfail" in mark], name
