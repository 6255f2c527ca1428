"""`make schemas`: the JSON Schemas that let an editor help with inventories and playbooks.

They are the pydantic models' own, made plain: what stands under a field in the model's
source is its description, and null is nowhere allowed, as an empty value is a mistake.
"""

from __future__ import annotations

import ast
import inspect
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from dflashctl.inventory.schema import InventoryFile
from dflashctl.playbook.schema import PlaybookFile

FOLDER = Path(__file__).parents[1] / "schemas"
MODELS: dict[str, type[BaseModel]] = {"inventory": InventoryFile, "playbook": PlaybookFile}


def schema(kind: str) -> dict[str, Any]:
    """The schema of one kind of file."""
    model = MODELS[kind]
    made = model.model_json_schema(by_alias=True)
    described = descriptions(model)
    for name, shape in [(model.__name__, made), *made.get("$defs", {}).items()]:
        shape.pop("title", None)
        for field, about in shape["properties"].items():
            shape["properties"][field] = {
                "description": described[name, field],
                **_plain(about),
            }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"A dflashctl {kind}",
        **made,
    }


def descriptions(model: type[BaseModel]) -> dict[tuple[str, str], str]:
    """What stands under each field, by class and by the field's name in a file.

    Raises:
        SystemExit: a field has nothing.
    """
    kinds = list(_below(BaseModel, model.__module__.rpartition(".")[0]))
    classes = {
        one.name: one
        for module in sorted({kind.__module__ for kind in kinds})
        for one in ast.parse(inspect.getsource(sys.modules[module])).body
        if isinstance(one, ast.ClassDef)
    }
    found: dict[tuple[str, str], str] = {}
    for kind in kinds:
        under: dict[str, str] = {}
        for base in reversed(kind.__mro__):
            if base.__name__ in classes:
                under |= _under(classes[base.__name__])
        for field, about in kind.model_fields.items():
            if field not in under:
                raise SystemExit(
                    f"{kind.__module__}: write a docstring under {kind.__name__}.{field}, for "
                    "editors"
                )
            found[kind.__name__, about.alias or field] = under[field]
    return found


def _below(kind: type[BaseModel], package: str) -> Iterator[type[BaseModel]]:
    """The classes of a package that are derived from this one."""
    for one in kind.__subclasses__():
        if one.__module__.startswith(f"{package}."):
            yield one
        yield from _below(one, package)


def _under(body: ast.ClassDef) -> dict[str, str]:
    found = {}
    for field, text in zip(body.body, body.body[1:], strict=False):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(
                value=ast.Constant(value=str(said))
            ):
                found[name] = said
    return found


def _plain(about: dict[str, Any]) -> dict[str, Any]:
    """Without null, titles, and defaults that only mean "not said"."""
    about = {name: value for name, value in about.items() if name not in ("title", "description")}
    if about.get("default") in (None, [], {}) or isinstance(about.get("default"), dict | float):
        about.pop("default", None)
    if "patternProperties" in about:
        about["additionalProperties"] = False
    choices = [one for one in about.pop("anyOf", ()) if one != {"type": "null"}]
    return {**about, **choices[0]} if choices else about


def text(kind: str) -> str:
    """The file's text."""
    return json.dumps(schema(kind), indent=2) + "\n"


if __name__ == "__main__":
    for each in MODELS:
        (FOLDER / f"{each}.json").write_text(text(each), encoding="utf-8")
