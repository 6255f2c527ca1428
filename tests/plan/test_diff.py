from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dflashctl.plan.diff import diff_text, placed_diffs
from tests.plan.scenes import NEW, OLD, TRAIN, placed

texts = st.text(alphabet="ab\n", max_size=60)


def applied(old: str, lines: tuple[str, ...]) -> list[str]:
    """What the lines of a unified diff make of a text."""
    before, after, at = old.splitlines(), [], 0
    for line in lines:
        if line.startswith("@@"):
            start = int(line.split("-")[1].split(" ")[0].split(",")[0])
            count = line.split("-")[1].split(" ")[0].partition(",")[2]
            start = start if count == "0" else start - 1
            after += before[at:start]
            at = start
        elif line.startswith("+"):
            after.append(line[1:])
        else:
            assert before[at] == line[1:]
            after += [line[1:]] if line.startswith(" ") else []
            at += 1
    return after + before[at:]


@given(texts, texts)
def test_a_diff_makes_the_new_text_of_the_old_one(old: str, new: str) -> None:
    diff = diff_text("/root/train.py", old, new)
    assert applied(old, diff.lines) == new.splitlines()
    assert len(new.splitlines()) - len(old.splitlines()) == (diff.added or 0) - (diff.removed or 0)


def test_only_what_surrounds_a_change_is_in_its_diff() -> None:
    old = "".join(f"line {number}\n" for number in range(100))
    diff = diff_text("/f", old, old.replace("line 50\n", "other\n"))
    assert (diff.added, diff.removed, len(diff.lines)) == (1, 1, 7)


def test_each_file_that_is_placed_says_what_becomes_of_it() -> None:
    def change(**there: object) -> str:
        (diff,) = placed_diffs((TRAIN,), {TRAIN.dest: placed(TRAIN, **there)}, {NEW: "new\n"})
        return diff.change

    assert change(sha256=None, mode=None) == "new"
    assert change(mode=0o600) == "mode"
    assert change(sha256=OLD, text="old\n") == "changed"
    assert change(sha256=OLD, text=None) == "not shown"
