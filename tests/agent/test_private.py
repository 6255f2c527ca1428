"""The state folder is ours alone, or it is not used: symlinks, foreign owners, open folders."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dflashctl.agent.failures import AgentError
from dflashctl.agent.journal import locked
from dflashctl.agent.private import check, danger
from dflashctl.agent.protocol import Failure, Stage
from dflashctl.agent.records import StateFolder
from tests import other_user

from .conftest import WHO, Bench
from .test_serve import Agent

UID = other_user.UID


@pytest.fixture
def common(work: Path) -> Path:
    """A folder that everybody may write to, as /tmp is."""
    work.chmod(0o1777)
    return work


def test_a_folder_of_ours_is_fine_where_it_is_and_where_it_is_not_yet(common: Path) -> None:
    (common / "state").mkdir(mode=0o700)
    assert danger(common / "state") is None
    assert danger(common / "not" / "yet") is None
    (common / "link").symlink_to(common / "state")
    assert danger(common / "link") is None


@pytest.mark.parametrize(("mode", "who"), [(0o777, "everybody"), (0o770, "a group")])
def test_a_folder_that_others_may_write_to_is_told(common: Path, mode: int, who: str) -> None:
    (common / "state").mkdir()
    (common / "state").chmod(mode)
    assert danger(common / "state") == (str(common / "state"), f"{who} may write to it")


def test_a_folder_above_in_which_others_may_put_another_is_told(work: Path) -> None:
    above = work / "above"
    above.mkdir()
    above.chmod(0o777)
    assert danger(above / "state") == (str(above), "everybody may write to it")
    above.chmod(0o1777)
    assert danger(above / "state") is None


@other_user.needs_root
def test_a_folder_of_another_user_is_told_also_behind_a_link(common: Path) -> None:
    def attack() -> None:
        (common / "state").mkdir(mode=0o700)
        (common / "link").symlink_to(common / "state")

    other_user.does(attack)
    assert danger(common / "state") == (str(common / "state"), f"it belongs to uid {UID}")
    assert danger(common / "link") == (str(common / "state"), f"it belongs to uid {UID}")
    assert danger(common / "state" / "inner") == (str(common / "state"), f"it belongs to uid {UID}")


@other_user.needs_root
def test_roots_folders_above_are_fine_and_its_own_in_the_place_is_not(common: Path) -> None:
    (common / "roots").mkdir(mode=0o700)

    def look() -> None:
        found = danger(common / "roots")
        assert found == (str(common / "roots"), "it belongs to root"), found
        assert danger(common / "not-yet") is None

    other_user.does(look)


@other_user.needs_root
@pytest.mark.provokes("refused.state_dir")
def test_an_agent_does_nothing_in_another_users_folder(common: Path) -> None:
    other_user.does(lambda: (common / "state").mkdir(mode=0o777))
    bench = Bench(folder=common)
    agent = Agent(bench)
    for request in (bench.look(), Stage(transaction="t-1", bytes_needed=1, over="file")):
        agent.send(request)
        reply = agent.reply()
        assert isinstance(reply, Failure)
        assert reply.code == "unsafe_state"
    agent.end()
    assert list((common / "state").iterdir()) == []


@other_user.needs_root
@pytest.mark.parametrize("name", ["lock", "staging", "journal", "blobs"])
def test_a_link_in_the_place_of_a_part_is_never_written_through(common: Path, name: str) -> None:
    """It takes a state folder that was theirs, and was given to us as it was."""
    state, theirs = StateFolder(path=common / "state"), common / "theirs"

    def attack() -> None:
        theirs.mkdir() if name != "lock" else theirs.touch()
        state.path.mkdir(mode=0o700)
        (state.path / name).symlink_to(theirs)

    other_user.does(attack)
    os.chown(state.path, 0, 0)
    if name == "lock":
        with pytest.raises(OSError, match="symbolic link"), locked(state, "t-1", WHO):
            pass
    else:
        with pytest.raises(AgentError, match="unsafe_state"):
            check(state)
    assert theirs.read_bytes() == b"" if name == "lock" else list(theirs.iterdir()) == []


def test_all_that_is_made_in_it_is_ours_alone_whatever_the_umask(work: Path) -> None:
    before = os.umask(0)
    try:
        with locked(StateFolder(path=work / "state"), "t-1", WHO):
            made = [work / "state", *(work / "state").rglob("*")]
            assert [path for path in made if path.stat().st_mode & 0o077] == []
    finally:
        os.umask(before)
    assert len(made) == 7
