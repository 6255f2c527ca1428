"""The verbs on checkpoints, for real, on this very machine."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dflashctl.agent.keeping import ArchiveCheckpoints
from dflashctl.cli.call import Call
from dflashctl.cli.main import main
from tests.cli.test_deploy import RUNNING_ALREADY
from tests.cli.world import World

Typed = Callable[..., tuple[int, str, str]]


@pytest.fixture
def typed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Typed:
    """Type a command in a folder with four checkpoints, the last of them half written."""
    for name, text in {
        "inventory/hosts.yml": "version: 1\ndefault_target: here\nhosts:\n"
        f"  here: {{connection: local, state_dir: {tmp_path}/state}}\n",
        "playbooks/deploy.yml": "version: 1\nname: dflash\ncheckpoints:\n"
        f"  path: {tmp_path}/work/checkpoints\n  archive_to: {tmp_path}/archive\n"
        "  complete_when: {file: COMPLETE}\n  keep: {last: 1}\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    for step in (1, 2, 3, 4):
        place = tmp_path / "work" / "checkpoints" / f"step-{step}"
        place.mkdir(parents=True)
        (place / "weights").write_text(f"weights {step}", encoding="utf-8")
        if step < 4:
            (place / "COMPLETE").touch()

    def typed(*words: str, columns: int = 80) -> tuple[int, str, str]:
        environ = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "COLUMNS": str(columns)}
        code = main(("checkpoints", *words), Call(environ=environ, cwd=tmp_path))
        out, err = capsys.readouterr()
        return code, out, err

    return typed


def listed(typed: Typed) -> dict[str, Any]:
    code, out, err = typed("list", "--json")
    assert code == 0, err
    shape: dict[str, Any] = json.loads(out)["targets"]["here"]
    return shape


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_from_archive_to_undo_nothing_is_lost(typed: Typed, tmp_path: Path) -> None:
    store = tmp_path / "work" / "checkpoints"
    assert [one["complete"] for one in listed(typed)["checkpoints"]] == [True, True, True, False]
    assert typed("archive", "--name", "one", "--remove")[0] == 0
    assert names(store) == ["step-4"]
    assert typed("archive", "--name", "one")[0] == 0, "nothing to archive is no mistake"
    assert typed("verify", "one")[0] == 0
    code, out, _ = typed("restore", "one")
    assert (code, "--last-cleared" in out) == (0, True)
    assert names(store) == ["step-1", "step-2", "step-3"]
    assert typed("clear")[0] == 0
    assert names(store) == []
    code, out, _ = typed("list")
    assert (code, "CLEARED" in out, "one" in out) == (0, True, True)
    assert typed("restore", "--last-cleared")[0] == 0
    assert names(store) == ["step-1", "step-2", "step-3"]
    code, out, _ = typed("pull", "one", "here")
    assert (code, names(tmp_path / "here" / "one")) == (0, ["step-1", "step-2", "step-3"])
    assert (tmp_path / "here/one/step-2/weights").read_text(encoding="utf-8") == "weights 2"
    assert [len(listed(typed)[kind]) for kind in ("archives", "cleared")] == [1, 1]


def test_a_damaged_archive_is_not_pulled_and_is_no_fault_of_ours(
    typed: Typed, tmp_path: Path
) -> None:
    typed("archive", "--name", "one", "--remove")
    (tmp_path / "archive" / "one" / "files" / "step-2" / "weights").write_text("weights 8")
    code, _, err = typed("pull", "one", "here")
    assert code == 66, err
    assert "the archive is damaged: step-2/weights" in err
    assert not (tmp_path / "here" / "one").exists()


def test_a_narrow_window_has_names_steps_and_states_whole(typed: Typed) -> None:
    typed("archive", "--name", "2026-11-29T204520Z")
    typed("clear")
    for columns in (80, 40, 28):
        _, out, _ = typed("list", columns=columns)
        table, _, _ = out.partition("the last of them")
        assert "\u2026" not in table
        assert max(map(len, table.splitlines()[1:])) <= columns
        assert ("MADE" in table) == (columns == 80)
        assert "STATE" in table


def test_what_cannot_be_undone_needs_a_word(typed: Typed, tmp_path: Path) -> None:
    store = tmp_path / "work" / "checkpoints"
    for words in (("prune",), ("clear", "--purge")):
        code, _, err = typed(*words)
        assert (code, "--yes" in err, len(names(store))) == (2, True, 4)
        assert typed(*words, "--dry-run")[0] == 10
    code, out, _ = typed("prune", "--yes", "--json")
    facts = json.loads(out)["targets"]["here"]["done"][0]["facts"]
    assert (code, facts["names"]) == (0, ["step-1", "step-2"])
    assert names(store) == ["step-3", "step-4"]
    assert typed("clear", "--purge", "--yes")[0] == 0
    assert listed(typed)["cleared"] == []


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("restore",), 2, "--last-cleared"),
        (("restore", "one", "--last-cleared"), 2, "--last-cleared"),
        (("restore", "one", "--to", "relative"), 2, "absolute"),
        (("restore", "none"), 65, "there is no archive none"),
        (("verify", "none"), 65, "there is no archive none"),
        (("pull", "none", "here"), 65, "neither an archive nor a checkpoint none"),
        (("archive", "--name", "../out"), 2, "letters, digits"),
        (("restore", "--last-cleared"), 0, ""),
    ],
)
def test_a_mistake_is_told_with_the_way_on(
    words: tuple[str, ...], code: int, said: str, typed: Typed
) -> None:
    found, out, err = typed(*words)
    assert found == code
    assert said in " ".join((out + err).split())


@pytest.mark.parametrize("option", ["--archive-checkpoints", "--archive-checkpoints=before-it"])
def test_deploy_archives_between_the_stop_and_the_start(option: str, world: World) -> None:
    path = world.cwd / "playbooks" / "deploy.yml"
    text = path.read_text(encoding="utf-8")
    text = text.replace("checkpoints}", "checkpoints, archive_to: /workspace/archive}")
    path.write_text(text, encoding="utf-8")
    world.answers = [RUNNING_ALREADY]
    result = world.run("deploy", "--restart", option)
    assert result.code == 0, result.err
    kinds = [type(one).__name__ for one in world.commits[0].actions]
    assert kinds.index("StopRun") < kinds.index("ArchiveCheckpoints") < kinds.index("StartRun")
    (wanted,) = (one for one in world.commits[0].actions if isinstance(one, ArchiveCheckpoints))
    assert wanted.then_remove
    assert (wanted.name == "before-it") == ("=" in option)
