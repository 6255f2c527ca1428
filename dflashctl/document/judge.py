"""The complaints of a schema as faults, in the words of the person who wrote the file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from dflashctl.document.read import TAG, trap

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dflashctl.document.read import Document, Loc
    from dflashctl.errors import Fault

# What a schema wants, by the type of its complaint.
_WANTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "list_type": "a list",
    "dict_type": "a mapping (lines of `name: value`)",
    "model_type": "a mapping (lines of `name: value`)",
    "model_attributes_type": "a mapping (lines of `name: value`)",
}


def judge(
    document: Document, errors: Iterable[Mapping[str, Any]], model: type[Any]
) -> tuple[Fault, ...]:
    """The complaints of a schema (pydantic's list of errors) as faults.

    ``model`` is the schema's outermost class.
    """
    faults = []
    for error in errors:
        steps, kind = error["loc"], error["type"]
        loc, value = _locate(document, steps)
        if kind == "missing":
            faults.append(document.fault((*loc, steps[-1]), "is missing"))
        elif loc in document.misread:
            continue
        elif kind in ("extra_forbidden", "invalid_key"):
            # With the tags of alternatives, which are not in the file.
            message = _unknown_field(str(loc[-1]), _model_at(model, steps[:-1]))
            faults.append(document.fault(loc, message))
        elif steps[-1] == "[key]":
            faults.append(document.fault(loc, _complaint(error, loc[-1], str(loc[-1]))))
        elif kind in ("union_tag_not_found", "union_tag_invalid"):
            faults.append(_tag_fault(document, loc, error["ctx"]))
        else:
            written = document.written.get(loc, str(value))
            faults.append(document.fault(loc, _complaint(error, value, written)))
    return tuple(faults)


def _tag_fault(document: Document, loc: Loc, said: Mapping[str, Any]) -> Fault:
    """Of an alternative that a field names: it names none."""
    field = said["discriminator"].strip("'")
    tag = said.get("tag")
    if tag is None:
        return document.fault((*loc, field), "is missing")
    words = re.findall(r"'([^']*)'", said["expected_tags"])
    message = f"must be one of {', '.join(words)}, not {named(tag)}{did_you_mean(tag, words)}"
    return document.fault((*loc, field), message)


def _locate(document: Document, loc: Loc) -> tuple[Loc, Any]:
    """The part of a pydantic location that is in the file, and the value there."""
    here: Loc = ()
    value: Any = document.values
    for step in loc:
        inside = isinstance(value, list) and isinstance(step, int) and step < len(value)
        if inside or (isinstance(value, dict) and step in value):
            value = value[step]
            here = (*here, step)
    return here, value


def _complaint(error: Mapping[str, Any], value: Any, written: str) -> str:
    match error["type"]:
        case "value_error":
            return str(error["ctx"]["error"])
        case "string_type" if isinstance(value, int | float):
            return trap(TAG + type(value).__name__, written)
        case "literal_error":
            expected: str = error["ctx"]["expected"]
            words = re.findall(r"'([^']*)'", expected)
            these = f"one of {', '.join(words)}" if len(words) > 2 else " or ".join(words)
            hint = did_you_mean(str(value), words)
            return f"must be {these or expected}, not {named(value)}{hint}"
        case other:
            return f"must be {_WANTED[other]}, not {named(value)}"


def _model_at(kind: Any, loc: Loc) -> Any:
    """The class that a schema has at a place, found by walking its annotations."""
    for step in loc:
        kind = _inside(kind, step)
    return next(part for part in (kind, *get_args(kind)) if hasattr(part, "model_fields"))


def _inside(kind: Any, step: str | int) -> Any:
    if hasattr(kind, "model_fields"):
        known = kind.model_fields.get(step)
        if known is None and _is_tag(kind, step):
            return kind
        return None if known is None else known.annotation
    if get_origin(kind) in (dict, list):
        return get_args(kind)[-1]
    # An alternative or an annotated type: the first part that leads on.
    inner = (_inside(part, step) for part in get_args(kind) if not isinstance(part, str))
    return next((found for found in inner if found is not None), None)


def _is_tag(kind: Any, step: str | int) -> bool:
    """Whether a class is the alternative of that name: one of its fields can only say it."""
    literals = (field.annotation for field in kind.model_fields.values() if field.is_required())
    return any(step in get_args(said) for said in literals if get_origin(said) is Literal)


def _unknown_field(name: str, model: Any) -> str:
    fields = tuple(field.alias or known for known, field in model.model_fields.items())
    return f"unknown field{did_you_mean(name, fields)} (allowed: {', '.join(fields)})"


def close_matches(word: str, known: Sequence[str]) -> tuple[str, ...]:
    """Names that ``word`` may be a slip of, the nearest first."""
    import difflib

    by_lower = {name.lower(): name for name in known}
    return tuple(by_lower[m] for m in difflib.get_close_matches(word.lower(), by_lower, n=3))


def did_you_mean(word: str, known: Sequence[str]) -> str:
    """``; did you mean X?``, or nothing when no name is near."""
    near = close_matches(word, known)
    return f"; did you mean {near[0]}?" if near else ""


def named(value: object) -> str:
    """A value in the words of a message; long text is cut."""
    match value:
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case str() if len(value) > 60:
            return repr(value[:57] + "...")
        case bool():
            return str(value).lower()
        case _:
            return repr(value)
