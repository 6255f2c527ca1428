"""Text from elsewhere never reaches the terminal raw: no escape sequence, no control character.

What a target prints, what its files are called and what an error says there may hold
sequences that move the cursor, rename the window or write to the clipboard.
"""

from __future__ import annotations

import re

# Marks that turn the reading direction, and the line separators that no shell shows.
_DECEPTIVE = "\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069\u2028\u2029"
_SEQUENCE = re.compile(
    # CSI: colours, cursor movements
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    # OSC, DCS, SOS, PM, APC: a string up to its end, or up to what breaks it off
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x18\x1a\x1b\x9c\r\n]*(?:\x07|\x9c|\x1b\\)?"
    # the other escapes
    r"|\x1b[ -/]*[0-~]"
    # controls that stand alone, carriage return aside
    rf"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f{_DECEPTIVE}\ud800-\udfff]"
)
# A sequence that may go on in the next piece.
_OPEN = re.compile(
    r"(?:(?:\x1b\[|\x9b)[0-?]*[ -/]*"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x18\x1a\x1b\x9c\r\n]*\x1b?"
    r"|\x1b[ -/]*)\Z"
)
_LONGEST_OPEN = 4096


class Cleaner:
    r"""Cleans a stream that comes in pieces; a sequence may be cut anywhere.

    Newlines and tabs stay. ``\r\n`` becomes a newline. A carriage return alone, as
    progress bars print it, becomes ``carriage_return``: a newline for files and pipes,
    itself for a terminal.
    """

    def __init__(self, carriage_return: str = "\n") -> None:
        self._carriage_return = carriage_return
        self._open = ""
        self._returned = ""

    def feed(self, piece: str) -> str:
        """The clean form of what is complete so far."""
        text = self._open + piece
        cut = _OPEN.search(text)
        self._open = ""
        if cut and len(text) - cut.start() <= _LONGEST_OPEN:
            self._open = text[cut.start() :]
            text = text[: cut.start()]
        text = self._returned + _SEQUENCE.sub("", text)
        # What a carriage return means is known by what comes next, sequences aside.
        whole = text.rstrip("\r")
        self._returned = text[len(whole) :][:1]
        return self._lines(whole)

    def end(self) -> str:
        """What was held back, now that nothing more will come."""
        text = self._returned + _SEQUENCE.sub("", self._open)
        self._open = self._returned = ""
        return self._lines(text)

    def _lines(self, text: str) -> str:
        text = re.sub(r"\r+\n", "\n", text)
        return re.sub(r"\r+", self._carriage_return, text)


def clean(text: str) -> str:
    """A whole text, newlines kept."""
    cleaner = Cleaner()
    return cleaner.feed(text) + cleaner.end()


def one_line(text: str) -> str:
    """A text on one line, runs of white space as single spaces."""
    return " ".join(clean(text).split())
