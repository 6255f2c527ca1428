"""A hand-written YAML file as plain values that remember their lines, and its faults.

YAML 1.1 reads some plain words as other things than a person means: ``on`` as true,
``0755`` as 493, ``2026-11-29`` as a date. Here each of them is a fault that says to quote
it, as are duplicate keys, tags, merge keys and values left empty. Aliases are allowed
within limits.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dflashctl.errors import BadFile, Fault

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    import yaml

# Where a value stands: the keys and list positions that lead to it from the top.
Loc = tuple[str | int, ...]

MAX_BYTES = 1 << 20
MAX_VALUES = 50_000
MAX_DEPTH = 32

TAG = "tag:yaml.org,2002:"
# The only spellings of a value other than text that mean the same to YAML and to a person.
_PLAIN = {
    TAG + "int": re.compile(r"-?(0|[1-9][0-9]{0,17})"),
    TAG + "float": re.compile(r"-?[0-9]+\.[0-9]+"),
    TAG + "bool": re.compile(r"true|false"),
}
_CALLED = {
    TAG + "int": "a number",
    TAG + "float": "a number",
    TAG + "bool": "a truth value",
    TAG + "timestamp": "a date",
    TAG + "null": "nothing",
}
# Tags that the characters alone give to text: "=" and "<<" mean nothing special here.
_TEXT = (TAG + "str", TAG + "value", TAG + "merge")


def read_document(path: Path, kind: str) -> Document:
    """Read a YAML file whose top is a mapping.

    Raises:
        BadFile: it cannot be read, or is not YAML at all. Lesser mistakes are in the
            document's ``faults``, so that they can be reported with those of the schema.
    """
    text = read_text(path, kind)
    import yaml

    reader = _Reader(path=path, kind=kind)
    loader = yaml.SafeLoader("")
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        values = None if node is None else reader.value(node, ())
    except yaml.MarkedYAMLError as error:
        raise _bad(path, kind, *_syntax(error, text)) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        message = f"the character U+{ord(text[error.position]):04X} is not allowed in YAML"
        raise _bad(path, kind, line, message) from error
    except RecursionError as error:
        raise _bad(path, kind, 0, "is nested too deeply") from error
    except (ValueError, OverflowError) as error:  # an escape beyond Unicode: "\UFFFFFFFF"
        raise _bad(path, kind, loader.line + 1, f"not valid YAML: {error}") from error
    finally:
        loader.dispose()
    if node is None:
        raise _bad(path, kind, 0, "is empty")
    if not isinstance(values, dict):
        raise _bad(path, kind, 1, "must be a mapping (lines of `name: value`)")
    return Document(
        path=path,
        kind=kind,
        values=values,
        lines=reader.lines,
        written=reader.written,
        faults=tuple(reader.faults),
        misread=frozenset(reader.misread),
    )


@dataclass(frozen=True, kw_only=True)
class Document:
    """What a file says.

    Attributes:
        values: mappings, lists, text, whole numbers, floats and truth values.
        lines: the line of each value; that of its key in a mapping.
        written: how each value other than text was written.
        faults: mistakes of the YAML itself.
        misread: where YAML and the person disagree; a schema's complaints there would
            only repeat the fault.
    """

    path: Path
    kind: str
    values: dict[str | int, Any]
    lines: Mapping[Loc, int]
    written: Mapping[Loc, str]
    faults: tuple[Fault, ...]
    misread: frozenset[Loc]

    def fault(self, loc: Loc, message: str) -> Fault:
        """A mistake at ``loc``; where that is not in the file, its surroundings' line counts."""
        known = loc
        while known and known not in self.lines:
            known = known[:-1]
        line = self.lines.get(known, 0)
        return Fault(path=self.path, line=line, where=spelled(loc), message=message)

    def raise_for(self, faults: Iterable[Fault]) -> None:
        """Raise BadFile with this document's faults and the given ones, if there are any."""
        every = dict.fromkeys((*self.faults, *faults))
        if every:
            in_order = tuple(sorted(every, key=lambda fault: fault.line))
            raise BadFile(kind=self.kind, faults=in_order)


def mapping(value: object) -> dict[str | int, Any]:
    """The value if it is a mapping, else an empty one: for checks beside the schema's."""
    return value if isinstance(value, dict) else {}


def spelled(loc: Loc) -> str:
    """A place as a person writes it: ``hosts.kpro6.port``, ``files[0].dest``."""
    text = ""
    for step in loc:
        if isinstance(step, str) and re.fullmatch(r"[\w-]+", step):
            text += f".{step}"
        else:
            text += f"[{step!r}]" if isinstance(step, str) else f"[{step}]"
    return text.removeprefix(".")


