from __future__ import annotations

from pathlib import Path

from dflashctl.inventory.load import load_inventory
from dflashctl.playbook.load import load_playbook
from make import screenshots


def test_what_is_pictured_stays_in_its_folder(tmp_path: Path) -> None:
    screenshots.write_files(tmp_path)
    (target,) = load_inventory(tmp_path / "inventory.yml").targets
    job = load_playbook(tmp_path / "playbook.yml")
    assert target.state_dir == f"{tmp_path}/state"
    assert all(file.dest.startswith(f"{tmp_path}/") for file in job.files)
    assert "dflashctl-demo" not in (tmp_path / "playbook.yml").read_text()


def test_a_picture_fetches_nothing_from_elsewhere() -> None:
    pictures = list(screenshots.IMAGES.glob("*.svg"))
    assert {path.stem for path in pictures} >= {"deploy", "status"}
    for path in pictures:
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "://" not in text
