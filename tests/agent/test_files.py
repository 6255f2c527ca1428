"""Pushed files: looked at, received, and put in place wholly or not at all."""

import errno
import hashlib
import io
import os
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dflashctl.agent import files
from dflashctl.agent.failures import AgentError
from dflashctl.agent.protocol import FileWanted
from dflashctl.agent.records import StateFolder

from .conftest import R1, Bench


@pytest.fixture
def state(tmp_path: Path) -> StateFolder:
    state = StateFolder(path=tmp_path / "state")
    state.create()
    return state


def wanted(dest: Path | str, content: bytes, mode: int = 0o644) -> FileWanted:
    sha256 = hashlib.sha256(content).hexdigest()
    return FileWanted(dest=str(dest), sha256=sha256, size=len(content), mode=mode)


def stage(state: StateFolder, members: dict[str, bytes], cut: int | None = None) -> None:
    folder = files.make_staging(state, "t", 0)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in members.items():
            about = tarfile.TarInfo(name)
            about.size = len(content)
            tar.addfile(about, io.BytesIO(content))
    (folder / files.ARCHIVE).write_bytes(buffer.getvalue()[:cut])


def put(state: StateFolder, *contents: tuple[Path, bytes]) -> tuple[FileWanted, ...]:
    them = tuple(wanted(dest, content) for dest, content in contents)
    stage(state, {file.sha256: content for file, (_, content) in zip(them, contents, strict=True)})
    files.receive(state, "t", them)
    files.drop_staging(state, "t")
    return them


def failure(call: object, *args: object) -> tuple[str, dict]:
    with pytest.raises(AgentError) as caught:
        call(*args)  # type: ignore[operator] # a function
    return caught.value.failure.code, caught.value.failure.detail


def test_a_received_file_is_kept_under_its_hash_and_put_in_place(state, tmp_path) -> None:
    dest = tmp_path / "new" / "folder" / "train.py"
    files.place(state, put(state, (dest, b"print()")))
    assert dest.read_bytes() == b"print()"
    assert oct(dest.stat().st_mode & 0o7777) == "0o644"
    assert [p.name for p in dest.parent.iterdir()] == ["train.py"]


def test_placing_keeps_the_owner_and_follows_a_link_to_the_real_file(state, tmp_path) -> None:
    real, link = tmp_path / "real.py", tmp_path / "link.py"
    real.write_text("old")
    link.symlink_to(real)
    if os.getuid() == 0:
        os.chown(real, 12345, 12345)
    files.place(state, put(state, (link, b"new")))
    assert link.is_symlink()
    assert real.read_text() == "new"
    if os.getuid() == 0:
        assert real.stat().st_uid == 12345


@pytest.mark.parametrize("cut", [0, 100, 511, 512, 600, 1023])
def test_an_upload_that_was_cut_is_refused_and_leaves_no_blob(state, tmp_path, cut) -> None:
    content = b"x" * 600
    file = wanted(tmp_path / "a", content)
    stage(state, {file.sha256: content}, cut=cut)
    code, _ = failure(files.receive, state, "t", (file,))
    assert code == "bad_upload"
    assert list(state.blobs.iterdir()) == []


@pytest.mark.provokes("unverified.bad_upload")
def test_an_upload_with_another_content_is_refused(state, tmp_path) -> None:
    file = wanted(tmp_path / "a", b"right")
    stage(state, {file.sha256: b"wrong"})
    assert failure(files.receive, state, "t", (file,))[0] == "bad_upload"
    assert list(state.blobs.iterdir()) == []


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "lock"])
def test_a_member_by_any_other_name_than_a_promised_hash_is_refused(state, tmp_path, name) -> None:
    stage(state, {name: b"x"})
    assert failure(files.receive, state, "t", (wanted(tmp_path / "a", b"x"),))[0] == "bad_upload"


def test_a_link_in_the_archive_is_refused(state, tmp_path) -> None:
    file = wanted(tmp_path / "a", b"")
    folder = files.make_staging(state, "t", 0)
    with tarfile.open(folder / files.ARCHIVE, "w") as tar:
        about = tarfile.TarInfo(file.sha256)
        about.type, about.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(about)
    assert failure(files.receive, state, "t", (file,))[0] == "bad_upload"


def test_nothing_is_put_in_place_when_one_of_several_cannot_be(state, tmp_path) -> None:
    first, second = tmp_path / "a", tmp_path / "folder"
    first.write_text("old")
    second.mkdir()
    them = put(state, (first, b"new"), (second / "x" / "y", b"new"))
    (second / "x").write_text("a file where a folder should be")
    with pytest.raises(AgentError):
        files.place(state, them)
    assert first.read_text() == "old"
    assert sorted(p.name for p in tmp_path.iterdir() if p.name.startswith(".")) == []


@settings(
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    names=st.lists(
        st.text(
            alphabet=st.characters(exclude_characters="/\0", exclude_categories=["Cs"]),
            min_size=1,
            max_size=40,
        ).filter(lambda name: name not in (".", "..") and not name.startswith(".")),
        min_size=1,
        max_size=4,
        unique=True,
    ),
    content=st.binary(max_size=2000),
)
def test_any_name_and_any_content_arrive_byte_for_byte(tmp_path, names, content) -> None:
    state = StateFolder(path=tmp_path / "state")
    places = [tmp_path / "there" / name for name in names]
    files.place(state, put(state, *((p, content + str(n).encode()) for n, p in enumerate(places))))
    for number, place in enumerate(places):
        assert place.read_bytes() == content + str(number).encode()
        place.unlink()


