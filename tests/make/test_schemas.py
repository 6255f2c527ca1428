"""The schemas that editors read agree with the models, and judge as the program does."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from make import schemas

ROOT = Path(__file__).parents[2]
EXAMPLES = [
    *(("inventory", path) for path in (ROOT / "inventory").glob("*.yml")),
    *(("playbook", path) for path in (ROOT / "playbooks").glob("*.yml")),
]
HOST = {"version": 1, "hosts": {"a": {"address": "192.0.2.1"}}}
JOB = {"version": 1, "name": "dflash"}


def complaint(kind: str, values: Any) -> str:
    """What an editor would underline first; nothing where all is well."""
    # In JSON, and so for an editor, a key is text.
    values = json.loads(json.dumps(values))
    validator = jsonschema.Draft202012Validator(schemas.schema(kind))
    return next((error.message for error in validator.iter_errors(values)), "")


@pytest.mark.parametrize("kind", schemas.MODELS)
def test_the_files_are_what_the_models_say(kind: str) -> None:
    found = (schemas.FOLDER / f"{kind}.json").read_text(encoding="utf-8")
    assert found == schemas.text(kind), "a field has changed: run `make schemas`"


@pytest.mark.parametrize("kind", schemas.MODELS)
def test_they_are_schemas(kind: str) -> None:
    jsonschema.Draft202012Validator.check_schema(schemas.schema(kind))


@pytest.mark.parametrize(
    ("kind", "path"), EXAMPLES, ids=lambda value: getattr(value, "name", value)
)
def test_the_examples_name_their_schema_and_are_without_fault(kind: str, path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert complaint(kind, yaml.safe_load(text)) == ""
    line = next(line for line in text.splitlines() if "yaml-language-server" in line)
    named = path.parent / line.partition("$schema=")[2]
    assert named.resolve() == schemas.FOLDER / f"{kind}.json"


@pytest.mark.parametrize(
    ("kind", "values", "words"),
    [
        ("inventory", {}, "required"),
        ("inventory", HOST | {"hots": {}}, "'hots' was unexpected"),
        ("inventory", HOST | {"hosts": {"a": {"adress": "b"}}}, "'adress' was unexpected"),
        ("inventory", HOST | {"hosts": {"a": {"address": "me@b"}}}, "does not match"),
        ("inventory", HOST | {"hosts": {"a": {"port": 70000}}}, "greater than the maximum"),
        ("inventory", HOST | {"hosts": {"a": {"port": None}}}, "is not of type 'integer'"),
        ("inventory", HOST | {"hosts": {"a b": {}}}, "'a b'"),
        ("inventory", HOST | {"hosts": {"a": {"containers": {"b": {}}}}}, "'vmid' is a required"),
        ("playbook", JOB | {"name": "Not_So"}, "does not match"),
        ("playbook", JOB | {"run": {"command": "bash start.sh"}}, "is not of type 'array'"),
        ("playbook", JOB | {"run": {"command": ["a"], "exit_codes": {0: "finished"}}}, "'0'"),
        ("playbook", JOB | {"stop": {"grace": "2 minutes"}}, "does not match"),
        ("playbook", JOB | {"stop": {"signal": "KILL"}}, "does not match"),
        ("playbook", JOB | {"files": [{"source": "a", "dest": "b"}]}, "does not match"),
        ("playbook", JOB | {"stesp": []}, "was unexpected"),
    ],
)
def test_a_mistake_is_one_for_an_editor_too(kind: str, values: Any, words: str) -> None:
    assert words in complaint(kind, values)


def test_a_field_without_a_description_is_not_let_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemas, "_under", lambda _: {})
    with pytest.raises(SystemExit, match="write a docstring under"):
        schemas.schema("inventory")


@pytest.mark.parametrize("kind", schemas.MODELS)
def test_the_documentation_names_every_field(kind: str) -> None:
    page = (ROOT / "docs" / f"{kind}.md").read_text(encoding="utf-8")
    fields = {name for _, name in schemas.descriptions(schemas.MODELS[kind])}
    named = " ".join(re.findall(r"`([^`\n]+)`", page))
    missing = [name for name in sorted(fields) if not re.search(rf"\b{name}\b", named)]
    assert missing == [], f"docs/{kind}.md does not say what these are"
