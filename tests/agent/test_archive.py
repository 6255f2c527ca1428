"""Archives: whole and verified, or not there; and what comes back is what went in."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dflashctl.agent import archive, aside, keeper, stream
from dflashctl.agent.failures import AgentError
from dflashctl.agent.keeping import (
    ArchiveCheckpoints,
    PruneCheckpoints,
    QuietFor,
    RestoreCheckpoints,
    StoreSpec,
    VerifyArchive,
)
from dflashctl.agent.manifest import archives

Perform = Callable[[Any], tuple[str, dict[str, Any]]]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Checkpoints with all that a folder can hold."""
    store = tmp_path / "work" / "checkpoints"
    for step in (100, 200):
        place = store / f"step-{step}"
        (place / "deep" / ("n" * 120) / "er").mkdir(parents=True)
        (place / "weights").write_bytes(os.urandom(300_000))
        (place / "deep" / ("n" * 120) / "er" / "näme\n-rf").write_text("odd")
        (place / "empty").touch()
        (place / "read only").write_text("x")
        (place / "read only").chmod(0o400)
        with (place / "sparse").open("wb") as file:
            for at in range(0, 12 << 20, 2 << 20):
                file.seek(at)
                file.write(b"data" * 1000)
            file.truncate(16 << 20)
        os.link(place / "weights", place / "weights-again")
        (place / "link").symlink_to("weights")
        os.utime(place, (step, step))
    (store / "latest").symlink_to("step-200")
    (store / "step-100-merged").mkdir()
    return store


@pytest.fixture
def spec(store: Path, tmp_path: Path) -> StoreSpec:
    return StoreSpec(path=str(store), archive_to=str(tmp_path / "archive"))


@pytest.fixture
def perform() -> Perform:
    told: list[tuple[int, int]] = []
    numbers = iter(range(100))

    def perform(action: Any) -> tuple[str, dict[str, Any]]:
        desk = keeper.Desk(
            transaction=f"t-{next(numbers)}",
            starts=[],
            progress=lambda done, total: told.append((done, total)),
            note=lambda _: None,
        )
        told.clear()  # of one that was cut
        result = keeper.perform(action, desk)
        if told:
            assert [done for done, _ in told] == sorted(done for done, _ in told)
            assert told[-1][0] <= told[-1][1]
        return result

    return perform


def archiving(spec: StoreSpec, name: str = "one", *, remove: bool = False) -> ArchiveCheckpoints:
    return ArchiveCheckpoints(
        store=spec,
        real_path=os.path.realpath(spec.path),
        name=name,
        names=None,
        then_remove=remove,
    )


def restoring(spec: StoreSpec, name: str = "one", to: str | None = None) -> RestoreCheckpoints:
    real = to or os.path.realpath(spec.path)
    return RestoreCheckpoints(store=spec, real_path=real, name=name, to=to)


