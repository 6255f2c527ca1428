"""The look: what is told of a target besides its runs."""

import os
import sys
from pathlib import Path

import pytest

from dflashctl.agent import cgroup
from dflashctl.agent.protocol import FileWanted, Probe

from .conftest import Bench


def test_a_look_at_an_empty_target_creates_nothing(bench: Bench) -> None:
    seen = bench.observe()
    assert (seen.state, seen.run, seen.session, seen.cut) == ("NONE", None, None, None)
    assert not bench.state.path.exists()


def test_the_disks_of_all_places_are_told_even_of_those_to_come(bench: Bench) -> None:
    seen = bench.observe(cwd=str(bench.folder / "not" / "yet"))
    assert {disk.path for disk in seen.disks} == {
        str(bench.state.path), str(bench.checkpoints), str(bench.folder / "not" / "yet"),
    }  # fmt: skip
    assert all(0 < disk.free <= disk.total for disk in seen.disks)


def test_the_disk_of_many_files_in_one_folder_is_told_once(bench: Bench) -> None:
    """That of a link to elsewhere is told for itself: it may be another one."""
    work = bench.folder / "pushed"
    work.mkdir()
    (work / "link").symlink_to("/dev/shm/elsewhere")
    names = ("link", *map(str, range(100)))
    files = tuple(
        FileWanted(dest=str(work / name), sha256="0" * 64, size=1, mode=0o644) for name in names
    )
    seen = bench.observe(files=files)
    assert [disk.path for disk in seen.disks if disk.path.startswith(str(work))] == [
        str(work / "link"),
        str(work),
    ]


@pytest.mark.parametrize(
    ("python", "imports", "problem", "missing"),
    [
        (sys.executable, ("json",), None, ()),
        (
            sys.executable,
            ("json", "no_such_module"),
            None,
            ("no_such_module (ModuleNotFoundError)",),
        ),
        ("/no/such/python", (), "not_found", ()),
        ("/etc/passwd", (), "not_executable", ()),
        ("/bin/false", (), "fails", ()),
    ],
)
def test_an_interpreter_is_tried_as_the_trainer_would(
    bench: Bench, python: str, imports: tuple[str, ...], problem: str | None, missing: tuple
) -> None:
    probe = bench.observe(probe=Probe(python=python, imports=imports)).probe
    assert probe is not None
    assert (probe.problem, probe.missing) == (problem, missing)
    assert (probe.version is None) == (problem is not None)


def test_an_import_is_found_where_the_runs_environment_leads(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "only_there.py").touch()
    for env, missing in (({}, 1), ({"PYTHONPATH": str(tmp_path)}, 0)):
        probe = Probe(python=sys.executable, imports=("only_there",), env=env)
        seen = bench.observe(probe=probe).probe
        assert seen
        assert len(seen.missing) == missing


def test_a_terminal_that_is_unknown_over_there_falls_back(bench: Bench) -> None:
    assert bench.observe(term="no-such-terminal").terminal in ("xterm-256color", "xterm", "vt100")
    known = next(
        n for n in ("xterm", "linux", "vt100") if Path(f"/lib/terminfo/{n[0]}/{n}").exists()
    )
    assert bench.observe(term=known).terminal == known
    assert bench.observe(term="../../etc/passwd").terminal != "../../etc/passwd"


def test_a_folder_or_a_user_that_is_not_there_is_a_problem(bench: Bench) -> None:
    assert bench.observe(cwd="/no/such", user="nobody-by-this-name").problems == (
        "no_cwd", "no_user",
    )  # fmt: skip
    assert bench.observe(cwd="/", user=None).problems == ()


@pytest.mark.skipif(os.getuid() == 0, reason="root can become anybody")
def test_a_user_whom_we_cannot_become_is_a_problem(bench: Bench) -> None:
    assert bench.observe(user="root").problems == ("cannot_become_user",)


def test_memory_kills_are_counted_in_both_versions_of_the_cgroup(tmp_path: Path) -> None:
    own = tmp_path / "cgroup"

    def count() -> int | None:
        found = cgroup.kills(own, tmp_path)
        return found.number if found else None

    own.write_text("0::/box\n")
    (tmp_path / "box").mkdir()
    (tmp_path / "box" / "memory.events").write_text("low 0\noom 2\noom_kill 1\n")
    assert count() == 1
    own.write_text("7:cpu:/x\n4:memory:/gone/from/here\n0::/none\n")
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "memory.oom_control").write_text("under_oom 0\noom_kill 3\n")
    assert count() == 3
    own.write_text("garbage")
    assert count() is None
