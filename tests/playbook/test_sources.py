from __future__ import annotations

import os
from pathlib import Path

import pytest

from dflashctl.errors import BadFile
from dflashctl.playbook.load import load_playbook


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a small project beside the playbook."""
    for name in (
        "train.py",
        "src/a.py",
        "src/b.py",
        "src/deep/c.py",
        "src/deep/notes.txt",
        "src/.hidden",
        "src/__pycache__/a.pyc",
        "src/.git/config",
        "src/old.pyc",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path


def load(folder: Path, *entries: str) -> dict[str, str]:
    """Where each file of these entries goes: dest to source, as the playbook has it."""
    lines = "".join(f"  - {entry}\n" for entry in entries)
    path = folder / "deploy.yml"
    path.write_text(f"version: 1\nname: x\nfiles:\n{lines}")
    files = load_playbook(path).files
    return {file.dest: str(file.source.relative_to(folder)) for file in files}


def faults(folder: Path, *entries: str) -> list[tuple[int, str, str]]:
    with pytest.raises(BadFile) as caught:
        load(folder, *entries)
    return [(fault.line, fault.where, fault.message) for fault in caught.value.faults]


def test_a_file_goes_to_its_dest(folder: Path) -> None:
    assert load(folder, "{source: train.py, dest: /x/y.py}") == {"/x/y.py": "train.py"}


def test_a_file_keeps_its_name_in_a_dest_that_ends_in_a_slash(folder: Path) -> None:
    assert load(folder, "{source: src/a.py, dest: /x/}") == {"/x/a.py": "src/a.py"}
    assert load(folder, "{source: src/a.py, dest: /}") == {"/a.py": "src/a.py"}


def test_a_directory_brings_all_that_is_in_it(folder: Path) -> None:
    expected = {
        "/x/.hidden": "src/.hidden",
        "/x/a.py": "src/a.py",
        "/x/b.py": "src/b.py",
        "/x/deep/c.py": "src/deep/c.py",
        "/x/deep/notes.txt": "src/deep/notes.txt",
    }
    assert load(folder, "{source: src, dest: /x}") == expected
    assert load(folder, "{source: src/, dest: /x/}") == expected


def test_a_pattern_brings_the_files_that_match(folder: Path) -> None:
    assert load(folder, "{source: src/*.py, dest: /x}") == {
        "/x/a.py": "src/a.py",
        "/x/b.py": "src/b.py",
    }
    assert load(folder, "{source: 'src/[a]*', dest: /x}") == {"/x/a.py": "src/a.py"}


def test_two_stars_match_at_any_depth(folder: Path) -> None:
    assert load(folder, "{source: src/**/*.py, dest: /x}") == {
        "/x/a.py": "src/a.py",
        "/x/b.py": "src/b.py",
        "/x/deep/c.py": "src/deep/c.py",
    }
    assert load(folder, "{source: src/**, dest: /x}") == {
        "/x/a.py": "src/a.py",
        "/x/b.py": "src/b.py",
        "/x/deep/c.py": "src/deep/c.py",
        "/x/deep/notes.txt": "src/deep/notes.txt",
    }


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(folder: Path) -> None:
    (folder / "a[1].py").write_text("")
    assert load(folder, "{source: 'a[1].py', dest: /x}") == {"/x": "a[1].py"}


def test_a_source_may_lie_outside_the_playbooks_folder(folder: Path) -> None:
    assert load(folder, f"{{source: {folder}/train.py, dest: /x}}") == {"/x": "train.py"}


def test_a_file_keeps_its_own_mode_unless_one_is_said(folder: Path) -> None:
    (folder / "src/a.py").chmod(0o4751)
    (folder / "src/b.py").chmod(0o640)
    path = folder / "deploy.yml"
    path.write_text(
        "version: 1\nname: x\nfiles:\n"
        "  - {source: src/*.py, dest: /x}\n"
        '  - {source: src/*.py, dest: /y, mode: "0700"}\n'
        '  - {source: train.py, dest: /z, mode: "600"}\n'
    )
    modes = {file.dest: oct(file.mode) for file in load_playbook(path).files}
    assert modes == {
        "/x/a.py": "0o751",
        "/x/b.py": "0o640",
        "/y/a.py": "0o700",
        "/y/b.py": "0o700",
        "/z": "0o600",
    }


def test_a_link_to_a_file_is_followed(folder: Path) -> None:
    (folder / "src/link.py").symlink_to("../train.py")
    assert load(folder, "{source: src/link.py, dest: /x}") == {"/x": "src/link.py"}
    assert load(folder, "{source: src, dest: /x}")["/x/link.py"] == "src/link.py"


def test_a_source_that_is_a_link_to_a_directory_is_followed(folder: Path) -> None:
    (folder / "link").symlink_to("src")
    assert load(folder, "{source: link/*.py, dest: /x}")["/x/a.py"] == "link/a.py"
    assert load(folder, "{source: link, dest: /x}")["/x/a.py"] == "link/a.py"


# --- mistakes ------------------------------------------------------------------------


def test_a_missing_source_is_told_with_its_line_and_a_near_name(folder: Path) -> None:
    assert faults(folder, "{source: train.py, dest: /a}", "{source: trian.py, dest: /x}") == [
        (5, "files[1].source", "trian.py is not there; did you mean train.py?")
    ]


def test_a_source_in_a_missing_folder_is_told(folder: Path) -> None:
    (fault,) = faults(folder, "{source: none/train.py, dest: /x}")
    assert fault == (4, "files[0].source", "none/train.py is not there")


def test_a_pattern_without_matches_is_told(folder: Path) -> None:
    (fault,) = faults(folder, "{source: '*.sh', dest: /x}")
    assert fault == (4, "files[0].source", "*.sh stands for no file")


def test_an_empty_directory_is_told(folder: Path) -> None:
    (folder / "empty/__pycache__").mkdir(parents=True)
    (fault,) = faults(folder, "{source: empty, dest: /x}")
    assert fault == (4, "files[0].source", "empty stands for no file")


def test_a_home_that_is_not_there_is_told(folder: Path) -> None:
    ((line, where, message),) = faults(folder, "{source: ~no-such-user-here/x, dest: /x}")
    assert (line, where) == (4, "files[0].source")
    assert message.startswith("begins with a home folder that is not there")


def test_what_is_no_ordinary_file_is_told_each_by_name(folder: Path) -> None:
    (folder / "src/dead").symlink_to("nowhere")
    (folder / "src/loop").symlink_to("loop")
    (folder / "src/away").symlink_to("deep")
    os.mkfifo(folder / "src/pipe")
    assert faults(folder, "{source: src, dest: /x}") == [
        (4, "files[0].source", f"src/{message}")
        for message in (
            "away is a link to a directory, and those are not followed",
            "dead is a link that leads nowhere",
            "loop cannot be read: Too many levels of symbolic links",
            "pipe is not an ordinary file",
        )
    ]


def test_a_pipe_as_a_source_is_told(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    (fault,) = faults(folder, "{source: pipe, dest: /x}")
    assert fault == (4, "files[0].source", "pipe is not an ordinary file")


def test_a_file_that_may_not_be_read_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda path, _: Path(path).name != "a.py")
        found = faults(folder, "{source: src/*.py, dest: /x}")
    assert found == [(4, "files[0].source", "src/a.py cannot be read: permission denied")]


def test_a_folder_that_may_not_be_read_is_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scandir = os.scandir

    def refuse(path: str) -> object:
        if Path(path).name == "deep":
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", refuse)
        found = faults(folder, "{source: src, dest: /x}")
    assert found == [(4, "files[0].source", f"{folder}/src/deep cannot be read: Permission denied")]


def test_two_files_for_one_place_are_told_with_the_first_ones_line(folder: Path) -> None:
    assert faults(folder, "{source: train.py, dest: /x/a.py}", "{source: src/*.py, dest: /x}") == [
        (5, "files[1].dest", "/x/a.py is already the place of the file in line 4")
    ]


def test_a_file_below_a_file_is_told(folder: Path) -> None:
    assert faults(folder, "{source: train.py, dest: /x/a}", "{source: src/a.py, dest: /x/a/b}") == [
        (5, "files[1].dest", "/x/a is already the place of the file in line 4")
    ]


def test_a_file_in_the_place_of_a_folder_is_told(folder: Path) -> None:
    assert faults(folder, "{source: train.py, dest: /x/a/b}", "{source: src/a.py, dest: /x/a}") == [
        (5, "files[1].dest", "/x/a must be a folder for an earlier file")
    ]
