"""Errors in an output: tracebacks whole, of all ranks, each told once."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

LONGEST = 400
MOST = 200
_RANK = re.compile(
    r"^\s*(?:\[?(?:rank|default|gpu|worker)[ _:=]?\d+\]?[:|]?|\[\d+\]:|\d{1,4}: )\s?"
)
_NUMBER = re.compile(r"\d+")
_BEGIN = re.compile(r"\s*(?:\S+ )*Traceback \(most recent call last\):")
_CHAIN = re.compile(r"During handling of the above|The above exception was the direct cause")
_ALONE = re.compile(
    r"^(?:\S+ )*\w*(?:Error|Exception)\b: |\bFATAL\b|[Ss]egmentation fault|[Oo]ut of memory"
    r"|core dumped|NCCL WARN|CUDA error|Bus error|Killed$"
)
_VARIES = re.compile(r"0x[0-9a-f]+|\d+")


@dataclass(slots=True, kw_only=True)
class _Block:
    lines: list[str]
    count: int = 1
    ranks: set[int] = field(default_factory=set)


class Errors:
    """Takes lines in, one after another, of several ranks between one another."""

    def __init__(self) -> None:
        self._open: dict[str, list[str]] = {}
        self._ended: set[str] = set()
        self._found: dict[str, _Block] = {}

    def feed(self, line: str) -> None:
        """A line of plain text without its end."""
        head = _RANK.match(line)
        who = head[0].strip() if head else ""
        text = line[head.end() :] if head else line
        if who in self._open:
            if self._goes_on(who, text):
                return
            self._close(who)
        if _BEGIN.match(text):
            self._open[who] = [text]
        elif _ALONE.search(text):
            self._note(who, [text])

    def found(self) -> list[str]:
        """Each error as text, in the order of their first appearance."""
        for who in list(self._open):
            self._close(who)
        return [self._told(block) for block in self._found.values()]

    def _goes_on(self, who: str, text: str) -> bool:
        lines = self._open[who]
        if who in self._ended:
            # After the exception's own line: only a further exception belongs to it.
            if not text.strip():
                return True
            if not (_CHAIN.search(text) or (_CHAIN.search(lines[-1]) and _BEGIN.match(text))):
                return False
            lines.append(text)
            if _BEGIN.match(text):
                self._ended.discard(who)
            return True
        if len(lines) >= LONGEST:
            return False
        lines.append(text)
        if text[:1] not in (" ", "\t", "") and not _BEGIN.match(text):
            self._ended.add(who)
        return True

    def _close(self, who: str) -> None:
        self._ended.discard(who)
        self._note(who, self._open.pop(who))

    def _note(self, who: str, lines: list[str]) -> None:
        key = _VARIES.sub("#", "\n".join(lines))
        block = self._found.get(key)
        if block is not None:
            block.count += 1
        elif len(self._found) < MOST:
            block = self._found[key] = _Block(lines=lines)
        number = _NUMBER.search(who)
        if block is not None and number:
            block.ranks.add(int(number[0]))

    @staticmethod
    def _told(block: _Block) -> str:
        ranks = ", ".join(map(str, sorted(block.ranks)))
        parts = [f"{block.count} times"] if block.count > 1 else []
        parts += [f"rank {ranks}"] if len(block.ranks) == 1 else []
        parts += [f"ranks {ranks}"] if len(block.ranks) > 1 else []
        head = f"-- {', '.join(parts)}:\n" if parts else ""
        return head + "\n".join(block.lines) + "\n\n"
