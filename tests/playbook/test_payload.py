from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflashctl.agent.protocol import FileWanted
from dflashctl.errors import SourceUnreadable
from dflashctl.playbook.model import PushedFile
from dflashctl.playbook.payload import read_payload

if TYPE_CHECKING:
    from pathlib import Path


def pushed(source: Path, dest: str = "/x") -> PushedFile:
    return PushedFile(source=source, dest=dest, mode=0o640)


@given(st.binary(max_size=2000) | st.just(b"x" * 3_000_000))
def test_a_file_is_known_by_its_hash_and_size(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "payload"
    path.write_bytes(content)
    wanted = FileWanted(
        dest="/x", sha256=hashlib.sha256(content).hexdigest(), size=len(content), mode=0o640
    )
    assert read_payload((pushed(path),)) == (wanted,)


def test_the_order_of_the_files_is_kept(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).write_text(name)
    files = tuple(pushed(tmp_path / name, f"/{name}") for name in "cab")
    assert [wanted.dest for wanted in read_payload(files)] == ["/c", "/a", "/b"]


def test_a_file_that_has_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceUnreadable) as caught:
        read_payload((pushed(tmp_path / "gone"),))
    assert caught.value.path == tmp_path / "gone"
    assert caught.value.reason == "No such file or directory"


def test_a_pipe_in_the_place_of_a_file_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SourceUnreadable) as caught:
        read_payload((pushed(tmp_path / "pipe"),))
    assert caught.value.reason == "is not an ordinary file any more"
