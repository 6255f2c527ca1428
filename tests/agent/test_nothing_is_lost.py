"""Whatever is done to checkpoints, and wherever it is cut: no complete one is lost unasked."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dflashctl.agent import archive, aside, checkpoints, keeper
from dflashctl.agent.failures import AgentError
from dflashctl.agent.keeping import (
    ArchiveCheckpoints,
    CheckpointAction,
    ClearCheckpoints,
    MarkerFile,
    PruneCheckpoints,
    PurgeCleared,
    RestoreCheckpoints,
    RestoreCleared,
    StoreSpec,
)
from dflashctl.agent.manifest import Archive, read_lines

# Where a cut matters: each of these is counted, and the agent may be killed before any.
CALLS = ("rename", "replace", "unlink", "rmdir", "mkdir", "fsync", "splice")
FILES = ("a", "weights", "z")


@dataclass
class Store:
    """One folder of checkpoints, and what was ever saved there, by a token of its own."""

    folder: Path
    saved: int = 0
    wanted: set[str] = field(default_factory=set)

    @property
    def path(self) -> Path:
        return self.folder / "work" / "checkpoints"

    @property
    def spec(self) -> StoreSpec:
        return StoreSpec(
            path=str(self.path),
            complete_when=MarkerFile(file="COMPLETE"),
            archive_to=str(self.folder / "archive"),
        )

    def save(self, *, whole: bool) -> None:
        """What a trainer does: at last it says that all is there."""
        self.saved += 1
        token = f"token {self.saved}"
        place = self.path / f"step-{self.saved * 100}"
        place.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            (place / name).write_text(token, encoding="utf-8")
        if whole:
            (place / "COMPLETE").touch()
            self.wanted.add(token)

    def seen(self) -> Any:
        return checkpoints.see_all(self.spec, [], None, None)

    def there(self) -> set[str]:
        """The tokens of all that ``list`` calls a whole checkpoint; each is proved to be one."""
        seen, found = self.seen(), set()
        for one in seen.checkpoints:
            if one.complete:
                found.add(token_of(self.path / one.name))
        for gone in seen.cleared:
            folder = aside.trash_of(self.path) / gone.id
            assert sum(1 for _ in folder.iterdir()) == gone.count
            found |= {token_of(one) for one in folder.iterdir() if (one / "COMPLETE").exists()}
        for kept in seen.archives:
            name = kept.name if kept.whole else f".partial-{kept.name}"
            found |= self.archived(Archive(folder=self.folder / "archive" / name), kept)
        return found

    def archived(self, place: Archive, kept: Any) -> set[str]:
        if kept.form == "files":
            there = place.files.iterdir() if place.files.exists() else ()
            return {token_of(one) for one in there if one.is_dir()}
        if not kept.whole:
            return set()
        hashes = {}
        for line in read_lines(place):
            if line["kind"] == "file":
                hashes[line["path"]] = line["sha256"]
        return {
            f"token {int(name.removeprefix('step-')) // 100}"
            for name in kept.names
            if f"{name}/COMPLETE" in hashes
        }

    def action(self, verb: str, number: int) -> CheckpointAction | None:
        """What is asked for, chosen from what there is; what it may delete is not wanted on."""
        seen, real = self.seen(), os.path.realpath(self.path)
        match verb:
            case "clear":
                return ClearCheckpoints(path=str(self.path), real_path=real)
            case "archive" | "move":
                return ArchiveCheckpoints(
                    store=self.spec,
                    real_path=real,
                    name=f"archive-{number}",
                    names=None,
                    then_remove=verb == "move",
                )
            case "restore":
                whole = [one.name for one in seen.archives if one.whole]
                if whole:
                    name = whole[number % len(whole)]
                    return RestoreCheckpoints(store=self.spec, real_path=real, name=name, to=None)
            case "undo":
                if seen.cleared:
                    last = seen.cleared[-1].id
                    return RestoreCleared(path=str(self.path), real_path=real, id=last)
            case "purge":
                if seen.cleared:
                    first = seen.cleared[0].id
                    return PurgeCleared(
                        path=str(self.path), real_path=real, ids=(first,), own=False
                    )
            case "prune":
                whole = [one.name for one in seen.checkpoints if one.complete]
                if whole:
                    names = tuple(whole[: number % len(whole)])
                    return PruneCheckpoints(store=self.spec, real_path=real, names=names)
        return None

    def may_go(self, action: CheckpointAction) -> set[str]:
        """The tokens of what a purge that was asked for deletes."""
        if isinstance(action, PruneCheckpoints):
            return {token_of(self.path / name) for name in action.names}
        if isinstance(action, PurgeCleared):
            folders = [aside.trash_of(self.path) / one for one in action.ids]
            return {
                token_of(one)
                for folder in folders
                for one in folder.iterdir()
                if (one / "COMPLETE").exists()
            }
        return set()


def token_of(checkpoint: Path) -> str:
    tokens = {(checkpoint / name).read_text(encoding="utf-8") for name in FILES}
    assert len(tokens) == 1, f"{checkpoint} is half of one thing and half of another"
    return tokens.pop()


def in_a_child(work: Callable[[], object], killed_at: int | None) -> None:
    """Do it in a process of its own, which is killed before its call of that number."""
    child = os.fork()
    if child == 0:
        try:
            if killed_at is not None:
                count_down(killed_at)
            work()
        except AgentError:
            pass
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(9)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "it failed; see standard error"


def count_down(calls: int) -> None:
    left = calls

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            nonlocal left
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1
            return real(*args, **more)

        return call

    for name in CALLS:
        setattr(os, name, counted(getattr(os, name)))
    subprocess.Popen = counted(subprocess.Popen)  # type: ignore[misc, assignment] # in the child alone


VERBS = ("save", "half", "clear", "archive", "move", "restore", "undo", "purge", "prune")
steps = st.lists(
    st.tuples(
        st.sampled_from(VERBS),
        # Mostly early: a small store takes some dozen calls.
        st.none() | st.integers(0, 12) | st.integers(0, 60),
    ),
    min_size=3,
    max_size=9,
)


@pytest.fixture(params=["ordinary folder", "mount point", "archive on another disk"])
def kind(request: pytest.FixtureRequest) -> Iterator[str]:
    """How the store lies: that decides by which calls its checkpoints move."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "mount point":
            patch.setattr(aside, "is_mount_point", lambda path: path.name == "checkpoints")
        if request.param == "archive on another disk":
            patch.setattr(archive, "_move", lambda *_: False)
        yield request.param


@given(steps=steps)
@settings(
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_no_complete_checkpoint_is_lost_except_by_a_purge_that_was_asked_for(
    kind: str, steps: list[tuple[str, int | None]]
) -> None:
    with tempfile.TemporaryDirectory(prefix="store-") as folder:
        store = Store(folder=Path(folder))
        store.save(whole=True)
        store.save(whole=True)
        for number, (verb, killed_at) in enumerate(steps):
            if verb in ("save", "half"):
                store.save(whole=verb == "save")
                continue
            action = store.action(verb, number)
            if action is None:
                continue
            gone = store.may_go(action)
            desk = keeper.Desk(
                transaction=f"t-{number}",
                starts=[],
                progress=lambda *_: None,
                note=lambda _: None,
            )
            in_a_child(lambda action=action, desk=desk: keeper.perform(action, desk), killed_at)  # type: ignore[misc] # bound now
            store.wanted -= gone
            assert store.wanted <= store.there(), f"after {verb}, killed at {killed_at}"
        for kept in store.seen().archives:
            if kept.whole:
                archive.verify(store.spec, kept.name, lambda *_: None)
        shutil.rmtree(folder, ignore_errors=True)
        os.mkdir(folder)
