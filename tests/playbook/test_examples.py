"""The playbooks that come along load, with all they name."""

from __future__ import annotations

from pathlib import Path

import pytest

from dflashctl.playbook.load import load_playbook

PLAYBOOKS = Path(__file__).parents[2] / "playbooks"


@pytest.mark.parametrize("path", sorted(PLAYBOOKS.glob("*.yml")), ids=lambda path: path.stem)
def test_every_playbook_that_comes_along_loads(path: Path) -> None:
    assert load_playbook(path).path == path


def test_provisioning_brings_only_what_is_missing_and_then_looks_at_torch() -> None:
    steps = load_playbook(PLAYBOOKS / "provision.yml").steps
    assert [step.when.missing for step in steps] == [("tmux",), ("/root/venv/bin/python",), ()]
    assert "torch" in steps[-1].command[-1]


def test_rotating_archives_before_it_deletes() -> None:
    rotate = load_playbook(PLAYBOOKS / "rotate.yml")
    assert [step.do for step in rotate.steps] == ["archive_checkpoints", "prune_checkpoints"]
    assert rotate.checkpoints
    assert rotate.checkpoints.keep
    assert rotate.checkpoints.archive_to
