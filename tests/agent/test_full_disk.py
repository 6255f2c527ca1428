"""A filesystem that is full to its last block: told as one, nothing lost, and then it works."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dflashctl.agent import archive, files, keeper, restore
from dflashctl.agent.failures import AgentError
from dflashctl.agent.keeping import ArchiveCheckpoints, RestoreCheckpoints, StoreSpec
from dflashctl.agent.manifest import archives
from dflashctl.agent.protocol import FileWanted
from dflashctl.agent.records import StateFolder
from tests.lab.need import do_without

MB = 1 << 20


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk of 40 MB."""
    if os.getuid() != 0:
        do_without("only root can mount")
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ("mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", place), capture_output=True, check=False
    )
    if mounted.returncode != 0:
        do_without(f"mount: {mounted.stderr.decode().strip()}")
    yield place
    subprocess.run(("umount", place), check=True)


def fill(disk: Path, leave: int = 0) -> Path:
    """Take all of its room but so much."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            pass
        file.truncate(max(0, file.tell() - leave))
    return filler


def checkpoint(folder: Path, size: int) -> Path:
    place = folder / "work" / "checkpoints"
    (place / "step-100").mkdir(parents=True)
    (place / "step-100" / "weights").write_bytes(os.urandom(size))
    return place


def perform(action: Any) -> dict[str, Any]:
    desk = keeper.Desk(transaction="t-1", starts=[], progress=lambda *_: None, note=lambda _: None)
    return keeper.perform(action, desk)[1]


def archiving(spec: StoreSpec) -> ArchiveCheckpoints:
    return ArchiveCheckpoints(
        store=spec, real_path=spec.path, name="one", names=None, then_remove=True
    )


@pytest.fixture(params=["told beforehand", "noticed in the middle"])
def reserve(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Room is asked for first; where the answer deceives, the full disk itself tells."""
    name: str = request.param
    if name == "noticed in the middle":
        for module in (archive, restore):
            monkeypatch.setattr(module, "free_space", lambda _: 1 << 50)
    return name


@pytest.mark.usefixtures("reserve")
def test_a_full_disk_leaves_the_originals_and_no_archive(small: Path, tmp_path: Path) -> None:
    place = checkpoint(tmp_path, 8 * MB)
    spec = StoreSpec(path=str(place), archive_to=str(small / "archive"))
    (small / "archive").mkdir()
    filler = fill(small)
    with pytest.raises(AgentError, match="disk_full") as caught:
        perform(archiving(spec))
    assert caught.value.failure.detail["path"].startswith(str(small))
    assert (place / "step-100" / "weights").stat().st_size == 8 * MB
    assert archives(spec) == ()
    filler.unlink()
    perform(archiving(spec))
    assert archives(spec)[0].whole
    assert not (place / "step-100").exists()


@pytest.mark.usefixtures("reserve")
def test_a_full_disk_leaves_what_is_there_in_a_restore(small: Path, tmp_path: Path) -> None:
    place = checkpoint(small, 8 * MB)
    spec = StoreSpec(path=str(place), archive_to=str(tmp_path / "archive"))
    perform(archiving(spec))
    (place / "step-200").mkdir()
    (place / "step-200" / "weights").write_bytes(b"new")
    filler = fill(small, leave=2 * MB)
    wanted = RestoreCheckpoints(store=spec, real_path=str(place), name="one", to=None)
    with pytest.raises(AgentError, match="disk_full") as caught:
        perform(wanted)
    assert caught.value.failure.detail["path"].startswith(str(small))
    assert [path.name for path in place.iterdir()] == ["step-200"]
    assert archives(spec)[0].whole
    filler.unlink()
    perform(wanted)
    assert [path.name for path in place.iterdir()] == ["step-100"]


def test_a_full_disk_leaves_the_files_in_place_in_a_push(small: Path) -> None:
    state = StateFolder(path=small / "state")
    state.create()
    dest, content = small / "train.py", small / "content"
    dest.write_text("old")
    content.write_bytes(os.urandom(8 * MB))
    wanted = FileWanted(dest=str(dest), sha256=files.sha256_of(content), size=8 * MB, mode=0o644)
    content.rename(state.blob(wanted.sha256))
    filler = fill(small)
    with pytest.raises(AgentError, match="disk_full"):
        files.make_staging(state, "t-1", 1000)
    with pytest.raises(AgentError, match="disk_full"):
        files.place(state, (wanted,))
    assert dest.read_text() == "old"
    assert sorted(path.name for path in small.iterdir()) == ["filler", "state", "train.py"]
    filler.unlink()
    files.make_staging(state, "t-1", 1000)
    files.place(state, (wanted,))
    assert dest.stat().st_size == 8 * MB
