"""The demo's playbook loads, and fits the trainer that it starts."""

from __future__ import annotations

from pathlib import Path

from dflashctl.playbook.load import load_playbook

PLAYBOOKS = Path(__file__).parents[2] / "playbooks"
PLACE = "/tmp/dflashctl-demo"


def test_the_demo_pushes_the_trainer_and_its_start_script() -> None:
    playbook = load_playbook(PLAYBOOKS / "demo.yml")
    assert {file.source.name: (file.dest, file.mode & 0o111) for file in playbook.files} == {
        "train.py": (f"{PLACE}/train.py", 0o111),
        "start_training.sh": (f"{PLACE}/start_training.sh", 0o111),
    }


def test_the_demo_wants_no_gpu_and_knows_its_trainers_exit_code() -> None:
    playbook = load_playbook(PLAYBOOKS / "demo.yml")
    assert playbook.run
    assert playbook.preflight.gpus == 0
    assert playbook.run.exit_codes == {"75": "interrupted"}


def test_everything_of_the_demo_is_in_the_folder_that_the_script_replaces() -> None:
    text = (PLAYBOOKS / "demo.yml").read_text()
    playbook = load_playbook(PLAYBOOKS / "demo.yml")
    assert playbook.checkpoints
    assert playbook.checkpoints.path.startswith(f"{PLACE}/")
    fields = [line for line in text.splitlines() if not line.startswith("#")]
    # The script's sed puts its interpreter there, at the end of a line.
    assert [line.strip() for line in fields if line.endswith(": python3")] == [
        "PYTHON: python3",
        "python: python3",
    ]
