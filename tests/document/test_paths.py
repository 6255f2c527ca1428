from __future__ import annotations

from pathlib import Path

import pytest

from dflashctl.document.paths import absolute, local_path


@pytest.mark.parametrize("path", ["/", "/root", "/root/", "/a b/ü/c..d/.hidden"])
def test_a_plain_absolute_path_is_taken_as_it_is(path: str) -> None:
    assert absolute(path) == path


@pytest.mark.parametrize("path", ["", "root", "./root", "~/x", "//", "/a//b", "/a/../b", "/a/./b"])
def test_another_path_is_refused_and_shown(path: str) -> None:
    with pytest.raises(ValueError, match="must be") as caught:
        absolute(path)
    assert repr(path) in str(caught.value)


def test_a_local_path_starts_at_its_folder_or_at_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    assert local_path("keys/id", tmp_path) == tmp_path / "keys/id"
    assert local_path("/etc/id", tmp_path) == Path("/etc/id")
    assert local_path("~/id", tmp_path) == Path("/home/someone/id")


@pytest.mark.parametrize("text", ["", "~no-such-user-here/id"])
def test_a_local_path_that_leads_nowhere_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError, match=r"must be a path|home folder that is not there"):
        local_path(text, tmp_path)
