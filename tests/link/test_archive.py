"""The archive that is pushed."""

from __future__ import annotations

import hashlib
import tarfile
from pathlib import Path

import pytest

from dflashctl.agent.protocol import FileWanted
from dflashctl.errors import SourceUnreadable
from dflashctl.link.archive import write_archive
from dflashctl.playbook.model import PushedFile


def wanted(dest: str, content: bytes) -> FileWanted:
    digest = hashlib.sha256(content).hexdigest()
    return FileWanted(dest=dest, sha256=digest, size=len(content), mode=0o755)


def pushed(folder: Path, name: str, content: bytes) -> PushedFile:
    source = folder / name
    source.write_bytes(content)
    return PushedFile(source=source, dest=f"/{name}", mode=0o755)


def test_members_are_named_by_hash_each_once_and_the_bytes_are_the_same_each_time(tmp_path: Path):
    contents = {"a": b"one", "b": b"two", "c": b"one"}
    files = [pushed(tmp_path, name, content) for name, content in contents.items()]
    wants = [wanted(f"/{name}", content) for name, content in contents.items()]
    write_archive(tmp_path / "1.tar", files, wants)
    write_archive(tmp_path / "2.tar", files[::-1], wants[::-1])
    assert (tmp_path / "1.tar").read_bytes() == (tmp_path / "2.tar").read_bytes()
    with tarfile.open(tmp_path / "1.tar") as tar:
        found = {member.name: (member.mode, tar.extractfile(member)) for member in tar}
    assert sorted(found) == sorted({want.sha256 for want in wants})
    assert {mode for mode, _ in found.values()} == {0o600}


@pytest.mark.parametrize("now", [b"ONE", b"on", b"one and more"])
def test_a_file_that_changed_since_it_was_hashed_is_not_sent(tmp_path: Path, now: bytes):
    with pytest.raises(SourceUnreadable) as caught:
        write_archive(tmp_path / "t", [pushed(tmp_path, "a", now)], [wanted("/a", b"one")])
    assert caught.value.path == tmp_path / "a"


def test_a_file_that_is_gone_is_named(tmp_path: Path):
    file = pushed(tmp_path, "a", b"one")
    file.source.unlink()
    with pytest.raises(SourceUnreadable, match="No such file"):
        write_archive(tmp_path / "t", [file], [wanted("/a", b"one")])
