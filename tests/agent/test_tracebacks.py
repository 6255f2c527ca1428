from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dflashctl.agent.tracebacks import LONGEST, MOST, Errors


def found(text: str) -> list[str]:
    errors = Errors()
    for line in text.splitlines():
        errors.feed(line)
    return errors.found()


CHAINED = """\
step 1 loss 2.0
Traceback (most recent call last):
  File "t.py", line 1, in f
    f()
KeyError: 'a'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "t.py", line 2, in g
RuntimeError: CUDA error: an illegal memory access was encountered
step 2 loss 2.0
"""


def test_a_chain_of_exceptions_is_one_error() -> None:
    (block,) = found(CHAINED)
    assert block.startswith("Traceback")
    assert "KeyError: 'a'" in block
    assert block.endswith("illegal memory access was encountered\n\n")
    assert "step" not in block


def test_errors_that_differ_in_numbers_alone_are_one() -> None:
    (block,) = found(CHAINED + CHAINED.replace("line 2", "line 2").replace("step 1", "step 9"))
    assert block.startswith("-- 2 times:\n")


def test_two_that_follow_one_another_are_two() -> None:
    one = "Traceback (most recent call last):\n  File 'a'\nValueError: x\n"
    assert len(found(one + one.replace("Value", "Type"))) == 2


def test_words_of_trouble_stand_alone() -> None:
    text = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried\n[rank5]: Segmentation fault\nall well\n"
    )
    assert found(text) == [
        "torch.OutOfMemoryError: CUDA out of memory. Tried\n\n",
        "-- rank 5:\nSegmentation fault\n\n",
    ]


def test_a_traceback_that_is_cut_is_told_as_far_as_it_came() -> None:
    assert found("Traceback (most recent call last):\n  File 'a'\n") == [
        "Traceback (most recent call last):\n  File 'a'\n\n"
    ]


def test_what_never_ends_takes_limited_room() -> None:
    endless = "Traceback (most recent call last):\n" + "  more\n" * 10_000
    assert found(endless)[0].count("\n") <= LONGEST + 2
    many = "".join(f"{'x' * n}Error: y\n" for n in range(1, 500))
    assert len(found(many)) == MOST


@given(st.lists(st.sampled_from([*CHAINED.splitlines(), "[rank1]: x", "1: Error: y", ""])))
def test_lines_in_any_order_do_no_harm(lines: list[str]) -> None:
    found("\n".join(lines))
