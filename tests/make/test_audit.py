"""What was not looked up is never called clean."""

from __future__ import annotations

import json
from typing import Any

import pytest

from make.audit import Verdict, code, judge, told

CLEAN: dict[str, Any] = {"name": "rich", "version": "15.0.0", "vulns": []}
HOLE: dict[str, Any] = {
    "name": "yaml",
    "version": "1",
    "vulns": [{"id": "PYSEC-1"}, {"id": "CVE-2"}],
}
SKIPPED: dict[str, Any] = {
    "name": "numpy",
    "skip_reason": "Dependency not found and could not be audited",
}


def verdict(*packages: dict[str, Any]) -> Verdict:
    return judge(json.dumps({"dependencies": packages, "fixes": []}), "")


def test_all_looked_up_and_nothing_known_is_clean() -> None:
    assert told(verdict(CLEAN, CLEAN)) == ["clean: 2 packages, as far as is known"]
    assert code(verdict(CLEAN), allow_unaudited=False) == 0


def test_a_known_hole_fails_whatever_is_allowed() -> None:
    found = verdict(CLEAN, HOLE, SKIPPED)
    assert told(found)[0] == "known hole in yaml 1: PYSEC-1, CVE-2"
    assert code(found, allow_unaudited=True) == 1


@pytest.mark.parametrize(
    "found",
    [
        verdict(SKIPPED),
        verdict(),
        judge("", "ERROR:pip_audit:connection refused"),
        judge("{}", ""),
        judge("null", ""),
    ],
)
def test_what_was_not_looked_up_is_not_audited_and_never_clean(found: Verdict) -> None:
    text = "\n".join(told(found))
    assert text.startswith("not audited: ")
    assert "clean" not in text
    assert code(found, allow_unaudited=False) == 2
    assert code(found, allow_unaudited=True) == 0


def test_a_part_that_was_not_looked_up_is_told_beside_the_rest() -> None:
    assert code(verdict(CLEAN, SKIPPED), allow_unaudited=False) == 2
    assert [line.partition(":")[0] for line in told(verdict(CLEAN, SKIPPED))] == [
        "not audited",
        "clean",
    ]
