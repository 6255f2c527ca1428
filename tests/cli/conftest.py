from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.world import World, make


@pytest.fixture
def world(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> World:
    """The program in a folder of its own, its target a script of answers."""
    return make(tmp_path, capsys)


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """--debug sets up the logging of the whole process."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    yield
    root.setLevel(level)
    root.handlers = handlers
