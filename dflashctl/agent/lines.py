"""Bytes as a terminal gets them, cut into lines of plain text."""

from __future__ import annotations

import re

LONGEST = 4096
# A line that fills the pane was broken there by the program that printed it.
PANE_WIDTH = 200

_SEQUENCE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"
    r"|\x1b[ -/]*[0-~]"
    r"|[\x00-\x08\x0a-\x1f\x7f]"
)
_BREAK = re.compile(rb"\r+\n|\n|\r+")


def plain(line: bytes | bytearray) -> str:
    """A line as text: no escape sequences, no controls, no line end."""
    text = line.decode("utf-8", "replace")
    return text if text.isprintable() else _SEQUENCE.sub("", text)


class Lines:
    r"""Cuts a stream at newlines and carriage returns, wherever its pieces end.

    Of a line of more than `LONGEST` bytes the beginning is kept. Lines come with what
    begins a terminal's escape sequences and other controls taken out, bytes that are no
    UTF-8 replaced, and a line as wide as the pane joined with the one that follows it.
    """

    def __init__(self) -> None:
        self._open = bytearray()
        self._return = False
        self._wide = ""

    def feed(self, piece: bytes) -> list[str]:
        """The lines that this piece ends."""
        if self._return:
            # Only now is it known whether a newline follows the carriage return.
            piece, self._return = b"\r" + piece, False
        if piece.endswith(b"\r"):
            kept = piece.rstrip(b"\r")
            piece, self._return = kept, True
        found: list[str] = []
        at = 0
        for cut in _BREAK.finditer(piece):
            self._keep(piece[at : cut.start()])
            self._close(found, wraps=cut[0].endswith(b"\n"))
            at = cut.end()
        self._keep(piece[at:])
        return found

    def end(self) -> list[str]:
        """What is left when nothing more comes."""
        found: list[str] = []
        self._return = False
        self._close(found, wraps=False)
        return found

    def _keep(self, part: bytes) -> None:
        room = LONGEST - len(self._open)
        if room > 0:
            self._open += part[:room]

    def _close(self, found: list[str], *, wraps: bool) -> None:
        text = plain(self._open)
        self._open.clear()
        width = len(text)
        if self._wide:
            text, self._wide = self._wide + text, ""
        if wraps and width == PANE_WIDTH and len(text) < LONGEST:
            self._wide = text
        elif text:
            found.append(text)
