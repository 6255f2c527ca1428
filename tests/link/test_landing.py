"""What a target sends lands in the folder that was named, whole, and nowhere else."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflashctl.agent import keeper, pull
from dflashctl.agent.keeping import (
    ArchiveCheckpoints,
    Pull,
    PullBegun,
    PullData,
    PullDone,
    PullEvent,
    PullPath,
    StoreSpec,
)
from dflashctl.errors import CannotWrite, Internal
from dflashctl.link.landing import Landing, check_link


@pytest.fixture
def spec(tmp_path: Path) -> StoreSpec:
    store = tmp_path / "there" / "checkpoints"
    place = store / "step-100"
    (place / "deep" / "er").mkdir(parents=True)
    (place / "weights").write_bytes(os.urandom(900_000))
    (place / "deep" / "er" / "näme\n-rf").write_text("odd")
    (place / "empty").touch()
    os.link(place / "weights", place / "again")
    (place / "deep" / "link").symlink_to("../weights")
    (store / "latest").symlink_to("step-100")
    return StoreSpec(path=str(store), archive_to=str(tmp_path / "there" / "archive"))


@pytest.fixture
def here(tmp_path: Path) -> Path:
    return tmp_path / "here"


def archived(spec: StoreSpec, *, moved: bool) -> None:
    wanted = ArchiveCheckpoints(
        store=spec, real_path=spec.path, name="one", names=None, then_remove=moved
    )
    desk = keeper.Desk(transaction="t", starts=[], progress=lambda *_: None, note=lambda _: None)
    keeper.perform(wanted, desk)


class Cut(Exception):
    pass


def fetch(
    spec: StoreSpec, here: Path, name: str, cut_after: int | None = None
) -> tuple[Path | None, list[PullEvent]]:
    """One pull, the connection cut after so many events."""
    heard: list[PullEvent] = []
    landing = Landing(here, name, lambda *_: None)

    def tell(event: PullEvent) -> None:
        if cut_after is not None and len(heard) >= cut_after:
            raise Cut
        heard.append(event)
        landing.take(event)

    request = Pull(
        store=spec, name=name, identity=landing.identity, skip=landing.skip, offset=landing.offset
    )
    try:
        pull.send_all(request, tell)
    except Cut:
        return None, heard
    finally:
        landing.close()
    return landing.finish(), heard


def same(one: Path, other: Path) -> bool:
    def contents(folder: Path) -> dict[str, Any]:
        return {
            str(path.relative_to(folder)): os.readlink(path)
            if path.is_symlink()
            else path.read_bytes()
            if path.is_file()
            else None
            for path in folder.rglob("*")
        }

    return contents(one) == contents(other)


@pytest.mark.parametrize("form", ["a checkpoint", "a moved archive", "a stream"])
def test_it_arrives_as_it_is_there_however_often_it_is_cut(
    form: str, spec: StoreSpec, here: Path, tmp_path: Path
) -> None:
    original = tmp_path / "there" / "original"
    shutil.copytree(spec.path, original, symlinks=True)
    name = "step-100"
    if form != "a checkpoint":
        archived(spec, moved=form == "a moved archive")
        name = "one"
    pieces = 0
    for cut_after in (1, 3, 7, 8, 9, 5, 2):
        place, heard = fetch(spec, here, name, cut_after)
        pieces += sum(isinstance(event, PullData) for event in heard)
        if place is not None:
            break
    else:
        place, heard = fetch(spec, here, name)
        pieces += sum(isinstance(event, PullData) for event in heard)
    assert place == here / name
    assert same(place, original / "step-100" if name == "step-100" else original)
    first = place if name == "step-100" else place / "step-100"
    assert os.path.samefile(first / "weights", first / "again")
    assert [path.name for path in here.iterdir()] == [name], "nothing is left over"
    assert pieces == 5, "no piece was sent twice"


def test_what_changed_meanwhile_is_begun_anew(spec: StoreSpec, here: Path) -> None:
    fetch(spec, here, "step-100", 7)
    (Path(spec.path) / "step-100" / "weights").write_bytes(b"new")
    place, _ = fetch(spec, here, "step-100")
    assert place is not None
    assert (place / "weights").read_bytes() == b"new"


def test_what_is_there_already_is_not_touched(spec: StoreSpec, here: Path) -> None:
    (here / "step-100").mkdir(parents=True)
    with pytest.raises(CannotWrite):
        Landing(here, "step-100", lambda *_: None)
    assert list((here / "step-100").iterdir()) == []


def of(path: str, kind: str = "file", **more: Any) -> PullPath:
    facts: dict[str, Any] = {"mode": 0o4777, "size": 3, "mtime_ns": 0, "target": ""}
    return PullPath(path=path, kind=kind, **{**facts, **more})


def begun(here: Path, *events: PullEvent) -> Landing:
    landing = Landing(here, "x", lambda *_: None)
    landing.take(PullBegun(identity="i", paths=1, size=3))
    for event in events:
        landing.take(event)
    return landing


ABC = PullData(data="YWJj")
SHA = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


@pytest.mark.parametrize(
    "path", ["../out", "/out", "a/../../out", "", ".", "a//b", "a/./b", "..", "a\0b"]
)
@pytest.mark.parametrize("kind", ["file", "dir", "link", "hard"])
def test_a_path_that_leads_out_ends_it(path: str, kind: str, here: Path) -> None:
    with pytest.raises(Internal, match="leads out"):
        begun(here, of(path, kind, target="x"))
    assert not (here.parent / "out").exists()


@pytest.mark.parametrize("kind", ["fifo", "char", "block", "socket"])
def test_a_device_is_never_made(kind: str, here: Path) -> None:
    with pytest.raises(Internal):
        begun(here, of("a", kind))


@pytest.mark.parametrize(
    "target", ["/etc/passwd", "../x", "a/../../x", "d/l/../../etc", "", "..", "a//b", "./.."]
)
def test_a_link_that_leads_out_ends_it(target: str) -> None:
    with pytest.raises(Internal, match="leads out"):
        check_link(of("l", "link", target=target))


def test_a_file_behind_a_link_is_refused_since_links_come_last(here: Path) -> None:
    with pytest.raises(Internal, match="before its folder"):
        begun(here, of("l", "link", target="d"), PullDone(sha256=""), of("l/x"))


@given(st.lists(st.sampled_from(["..", "a", "b", ".", ""]), min_size=1, max_size=5))
def test_a_link_that_is_let_through_stays_within(parts: list[str]) -> None:
    link = of("d/e/l", "link", target="/".join(parts))
    try:
        check_link(link)
    except Internal:
        return
    where = os.path.normpath(os.path.join("root/d/e", link.target))
    assert where == "root" or where.startswith("root/")


@pytest.mark.parametrize(
    "events",
    [
        (of("a"), ABC, ABC),
        (of("a"), ABC, PullDone(sha256="0" * 64)),
        (of("a", size=4), ABC, PullDone(sha256=SHA)),
        (ABC,),
        (PullDone(sha256=""),),
        (of("a"), ABC, PullDone(sha256=SHA), of("a"), ABC, PullDone(sha256=SHA)),
    ],
)
def test_more_less_or_other_bytes_than_announced_end_it(events, here: Path) -> None:
    with pytest.raises(Internal):
        begun(here, *events)
    assert not (here / "x").exists()


def test_no_mode_gives_more_than_reading_writing_and_running(here: Path) -> None:
    landing = begun(here, of("a"), ABC, PullDone(sha256=SHA))
    assert (landing.finish() / "a").stat().st_mode & 0o7000 == 0


def test_a_disk_without_room_is_told_before_anything_comes(here: Path) -> None:
    landing = Landing(here, "x", lambda *_: None)
    with pytest.raises(CannotWrite) as caught:
        landing.take(PullBegun(identity="i", paths=1, size=1 << 60))
    assert "are free" in caught.value.reason
