from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.world import World, make


@pytest.fixture
def world(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> World:
    """The program in a folder of its own, its target a script of answers."""
    return make(tmp_path, capsys)