def read_text(path: Path, kind: str) -> str:
    """A small text file, whole.

    Raises:
        BadFile: it cannot be read, is too large, or is not UTF-8.
    """
    try:
        # A pipe that nobody writes to would be waited for without end.
        if not (path.is_file() or path.is_dir()) and path.exists():
            raise _bad(path, kind, 0, "is no ordinary file")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise _bad(path, kind, 0, f"cannot be read: {error.strerror}") from error
    if len(data) > MAX_BYTES:
        raise _bad(path, kind, 0, f"is larger than {MAX_BYTES // 1024} KiB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _bad(path, kind, line, "is not UTF-8 text") from error


def _bad(path: Path, kind: str, line: int, message: str) -> BadFile:
    fault = Fault(path=path, line=line, where="", message=message)
    return BadFile(kind=kind, faults=(fault,))


def _syntax(error: yaml.MarkedYAMLError, text: str) -> tuple[int, str]:
    """The line of a mistake in the syntax, and what to say."""
    mark = error.problem_mark or error.context_mark
    assert mark is not None, "PyYAML marks each mistake of the syntax"
    if text[mark.index : mark.index + 1] == "\t":
        return mark.line + 1, "not valid YAML: a tab stands here; indent with spaces"
    if error.context_mark is not None and mark.index >= len(text.rstrip()):
        mark = error.context_mark  # where it was opened says more than where the file ends
    about = " ".join(part for part in (error.context, error.problem) if part)
    return mark.line + 1, f"not valid YAML: {about}"


@dataclass(kw_only=True)
class _Reader:
    """Turns composed nodes into values, and collects lines and faults on the way."""

    path: Path
    kind: str
    lines: dict[Loc, int] = field(default_factory=dict)
    written: dict[Loc, str] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    misread: set[Loc] = field(default_factory=set)
    read: int = 0

    def value(self, node: Any, loc: Loc) -> Any:
        line = self.lines.setdefault(loc, node.start_mark.line + 1)
        self.read += 1
        if self.read > MAX_VALUES:  # aliases can stand for more than memory holds
            raise _bad(self.path, self.kind, line, f"holds more than {MAX_VALUES} values")
        if len(loc) > MAX_DEPTH:
            raise _bad(self.path, self.kind, line, f"is nested deeper than {MAX_DEPTH} levels")
        if node.tag == TAG + "map" and node.id == "mapping":
            return self._mapping(node, loc)
        if node.tag == TAG + "seq" and node.id == "sequence":
            for index, item in enumerate(node.value):
                self.lines[(*loc, index)] = item.start_mark.line + 1
            return [self.value(item, (*loc, index)) for index, item in enumerate(node.value)]
        if isinstance(node.value, str):
            return self._scalar(node, loc)
        return self._misread(loc, f"the tag {node.tag} is not allowed")

    def _mapping(self, node: Any, loc: Loc) -> dict[str | int, Any]:
        values: dict[str | int, Any] = {}
        for key_node, value_node in node.value:
            key = self._key(key_node, loc)
            if key is None:
                continue
            here, line = (*loc, key), key_node.start_mark.line + 1
            if key in values:
                self._fault(here, line, f"is written twice; first in line {self.lines[here]}")
            self.lines[here] = line
            values[key] = self.value(value_node, here)
        return values

    def _key(self, node: Any, loc: Loc) -> str | int | None:
        line, text = node.start_mark.line + 1, node.value
        if not isinstance(text, str):
            self._fault(loc, line, "a name must be a plain word, not a list or a mapping")
            return None
        if node.tag == TAG + "merge":
            self._fault((*loc, text), line, "merge keys are not supported: write the fields out")
            return None
        if node.tag in _TEXT:
            if problem := _problem_of_text(text):
                self._fault((*loc, text), line, problem)
            return text
        plain = _PLAIN.get(node.tag)
        if node.tag == TAG + "int" and plain and plain.fullmatch(text):
            return int(text)
        self._fault((*loc, text), line, trap(node.tag, text))
        self.misread.add((*loc, text))
        return text

    def _scalar(self, node: Any, loc: Loc) -> Any:
        text: str = node.value
        if node.tag in _TEXT:
            if problem := _problem_of_text(text):
                return self._misread(loc, problem)
            return text
        if node.tag == TAG + "null":
            return self._misread(loc, "is empty: give it a value, or leave it out")
        plain = _PLAIN.get(node.tag)
        if plain is None or not plain.fullmatch(text):
            return self._misread(loc, trap(node.tag, text))
        self.written[loc] = text
        if node.tag == TAG + "bool":
            return text == "true"
        return int(text) if node.tag == TAG + "int" else float(text)

    def _misread(self, loc: Loc, message: str) -> None:
        self.misread.add(loc)
        self._fault(loc, self.lines[loc], message)

    def _fault(self, loc: Loc, line: int, message: str) -> None:
        where = spelled(loc)
        self.faults.append(Fault(path=self.path, line=line, where=where, message=message))


def trap(tag: str, text: str) -> str:
    """What to say where ``text`` was written and YAML makes something else of it."""
    if tag not in _CALLED:
        return f"the tag {tag} is not allowed"
    quoted = f'put it in quotes, "{text}"'
    if _CALLED[tag] == "a number" and not _PLAIN[tag].fullmatch(text):
        return f"YAML reads {text} as another number than it seems: if text is meant, {quoted}"
    return f"YAML reads {text} as {_CALLED[tag]}: {quoted}"


def _problem_of_text(text: str) -> str | None:
    if "\0" in text:
        return "must not hold a NUL character"
    if any("\ud800" <= char <= "\udfff" for char in text):
        return "must not hold half of a surrogate pair"
    return None
