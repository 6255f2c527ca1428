from __future__ import annotations

import unicodedata

from hypothesis import example, given
from hypothesis import strategies as st

from dflashctl.view.sanitize import Cleaner, clean, one_line

# Texts in which sequences, cut sequences and ordinary text are all likely.
PIECES = st.sampled_from(
    ["\x1b[31m", "\x1b[0m", "\x1b]0;title\x07", "\x1b]52;c;aGk=\x1b\\", "\x1bP1$r\x1b\\", "\x9b2J",
     "\x1b(B", "\x1b", "\x1b[", "\x1b]", "\r", "\n", "\r\n", "\t", "\x00", "\x7f", "\x85", "\u202e",
     "loss", "2.5", "é", "日本", "[bold]", ";", "\\"]
)  # fmt: skip
TEXTS = st.lists(PIECES | st.text(max_size=5), max_size=30).map("".join)


def is_harmless(letter: str) -> bool:
    return letter in "\n\t" or unicodedata.category(letter) not in ("Cc", "Cs")


@given(TEXTS)
def test_nothing_that_a_terminal_obeys_gets_through(text: str) -> None:
    assert all(is_harmless(letter) for letter in clean(text))


@given(TEXTS)
def test_clean_text_stays_as_it_is(text: str) -> None:
    assert clean(clean(text)) == clean(text)


@given(TEXTS, st.lists(st.integers(0, 200), max_size=6))
@example("\r\x1b[31m\r\x1b[31m", [2])
@example("50%\r\x1b[0m\n", [4])
def test_it_does_not_matter_where_a_stream_is_cut(text: str, cuts: list[int]) -> None:
    cleaner, begin, found = Cleaner(), 0, ""
    for cut in (*sorted(cuts), len(text)):
        found += cleaner.feed(text[begin:cut])
        begin = max(begin, cut)
    assert found + cleaner.end() == clean(text)


@given(st.text(st.characters(exclude_categories=("C", "Z"))))
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert clean(text) == text


def test_a_title_and_a_clipboard_write_vanish_whole() -> None:
    assert clean("a\x1b]0;owned\x07b\x1b]52;c;cm0gLXJm\x1b\\c") == "abc"


def test_colours_vanish_and_their_text_stays() -> None:
    assert clean("\x1b[1;31merror\x1b[0m: x") == "error: x"


def test_an_unended_title_does_not_swallow_the_next_line() -> None:
    assert clean("\x1b]0;never ended\nstep 10") == "\nstep 10"


def test_a_flood_without_an_end_is_not_kept_in_memory() -> None:
    cleaner = Cleaner()
    cleaner.feed("\x1b]0;")
    for _ in range(100):
        cleaner.feed("x" * 1000)
    assert len(cleaner.end()) <= 4096


def test_line_ends_of_a_terminal_become_newlines() -> None:
    assert clean("a\r\nb\r\r\nc") == "a\nb\nc"


def test_a_progress_bar_becomes_lines_on_a_pipe() -> None:
    assert clean("10%\r20%\r30%\n") == "10%\n20%\n30%\n"


def test_a_progress_bar_redraws_its_line_on_a_terminal() -> None:
    cleaner = Cleaner("\r")
    assert cleaner.feed("10%\r20%\r\n") + cleaner.end() == "10%\r20%\n"


def test_marks_that_turn_the_reading_direction_are_dropped() -> None:
    assert clean("abc\u202etxt.exe\u2066") == "abctxt.exe"


def test_one_line_is_one_line() -> None:
    assert one_line("  a\n\tb \x1b[2Jc\r\nd ") == "a b c d"