def test_a_blob_that_rotted_is_not_put_in_place_and_is_sent_anew(state, tmp_path) -> None:
    dest = tmp_path / "train.py"
    dest.write_bytes(b"old")
    (file,) = put(state, (dest, b"new"))
    state.blob(file.sha256).write_bytes(b"nex")
    assert failure(files.place, state, (file,))[0] == "bad_upload"
    assert dest.read_bytes() == b"old"
    assert not files.see(file, state).stored


def test_a_name_as_long_as_a_filesystem_takes_can_be_placed(state, tmp_path) -> None:
    dest = tmp_path / ("é" * 126)
    files.place(state, put(state, (dest, b"x")))
    assert dest.read_bytes() == b"x"


def test_a_private_file_is_private_from_its_first_byte(state, tmp_path, monkeypatch) -> None:
    modes: list[int] = []
    fsync = os.fsync

    def watch(handle: int) -> None:
        modes.append(os.fstat(handle).st_mode & 0o777)
        fsync(handle)

    (file,) = put(state, (tmp_path / "key", b"secret"))
    monkeypatch.setattr(os, "fchmod", lambda *_: None)
    monkeypatch.setattr(os, "fsync", watch)
    files.place(state, (file,))
    assert modes[0] == 0o600


def test_a_file_that_nobody_may_read_can_be_placed(state, tmp_path) -> None:
    (file,) = put(state, (tmp_path / "shut", b"x"))
    files.place(state, (replace(file, mode=0o200),))
    assert (tmp_path / "shut").stat().st_mode & 0o777 == 0o200


def test_of_many_files_all_are_on_the_disk_before_any_is_in_its_place(
    state, tmp_path, monkeypatch
) -> None:
    """And one that cannot be brought there keeps every one of them away."""
    wanted = put(state, *((tmp_path / str(n), b"%d" % n) for n in range(50)))
    synced: list[int] = []
    fsync = os.fsync

    def sync(handle: int) -> None:
        fsync(handle)
        if not os.path.isdir(f"/proc/self/fd/{handle}"):
            assert not list(tmp_path.glob("[0-9]*"))
            synced.append(handle)
            if len(synced) == at_most:
                raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "fsync", sync)
    at_most = 20
    code, _ = failure(files.place, state, wanted)
    assert code == "disk_full"
    assert not [path for path in tmp_path.iterdir() if path.is_file()]
    at_most, synced[:] = 1000, []
    files.place(state, wanted)
    assert len(synced) == len(list(tmp_path.glob("[0-9]*"))) == 50


def test_what_is_in_the_place_of_a_file_is_told(state, tmp_path) -> None:
    there = tmp_path / "there.py"
    there.write_bytes(b"abc")
    there.chmod(0o755)
    seen = files.see(wanted(there, b"abc"), state)
    assert (seen.sha256, seen.mode, seen.problem) == (wanted("", b"abc").sha256, 0o755, None)
    assert files.see(wanted(tmp_path / "absent" / "x", b""), state).problem is None
    assert files.see(wanted(tmp_path, b""), state).problem == "directory"
    assert files.see(wanted(there / "below", b""), state).problem == "no_parent"
    assert files.see(wanted("/dev/null", b""), state).problem == "not_a_file"
    assert files.see(wanted("/proc/x", b""), state).problem == "unwritable" or os.getuid() == 0


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Path]:
    """A filesystem of 256 KiB."""
    if os.getuid() != 0:
        pytest.skip("only root can mount a small filesystem")
    place = tmp_path / "tiny"
    place.mkdir()
    subprocess.run(("mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", place), check=True)
    yield place
    subprocess.run(("umount", place), check=True)


@pytest.mark.provokes("unverified.disk_full")
def test_a_full_disk_is_called_a_full_disk_and_the_old_file_stays(state, tiny) -> None:
    dest = tiny / "train.py"
    dest.write_bytes(b"old")
    (tiny / "filler").write_bytes(b"x" * 200_000)
    code, detail = failure(files.place, state, put(state, (dest, b"n" * 100_000)))
    assert code == "disk_full"
    assert str(tiny) in detail["path"]
    assert dest.read_bytes() == b"old"
    assert sorted(p.name for p in tiny.iterdir()) == ["filler", "train.py"]
    (tiny / "filler").unlink()
    files.place(state, (wanted(dest, b"n" * 100_000),))
    assert dest.stat().st_size == 100_000


def test_a_full_disk_does_not_keep_a_run_from_being_stopped(tiny: Path, bench: Bench) -> None:
    bench.state_name = "full"
    (bench.folder / "full").symlink_to(tiny)
    bench.start(R1, "sleep 60")
    (tiny / "filler").write_bytes(b"x" * 100_000)
    with suppress(OSError), (tiny / "rest").open("wb", buffering=0) as rest:
        while True:
            rest.write(b"x" * 4096)
    outcome = bench.stop(R1)
    assert outcome.failure is None
    assert bench.sessions() == []


def test_no_room_for_an_upload_is_said_before_it_is_sent(tiny) -> None:
    state = StateFolder(path=tiny / "state")
    code, detail = failure(files.make_staging, state, "t", 1000)
    assert code == "disk_full"
    assert detail["free"] < detail["needed"]
