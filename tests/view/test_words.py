"""Each error of the tree has words of its own, and they say what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import MISSING, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from dflashctl import errors
from dflashctl.agent import protocol
from dflashctl.errors import (
    BadFile,
    DflashError,
    Fault,
    HostKeyChanged,
    Interrupted,
    LinkLost,
    Refusal,
    Refused,
    UnknownTarget,
    Unverified,
)
from dflashctl.view.words import words_for

EXAMPLES: dict[str, Any] = {
    "faults": (Fault(path=Path("hosts.yml"), line=7, where="hosts.a.port", message="not a port"),),
    "refusals": (Refusal(code="x", message="GPU 3 is held by eve", remedy="ask eve"),),
    "wanted": ("<wanted>",),
    "looked_in": ("./inventory",),
    "known": ("alpha", "beta"),
    "candidates": ("h1/x", "h2/x"),
    "named": ("alpha", "beta"),
    "failure": "died_early",
    "detail": {},
    "path": Path("deploy.yml"),
    "vmid": 200,
    "port": 22,
    "line": 3,
    "run_id": None,
}


def every_class(root: type[DflashError] = DflashError) -> Iterator[type[DflashError]]:
    yield root
    for below in root.__subclasses__():
        yield from every_class(below)


def example(kind: type[DflashError], **changes: Any) -> DflashError:
    """One error of the class, each field filled with something to be recognised."""
    values: dict[str, Any] = {}
    hints = get_type_hints(kind, vars(errors) | {"Path": Path})
    for name, field in getattr(kind, "__dataclass_fields__", {}).items():
        if hints[name] is str and name == "detail":
            values[name] = "<detail>"
        elif field.default is MISSING or name in EXAMPLES:
            values[name] = EXAMPLES.get(name, f"<{name}>")
    return kind(**(values | changes))


CLASSES = list(every_class())
LEAVES = [kind for kind in CLASSES if not kind.__subclasses__() or is_dataclass(kind)]


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    drawn = set(re.findall(r"\b[A-Z][A-Za-z]+\b", errors.__doc__ or ""))
    assert {kind.__name__ for kind in CLASSES} <= drawn


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_class_has_words_and_something_to_do_next(kind: type[DflashError]) -> None:
    words = words_for(example(kind))
    assert words.message.endswith((".", ">"))
    assert len(words.next) > 10


def test_no_two_classes_share_their_words() -> None:
    said = [words_for(example(kind)).message for kind in LEAVES]
    assert len(set(said)) == len(LEAVES)


@pytest.mark.parametrize("kind", LEAVES, ids=lambda kind: kind.__name__)
def test_the_words_name_the_target(kind: type[DflashError]) -> None:
    error = example(kind)
    if kind is Interrupted or issubclass(kind, errors.HostKeyProblem | errors.NotLetIn):
        return  # these name the host, or nothing was begun
    words = words_for(error)
    text = " ".join((words.message, *words.details, words.next))
    assert "<target>" in text or not hasattr(error, "target")


def failure_codes() -> list[str]:
    """All codes that the protocol lists for `Failure`."""
    listed = (protocol.Failure.__doc__ or "").partition("holds:")[2]
    return re.findall(r"``([a-z_]+)``", listed)


def test_the_protocol_lists_its_failures() -> None:
    assert {"still_alive", "died_early", "internal"} <= set(failure_codes())


@pytest.mark.parametrize("code", failure_codes())
def test_every_failure_of_a_transaction_has_words_of_its_own(code: str) -> None:
    words = words_for(example(Unverified, failure=code, detail={}))
    assert f": {code}." not in words.message
    assert "state <state>" in words.next


def test_a_failure_that_nobody_listed_is_still_named() -> None:
    assert "sunspots" in words_for(example(Unverified, failure="sunspots")).message


def test_a_run_that_died_early_says_how_and_shows_its_last_lines() -> None:
    detail: dict[str, object] = {"exit_code": 1, "signal": None, "after_s": 2.1}
    words = words_for(example(Unverified, detail=detail, log_tail=("KeyError: 'x'",)))
    assert "after 2.1 s, with exit code 1" in words.message
    assert any("KeyError: 'x'" in line for line in words.details)


def test_a_full_disk_is_called_one_and_says_how_much_is_missing() -> None:
    detail: dict[str, object] = {"path": "/root", "free": 1000, "needed": 5_000_000}
    words = words_for(example(Unverified, failure="disk_full", detail=detail))
    assert "the disk is full: /root (1.0 kB free, 5.0 MB needed)" in words.message


def test_who_holds_a_gpu_is_named() -> None:
    detail: dict[str, object] = {"holders": [{"pid": 12, "name": "python3"}]}
    words = words_for(example(Unverified, failure="gpu_held", detail=detail))
    assert "python3 (pid 12)" in words.message


def test_every_mistake_of_a_file_stands_on_a_line_with_its_place() -> None:
    faults = (*EXAMPLES["faults"], Fault(path=Path("hosts.yml"), line=0, where="", message="odd"))
    words = words_for(BadFile(kind="inventory", faults=faults))
    assert words.details == ("hosts.yml:7: hosts.a.port: not a port", "hosts.yml: odd")
    assert "2 mistakes" in words.message


def test_a_near_name_is_suggested() -> None:
    words = words_for(UnknownTarget(name="dflsh", known=("dflash",), close=("dflash",)))
    assert "Did you mean dflash?" in words.next


def test_a_lost_link_says_whether_a_transaction_goes_on() -> None:
    begun = words_for(example(LinkLost, transaction="t-1"))
    assert "goes on over there" in begun.next
    assert "Nothing was changed" in words_for(example(LinkLost)).next


def test_a_changed_host_key_shows_both_and_quotes_the_remedy() -> None:
    error = example(HostKeyChanged, host="h", port=2222, known_hosts="/my keys", line=3)
    words = words_for(error)
    assert any("<fingerprint>" in line for line in words.details)
    assert any("<expected>" in line for line in words.details)
    assert "ssh-keygen -f '/my keys' -R '[h]:2222'" in words.next


def test_a_refusal_gives_each_reason_with_its_remedy() -> None:
    error = example(Refused)
    assert words_for(error).details == ("GPU 3 is held by eve", "  ask eve")


def test_an_interruption_says_whether_something_goes_on() -> None:
    assert "Nothing was touched" in words_for(Interrupted()).next
    assert "goes on" in words_for(Interrupted(target="t", committed=True)).message


def test_a_run_that_ended_well_too_early_is_perhaps_only_short() -> None:
    detail: dict[str, object] = {"exit_code": 0, "after_s": 2.1}
    assert "ready.alive_for" in words_for(example(Unverified, detail=detail)).next
