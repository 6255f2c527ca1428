"""The playbooks that come along load, with all they name."""

from __future__ import annotations

import json
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


def test_the_playbook_of_dflash_fits_the_trainer_that_it_brings() -> None:
    playbook = load_playbook(PLAYBOOKS / "dflash.yml")
    assert playbook.run
    assert playbook.run.resume_new_buckets
    pushed = {file.dest for file in playbook.files}
    trainer = (PLAYBOOKS / "dflash" / "train_dflash_pipeline.py").read_text()
    assert set(playbook.run.command) & pushed == {"/root/dflash/start_training.sh"}
    for name in ("dflash_model", "dflash_data", "dflash_checkpoints"):
        assert f"/root/dflash/{name}.py" in pushed
    for option in ("--resume", "--on-batching-change"):
        assert option in playbook.run.resume_new_buckets
        assert f'"{option}"' in trainer
    assert playbook.run.exit_codes == {"75": "interrupted", "78": "refused"}
    batching = json.loads((PLAYBOOKS / "dflash" / "config.json").read_text())["batching"]
    assert playbook.batching
    for name in ("token_budget", "max_batch_size", "order"):
        assert getattr(playbook.batching, name) == batching[name]
