"""What the pages show is so: commands that are understood, files that load, links that lead."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from dflashctl.cli.main import app
from dflashctl.inventory.load import load_inventory
from dflashctl.playbook.load import load_outline

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# Pages that others link to and that are still to be written.
OWED = {"checkpoints.md"}
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def shown() -> list[tuple[str, str]]:
    """Every command line that a page shows, with its page."""
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        lines = [
            line.removeprefix("$ ")
            for kind, block in BLOCK.findall(text)
            for line in block.replace("\\\n", " ").splitlines()
            if line.startswith("$ ") or kind == "sh"
        ]
        lines += re.findall(r"`(dflashctl [^`\n]+)`", BLOCK.sub("", text))
        found += [(page.name, line) for line in lines if line.startswith("dflashctl ")]
    return sorted(set(found))


def words_of(line: str) -> list[str]:
    """Its words, up to what only the shell would see; ``[-t NAME]`` is `-t NAME`."""
    reader = shlex.shlex(re.sub(r"[\[\]]", " ", line), posix=True, punctuation_chars=True)
    reader.whitespace_split = True
    words = []
    for word in reader:
        if set(word) <= set("|&;<>()"):
            break
        words.append(word)
    return words[1:]


def understand(command: Any, words: list[str], parent: Any = None, name: str = "dflashctl") -> None:
    """Read the words as the program would. Raises what it would complain with."""
    context = command.make_context(name, list(words), parent=parent)
    if hasattr(command, "commands") and (rest := [*context._protected_args, *context.args]):
        name, below, rest = command.resolve_command(context, rest)
        understand(below, rest, context, name)


@pytest.mark.parametrize(("page", "line"), shown())
def test_a_command_that_is_shown_is_one(page: str, line: str) -> None:
    words = words_of(line)
    if not words or words[0].isupper() or "..." in line:
        return
    try:
        understand(typer.main.get_command(app), words)
    except typer.Exit:
        pass
    except typer.TyperException as error:
        pytest.fail(f"{page} shows: {line}: {error.format_message()}")


def files() -> list[Any]:
    """Every whole inventory or playbook that a page shows."""
    found = []
    for page in PAGES:
        for number, (kind, block) in enumerate(BLOCK.findall(page.read_text(encoding="utf-8"))):
            if kind == "yaml" and "version: 1" in block:
                found.append(pytest.param(block, id=f"{page.name}-{number}"))
    return found


@pytest.mark.parametrize("text", files())
def test_a_file_that_is_shown_loads(text: str, tmp_path: Path) -> None:
    path = tmp_path / "file.yml"
    path.write_text(text, encoding="utf-8")
    load = load_inventory if "hosts" in yaml.safe_load(text) else load_outline
    assert load(path).path == path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_link_leads_somewhere(page: Path) -> None:
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    inside = [link.partition("#")[0] for link in links if "://" not in link]
    lost = {link for link in inside if link and not (page.parent / link).exists()}
    assert lost <= OWED