def contents(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path in folder.rglob("*"):
        about = path.lstat()
        if path.is_symlink():
            content: Any = os.readlink(path)
        else:
            content = path.read_bytes() if path.is_file() else None
        at = 0 if path.is_symlink() else int(about.st_mtime)
        found[str(path.relative_to(folder))] = (oct(about.st_mode), at, content)
    return found


@pytest.fixture(params=["renamed", "tar.zst", "tar", "Python's tar"])
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param != "renamed":
        monkeypatch.setattr(archive, "_move", lambda *_: False)
    if request.param in ("tar", "Python's tar"):
        monkeypatch.setattr(stream, "form_here", lambda: "tar")
    if request.param == "Python's tar":
        monkeypatch.setattr(stream, "has_gnu_tar", lambda: False)
    name: str = request.param
    return name


def test_what_comes_back_is_what_went_in(form, store, spec, perform) -> None:
    before = contents(store)
    merged = before.pop("step-100-merged")
    perform(archiving(spec, remove=True))
    assert contents(store) == {"step-100-merged": merged}
    (kept,) = archives(spec)
    assert (kept.whole, kept.names, kept.latest_step) == (True, ("step-100", "step-200"), 200)
    assert kept.form == ("files" if form == "renamed" else form[:7].replace("Python'", "tar"))
    perform(VerifyArchive(store=spec, name="one"))
    _, facts = perform(restoring(spec))
    assert contents(store) == before
    first = store / "step-100"
    assert os.path.samefile(first / "weights", first / "weights-again")
    if form != "Python's tar":
        assert (first / "sparse").stat().st_blocks * 512 < 1 << 20
    assert contents(Path(facts["moved_to"])) == {"step-100-merged": merged}
    perform(VerifyArchive(store=spec, name="one"))


def test_the_originals_stay_unless_asked_otherwise(store, spec, perform) -> None:
    before = contents(store)
    perform(archiving(spec))
    assert contents(store) == before
    assert archives(spec)[0].form != "files"


@pytest.mark.provokes("unverified.not_empty")
def test_a_copy_to_another_folder_touches_nothing_else(store, spec, perform, tmp_path) -> None:
    before = contents(store)
    perform(archiving(spec))
    perform(restoring(spec, to=str(tmp_path / "new" / "place")))
    assert contents(store) == before
    assert (tmp_path / "new" / "place" / "step-200" / "weights").is_file()
    with pytest.raises(AgentError, match="not_empty"):
        perform(restoring(spec, to=str(tmp_path / "new" / "place")))


@pytest.mark.parametrize("form", ["tar.zst", "renamed"], indirect=True)
def test_an_altered_archive_is_neither_verified_nor_restored(
    form, store, spec, perform, tmp_path
) -> None:
    perform(archiving(spec, remove=True))
    (store / "step-300").mkdir()
    before = contents(store)
    place = tmp_path / "archive" / "one"
    if form == "renamed":
        (place / "files" / "step-200" / "weights").write_bytes(os.urandom(300_000))
    else:
        data = bytearray((place / "data.tar.zst").read_bytes())
        data[len(data) // 2] ^= 1
        (place / "data.tar.zst").write_bytes(data)
    for action in (VerifyArchive(store=spec, name="one"), restoring(spec)):
        with pytest.raises(AgentError, match=r"damaged|stream_failed"):
            perform(action)
    assert contents(store) == before
    assert not any(path.name.startswith(".purging") for path in store.parent.rglob("*"))


@pytest.mark.provokes("unverified.damaged")
def test_a_cut_stream_is_damaged(store, spec, perform, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(stream, "form_here", lambda: "tar")
    perform(archiving(spec))
    data = tmp_path / "archive" / "one" / "data.tar"
    for size in (500_000, 300_000, 700, 0):
        os.truncate(data, size)
        with pytest.raises(AgentError, match="damaged"):
            perform(VerifyArchive(store=spec, name="one"))


@pytest.mark.provokes("unverified.changed")
def test_a_file_that_changes_meanwhile_leaves_no_archive(store, spec, perform, monkeypatch):
    pack = stream.pack

    def pack_and_change(*args: Any) -> None:
        pack(*args)
        (store / "step-100" / "read only").write_text("y")

    monkeypatch.setattr(stream, "pack", pack_and_change)
    with pytest.raises(AgentError, match=r"changed|damaged"):
        perform(archiving(spec, remove=False))
    assert archives(spec) == ()
    assert (store / "step-100" / "weights").exists()


@pytest.mark.provokes("unverified.archive_exists")
def test_two_archives_of_one_name_are_refused(spec, perform) -> None:
    perform(archiving(spec))
    with pytest.raises(AgentError, match="archive_exists"):
        perform(archiving(spec))


@pytest.mark.provokes("unverified.odd_file")
def test_a_socket_in_a_checkpoint_is_named(store, spec, perform, monkeypatch) -> None:
    monkeypatch.chdir(store / "step-100")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("sock")
        with pytest.raises(AgentError, match="odd_file"):
            perform(archiving(spec))
    assert archives(spec) == ()


def test_nothing_complete_is_nothing_to_archive(spec, perform) -> None:
    never = replace(spec, pattern="nothing-*")
    assert perform(archiving(never))[1]["count"] == 0
    assert archives(spec) == ()


def test_quiet_is_waited_for(spec, store, perform, monkeypatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("dflashctl.agent.archive.time.sleep", slept.append)
    perform(archiving(replace(spec, complete_when=QuietFor(seconds=60))))
    assert len(slept) == 1
    assert 50 < slept[0] <= 61


def test_an_archive_in_the_making_by_somebody_else_is_left_alone(spec, perform, tmp_path) -> None:
    other = tmp_path / "archive" / ".partial-theirs"
    (tmp_path / "archive").mkdir()
    with archive._held(other):
        perform(archiving(spec))
        assert other.exists()
    perform(archiving(spec, "two"))
    assert not other.exists()


@pytest.mark.provokes("unverified.newest")
def test_the_newest_complete_checkpoint_is_never_deleted(store, spec, perform) -> None:
    def pruning(*names: str) -> PruneCheckpoints:
        return PruneCheckpoints(store=spec, real_path=os.path.realpath(spec.path), names=names)

    with pytest.raises(AgentError, match="newest"):
        perform(pruning("step-100", "step-200"))
    assert (store / "step-100").exists()
    perform(pruning("step-100", "step-100-merged", "../.."))
    assert not (store / "step-100").exists()
    assert (store / "step-100-merged").exists(), "it only looks alike"


def test_read_only_folders_can_be_deleted_by_their_owner(tmp_path) -> None:
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    (folder / "x").touch()
    (tmp_path / "out").write_text("stays")
    (folder / "link").symlink_to(tmp_path / "out")
    folder.chmod(0o500)
    folder.parent.chmod(0o500)
    aside.remove_tree(tmp_path / "a")
    assert not (tmp_path / "a").exists()
    assert (tmp_path / "out").exists()


def test_the_stream_is_one_that_tar_and_zstd_can_read(store, spec, perform, tmp_path) -> None:
    perform(archiving(spec))
    place = tmp_path / "archive" / "one"
    form = json.loads((place / "archive.json").read_text())["form"]
    into = tmp_path / "by hand"
    into.mkdir()
    unzip = "zstd -dc" if form == "tar.zst" else "cat"
    subprocess.run(
        ("sh", "-c", f'{unzip} "$1" | tar -xf - -C "$2"', "-", place / f"data.{form}", into),
        check=True,
    )
    assert contents(into / "step-200") == contents(store / "step-200")


@pytest.mark.provokes("unverified.no_archive_to")
def test_without_a_place_for_archives_there_are_none(spec, perform) -> None:
    with pytest.raises(AgentError, match="no_archive_to"):
        perform(archiving(StoreSpec(path=spec.path, archive_to=None)))


@pytest.mark.provokes("unverified.no_such_archive")
def test_an_archive_that_went_away_meanwhile_is_named(spec, perform) -> None:
    with pytest.raises(AgentError, match="no_such_archive") as caught:
        perform(VerifyArchive(store=spec, name="gone"))
    assert caught.value.failure.detail["name"] == "gone"


@pytest.mark.provokes("unverified.no_such_clearing")
def test_a_clearing_that_went_away_meanwhile_is_named(spec) -> None:
    with pytest.raises(AgentError, match="no_such_clearing"):
        aside.restore(spec.path, os.path.realpath(spec.path), "t-gone", "t-1")


@pytest.mark.provokes("unverified.no_zstd")
def test_a_packed_archive_needs_the_program_that_packed_it(
    spec, perform, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(stream, "form_here", lambda: "tar")
    perform(archiving(spec))
    about = tmp_path / "archive" / "one" / "archive.json"
    about.write_text(about.read_text().replace('"tar"', '"tar.zst"'))
    monkeypatch.setattr("shutil.which", lambda _: None)
    with pytest.raises(AgentError, match="no_zstd"):
        perform(VerifyArchive(store=spec, name="one"))


@pytest.mark.provokes("unverified.stream_failed")
def test_a_copy_that_fails_is_told_by_its_programs_code(tmp_path) -> None:
    with pytest.raises(AgentError, match="stream_failed") as caught:
        stream.copy(tmp_path / "gone", tmp_path)
    assert caught.value.failure.detail["codes"] == [1]


def test_what_others_keep_beside_archives_is_left_alone(spec, perform, tmp_path) -> None:
    theirs = tmp_path / "archive" / ".partial-rsync"
    theirs.mkdir(parents=True)
    (theirs / "weights").write_text("precious")
    (tmp_path / "archive" / ".partial-note").write_text("a file")
    odd = tmp_path / "archive" / "museum"
    odd.mkdir()
    (odd / "archive.json").write_text('{"size": null, "names": 5}')
    perform(archiving(spec))
    assert [one.name for one in archives(spec)] == ["one"]
    assert (theirs / "weights").read_text() == "precious"
    with pytest.raises(AgentError, match="damaged"):
        perform(VerifyArchive(store=spec, name="museum"))


@pytest.mark.parametrize("moved", [True, False])
def test_what_comes_into_a_checkpoint_meanwhile_is_not_removed(
    moved: bool, store: Path, spec: StoreSpec, perform: Perform, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed = archive.__dict__["_write_manifest"]

    def late(*given: Any) -> None:
        hashed(*given)
        (store / "step-100" / "deep" / "late").write_text("late")

    monkeypatch.setattr(archive, "_write_manifest", late)
    if not moved:
        monkeypatch.setattr(archive, "_move", lambda *_: False)
    with pytest.raises(AgentError, match="changed"):
        perform(archiving(spec, remove=True))
    assert (store / "step-100" / "deep" / "late").read_text() == "late"
    assert (store / "step-200" / "weights").exists()
    assert archives(spec) == ()


def test_what_goes_meanwhile_is_named(store, spec, perform, monkeypatch) -> None:
    hashed = archive.__dict__["_about"]

    def gone(*given: Any) -> Any:
        (store / "step-100" / "empty").unlink()
        return hashed(*given)

    monkeypatch.setattr(archive, "_about", gone)
    monkeypatch.setattr(archive, "_move", lambda *_: False)
    cargo = archive.__dict__["_cargo"]

    def as_seen(*given: Any) -> Any:
        found = cargo(*given)
        (store / "step-200").rename(store / "elsewhere")
        return found

    monkeypatch.setattr(archive, "_cargo", as_seen)
    with pytest.raises(AgentError, match="changed") as caught:
        perform(archiving(spec))
    assert caught.value.failure.detail["path"].endswith("step-200")
    assert archives(spec) == ()


def test_a_cut_move_takes_no_more_from_under_a_run_that_may_live(
    store, spec, perform, monkeypatch
) -> None:
    renamed, left = os.rename, 1

    def cut(source: Any, dest: Any) -> None:
        nonlocal left
        if str(store) in str(source):
            left -= 1
            if left < 0:
                raise KeyboardInterrupt
        renamed(source, dest)

    monkeypatch.setattr(os, "rename", cut)
    monkeypatch.setattr(archive, "_undo", lambda *_: None)
    with pytest.raises(KeyboardInterrupt):
        perform(archiving(spec, "cut", remove=True))
    monkeypatch.undo()
    perform(archiving(spec, "two"))
    assert (store / "step-200" / "weights").exists()
    cut_short, two = archives(spec)
    assert (cut_short.names, cut_short.latest_step) == (("step-100",), 100)
    assert two.names == ("step-200",)
    for name in ("cut", "two"):
        perform(VerifyArchive(store=spec, name=name))


def test_an_archive_with_more_in_it_than_its_manifest_knows_is_not_restored(
    store, spec, perform, tmp_path
) -> None:
    perform(archiving(spec, remove=True))
    (tmp_path / "archive" / "one" / "files" / "step-100" / "evil.so").write_text("x")
    for action in (
        VerifyArchive(store=spec, name="one"),
        RestoreCheckpoints(store=spec, real_path=spec.path, name="one", to=None),
    ):
        with pytest.raises(AgentError, match="damaged") as caught:
            perform(action)
        assert caught.value.failure.detail["path"].endswith("evil.so")


@pytest.mark.parametrize(
    "line",
    [
        {"path": "../up", "mode": 0, "kind": "dir"},
        {"path": "/etc", "mode": 0, "kind": "dir"},
        {"path": "a", "mode": 0, "kind": "device"},
        {"path": "a", "mode": 0, "kind": "link"},
        {"path": "a", "mode": 0, "kind": "file", "size": "1", "mtime_ns": 0, "sha256": ""},
        ["a"],
    ],
)
def test_a_manifest_that_lies_is_damaged(line: Any, spec, perform, tmp_path) -> None:
    perform(archiving(spec))
    manifest = tmp_path / "archive" / "one" / "manifest.jsonl"
    manifest.write_text(json.dumps(line) + "\n" + manifest.read_text())
    with pytest.raises(AgentError, match="damaged"):
        perform(RestoreCheckpoints(store=spec, real_path=spec.path, name="one", to=None))


def test_a_stream_that_is_none_is_damaged(spec, perform, tmp_path) -> None:
    perform(archiving(spec))
    place = tmp_path / "archive" / "one"
    about = json.loads((place / "archive.json").read_text())
    (place / "archive.json").write_text(json.dumps({**about, "form": "tar"}))
    (place / "data.tar").write_bytes(b"zz" * 5000)
    with pytest.raises(AgentError, match="damaged"):
        perform(VerifyArchive(store=spec, name="one"))


def test_a_copy_goes_to_where_a_link_leads_and_leaves_nothing_beside_it(
    spec, perform, tmp_path
) -> None:
    perform(archiving(spec))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to("elsewhere")
    to = str(tmp_path / "link" / "copy")
    perform(RestoreCheckpoints(store=spec, real_path=to, name="one", to=to))
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["copy"]
