"""Clearing: all aside, nothing deleted, and never the wrong folder."""

import os
import subprocess
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from dflashctl.agent import aside, checkpoints
from dflashctl.agent.aside import TRASH
from dflashctl.agent.failures import AgentError
from dflashctl.agent.keeping import StoreSpec
from dflashctl.agent.records import StateFolder
from dflashctl.agent.seen import CheckpointsSeen


@pytest.fixture
def state(tmp_path: Path) -> StateFolder:
    return StateFolder(path=tmp_path / "state")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A folder with checkpoints, a dotfile, a link, a read-only file and an odd name."""
    store = tmp_path / "work" / "checkpoints"
    (store / "step-00000100").mkdir(parents=True)
    (store / "step-00000100" / "weights").write_bytes(b"w" * 1000)
    (store / "step-00000200").mkdir()
    (store / "step-00000200" / "weights").write_bytes(b"w" * 500)
    (store / ".latest").write_text("step-00000200")
    (store / "latest").symlink_to("step-00000200")
    (store / "read only\n-rf").write_text("x")
    (store / "read only\n-rf").chmod(0o400)
    for name, moment in (("step-00000100", 100), ("step-00000200", 200)):
        os.utime(store / name, (moment, moment))
    for name in (".latest", "latest", "read only\n-rf"):
        os.utime(store / name, (50, 50), follow_symlinks=False)
    return store


def contents(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def clear(path: Path, transaction: str = "t-1") -> tuple[int, Path]:
    count, folder = aside.clear(str(path), os.path.realpath(path), transaction)
    assert folder is not None
    return count, folder


def see(path: Path | str, state: StateFolder, dests: Iterable[str]) -> CheckpointsSeen:
    return checkpoints.see(StoreSpec(path=str(path)), state, dests, [])


def test_clearing_a_folder_that_is_not_there_does_nothing(tmp_path) -> None:
    assert aside.clear(str(tmp_path / "a"), str(tmp_path / "a"), "t") == (0, None)
    assert list(tmp_path.iterdir()) == []


def test_the_folder_is_counted_without_following_links(store, state) -> None:
    seen = see(store, state, ())
    assert (seen.entries, seen.count) == (5, 3), "a hidden file and a link are no checkpoints"
    assert (seen.latest, seen.latest_step) == ("step-00000200", 200)
    assert seen.latest_at == 200
    assert seen.size is not None
    assert 1500 < seen.size < 1600
    assert seen.problem is None


def test_an_ordinary_folder_is_moved_aside_whole_and_made_anew(store) -> None:
    store.chmod(0o2750)
    before = contents(store)
    count, aside = clear(store)
    assert (count, contents(aside), contents(store)) == (5, before, set())
    assert store.stat().st_mode == aside.stat().st_mode
    assert aside.parent.parent == store.parent
    aside.rename(store.parent / "back")
    assert contents(store.parent / "back") == before


def test_owner_and_access_lists_survive_a_clearing(store) -> None:
    if os.getuid() == 0:
        os.chown(store, 12345, 54321)
    try:
        os.setxattr(store, "user.note", b"kept")
    except OSError:
        pytest.skip("this filesystem has no extended attributes")
    clear(store)
    assert os.getxattr(store, "user.note") == b"kept"
    if os.getuid() == 0:
        assert (store.stat().st_uid, store.stat().st_gid) == (12345, 54321)


def test_clearing_twice_keeps_both(store) -> None:
    _, first = clear(store, "t-1")
    (store / "step-1").mkdir()
    _, second = clear(store, "t-2")
    assert first != second
    assert (second / "step-1").is_dir()
    assert (first / "step-00000100").is_dir()


def test_a_link_is_resolved_and_what_it_leads_to_is_cleared(store, state, tmp_path) -> None:
    link = tmp_path / "link"
    link.symlink_to(store)
    assert see(link, state, ()).real_path == str(store)
    clear(link)
    assert link.is_symlink()
    assert contents(store) == set()


@pytest.mark.provokes("unverified.guarded")
def test_a_link_that_was_turned_elsewhere_meanwhile_is_not_followed(store, tmp_path) -> None:
    other = tmp_path / "precious" / "data"
    other.mkdir(parents=True)
    (other / "x").touch()
    link = tmp_path / "link"
    link.symlink_to(other)
    with pytest.raises(AgentError, match="guarded"):
        aside.clear(str(link), str(store), "t")
    assert contents(other) == {"x"}


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("/", "root"),
        ("//", "root"),
        ("/../..", "root"),
        ("/workspace", "short"),
        ("/home/somebody", "home"),
        ("/root", "short"),
        ("/etc", "short"),
    ],
)
def test_what_may_never_be_cleared_is_named(path: str, problem: str, state) -> None:
    assert see(path, state, ()).problem == problem


def test_a_folder_that_holds_a_home_is_guarded(state, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home" / "me"))
    (tmp_path / "home" / "me").mkdir(parents=True)
    assert see(tmp_path / "home", state, ()).problem == "home"


def test_a_folder_that_holds_our_state_or_a_pushed_file_is_guarded(store, tmp_path) -> None:
    inside = StateFolder(path=store / "state")
    assert see(store, inside, ()).problem == "holds_state"
    elsewhere = StateFolder(path=tmp_path / "s")
    assert see(store, elsewhere, [str(store / "t.py")]).problem == "holds_files"
    (tmp_path / "l").symlink_to(store)
    linked = [str(tmp_path / "l" / "t.py")]
    assert see(store, elsewhere, linked).problem == "holds_files"


def test_a_file_where_the_folder_should_be_is_named(state, tmp_path) -> None:
    (tmp_path / "a").write_text("")
    assert see(tmp_path / "a", state, ()).problem == "not_a_directory"
    assert not see(tmp_path / "none", state, ()).exists


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Path]:
    """A filesystem of its own at a path with a blank."""
    if os.getuid() != 0:
        pytest.skip("only root can mount")
    place = tmp_path / "work" / "check points"
    place.mkdir(parents=True)
    subprocess.run(("mount", "-t", "tmpfs", "tmpfs", place), check=True)
    yield place
    subprocess.run(("umount", place), check=True)


def test_the_entries_of_a_mount_point_move_within_it(mounted, state) -> None:
    (mounted / "step-1").mkdir()
    (mounted / ".dot").touch()
    assert see(mounted, state, ()).mount_point
    count, aside = clear(mounted)
    assert (count, contents(aside)) == (2, {"step-1", ".dot"})
    assert [p.name for p in mounted.iterdir()] == [TRASH]
    assert see(mounted, state, ()).entries == 0


def test_a_bind_mount_within_one_filesystem_is_seen_as_a_mount_point(store, state, tmp_path):
    if os.getuid() != 0:
        pytest.skip("only root can mount")
    place = tmp_path / "bound"
    place.mkdir()
    subprocess.run(("mount", "--bind", store, place), check=True)
    try:
        before = contents(store)
        assert see(place, state, ()).mount_point
        _, aside = clear(place)
        assert contents(aside) == before
    finally:
        subprocess.run(("umount", place), check=True)


@pytest.mark.provokes("unverified.cannot_rename")
def test_a_filesystem_that_refuses_the_rename_leaves_all_as_it_was(store, monkeypatch) -> None:
    before = contents(store)

    def refuse(source: object, _: object) -> None:
        raise OSError(18, "Invalid cross-device link", str(source))

    monkeypatch.setattr(os, "rename", refuse)
    with pytest.raises(AgentError, match="cannot_rename"):
        clear(store)
    assert contents(store) == before


@pytest.mark.provokes("unverified.unwritable")
def test_when_the_new_folder_cannot_take_its_place_the_old_one_comes_back(
    store, monkeypatch
) -> None:
    before, rename = contents(store), os.rename

    def refuse_the_new(source: Path, target: Path) -> None:
        if ".fresh-" in str(source):
            raise PermissionError(13, "Permission denied", str(source))
        rename(source, target)

    monkeypatch.setattr(os, "rename", refuse_the_new)
    with pytest.raises(AgentError, match="unwritable"):
        clear(store)
    assert contents(store) == before


def test_twenty_thousand_entries_are_cleared_at_once(tmp_path, state) -> None:
    store = tmp_path / "work" / "many"
    store.mkdir(parents=True)
    for number in range(20_000):
        (store / str(number)).touch()
    begun = time.monotonic()
    count, _ = clear(store)
    assert count == 20_000
    assert time.monotonic() - begun < 0.5


def test_a_folder_cleared_twice_in_one_transaction_has_both(store) -> None:
    clear(store, "t-1")
    (store / "step-900").mkdir()
    clear(store, "t-1")
    assert [one.id for one in aside.cleared(store)] == ["t-1", "t-1-2"]


def test_an_empty_folder_makes_no_clearing_that_hides_the_last_one(store) -> None:
    clear(store, "t-1")
    assert aside.clear(str(store), str(store), "t-2") == (0, None)
    assert [one.id for one in aside.cleared(store)] == ["t-1"]


def test_a_clearing_that_was_cut_comes_back_whole(store, monkeypatch) -> None:
    monkeypatch.setattr(aside, "is_mount_point", lambda path: path == store)
    before = sorted(path.name for path in store.iterdir())
    renamed, left = os.rename, 1

    def cut(source: object, dest: object) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt
        renamed(source, dest)  # type: ignore[arg-type] # as it was called

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", cut)
        with pytest.raises(KeyboardInterrupt):
            clear(store, "t-1")
    aside.restore(str(store), str(store), "t-1", "t-2")
    assert sorted(path.name for path in aside.listed(store)) == before
    assert aside.cleared(store) == []
