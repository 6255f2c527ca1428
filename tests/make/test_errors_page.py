"""docs/errors.md is what the program says, and a test provokes each of its rows."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from make import errors_page

TESTS = Path(__file__).parents[1]
ROWS = {
    *(kind.code for kind in errors_page.kinds()),
    *(f"unverified.{code}" for code in errors_page.failures()),
    *(f"refused.{code}" for code in errors_page.refusals()),
}


def provoked() -> Iterator[tuple[str, str]]:
    """Each row that a test says it provokes, and where."""
    for path in TESTS.rglob("test_*.py"):
        text = path.read_text(encoding="utf-8")
        if "provokes(" not in text:
            continue
        for part in ast.walk(ast.parse(text)):
            if isinstance(part, ast.Call) and ast.unparse(part.func) == "pytest.mark.provokes":
                for argument in part.args:
                    yield ast.literal_eval(argument), f"{path.name}:{part.lineno}"


def test_the_page_is_what_the_program_says() -> None:
    found = errors_page.PAGE.read_text(encoding="utf-8")
    assert found == errors_page.page(), "words of an error have changed: run `make docs`"


def test_no_line_of_an_example_is_wider_than_a_terminal() -> None:
    for kind in errors_page.kinds():
        for error in errors_page.examples(kind):
            lines = errors_page.told(error).splitlines()
            assert [line for line in lines if len(line) > errors_page.COLUMNS] == []


def test_each_row_is_provoked_by_a_test_and_no_test_provokes_what_is_not_there() -> None:
    found = dict(provoked())
    missing = sorted(ROWS - found.keys())
    assert missing == [], f'mark a test that provokes it: @pytest.mark.provokes("{missing[0]}")'
    assert {code: where for code, where in found.items() if code not in ROWS} == {}
