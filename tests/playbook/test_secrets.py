from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflashctl.errors import BadFile, Fault
from dflashctl.playbook.model import RunSpec
from dflashctl.playbook.secrets import read_secrets

SECRET = "hunter2"


def run(
    env_file: Path | None = None,
    env_from: tuple[str, ...] = (),
    env: dict[str, str] | None = None,
) -> RunSpec:
    return RunSpec(
        command=("a",),
        resume=None,
        cwd=None,
        user=None,
        env_base="login",
        env=env or {},
        env_file=env_file,
        env_from=env_from,
        exit_codes={},
    )


def read(tmp_path: Path, text: str) -> dict[str, str]:
    path = tmp_path / "secrets.env"
    path.write_text(text)
    return read_secrets(run(path), {})


def faults_of(spec: RunSpec, environ: dict[str, str]) -> tuple[Fault, ...]:
    with pytest.raises(BadFile) as caught:
        read_secrets(spec, environ)
    assert caught.value.kind == "environment"
    return caught.value.faults


def faults(tmp_path: Path, text: str) -> list[tuple[int, str, str]]:
    path = tmp_path / "secrets.env"
    path.write_text(text)
    found = faults_of(run(path), {})
    assert {fault.path for fault in found} == {path}
    return [(fault.line, fault.where, fault.message) for fault in found]


def test_nothing_asked_for_is_nothing() -> None:
    assert read_secrets(run(), {"A": "x"}) == {}


def test_variables_of_the_operators_environment_are_taken() -> None:
    environ = {"A": "x", "B": "", "C": "z"}
    assert read_secrets(run(env_from=("A", "B")), environ) == {"A": "x", "B": ""}


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=b", "b"),
        ("export A=b", "b"),
        ("  A = b  ", "b"),
        ("A=", ""),
        ("A=b c=d", "b c=d"),
        ("A=b # why", "b"),
        ("A=b#c", "b#c"),
        ("A=#b", "#b"),
        ("A= # why", ""),
        ("A='b # c' # why", "b # c"),
        ("A='b\\n$c'", "b\\n$c"),
        ('A="b\\nc\\t\\"d\\" \\\\ \\$e \\x"', 'b\nc\t"d" \\ $e \\x'),
        ('A="" # why', ""),
        ("A=ü", "ü"),
        ("A=b\r", "b"),
    ],
)
def test_a_line_is_read_as_people_write_it(tmp_path: Path, line: str, value: str) -> None:
    assert read(tmp_path, f"# a comment\n\n{line}\n") == {"A": value}


def test_a_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    assert read(tmp_path, "\ufeffA=b\n") == {"A": "b"}


def test_a_variable_in_both_has_the_value_of_the_environment(tmp_path: Path) -> None:
    path = tmp_path / "secrets.env"
    path.write_text("A=file\nB=file\n")
    secrets = read_secrets(run(path, env_from=("A",)), {"A": "operator"})
    assert secrets == {"A": "operator", "B": "file"}


def test_each_variable_that_is_not_set_is_named() -> None:
    found = faults_of(run(env_from=("A", "B", "C")), {"B": SECRET})
    assert [fault.where for fault in found] == ["A", "C"]
    assert found[0].message == "is not set here, and `run.env_from` of the playbook asks for it"


@pytest.mark.parametrize(
    ("line", "where", "message"),
    [
        (SECRET, "", "must be NAME=value"),
        (f"1A={SECRET}", "", "must be NAME=value"),
        (f"A-B={SECRET}", "", "must be NAME=value"),
        (f"A='{SECRET}", "A", "must have its closing quote in the same line, and nothing after it"),
        (f'A="{SECRET}', "A", "must have its closing quote in the same line, and nothing after it"),
        (f"A='x' {SECRET}", "A", "must have its closing quote in the same line, and nothing after"),
        (f'A="x" {SECRET}', "A", "must have its closing quote in the same line, and nothing after"),
        (f"A={SECRET}\0", "A", "must not hold a NUL character"),
        (f"DFLASHCTL_RUN_ID={SECRET}", "DFLASHCTL_RUN_ID", "must not begin with DFLASHCTL_"),
        (f"OK={SECRET}", "OK", "is written twice"),
    ],
)
def test_a_mistake_is_told_with_its_line_and_without_the_value(
    tmp_path: Path, line: str, where: str, message: str
) -> None:
    ((number, name, said),) = faults(tmp_path, f"OK=1\n\n{line}\n")
    assert (number, name) == (3, where)
    assert said.startswith(message)
    assert SECRET not in said


def test_every_mistake_is_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "secrets.env"
    path.write_text("A\nB='\nC=1\n")
    found = faults_of(run(path, env_from=("D",), env={"C": "open"}), {})
    assert [(fault.line, fault.where) for fault in found] == [(1, ""), (2, "B"), (0, "C"), (0, "D")]


def test_a_variable_that_the_playbook_declares_in_the_open_is_a_fault(tmp_path: Path) -> None:
    path = tmp_path / "secrets.env"
    path.write_text(f"A={SECRET}\n")
    (fault,) = faults_of(run(path, env={"A": "x"}), {})
    assert fault.message == "is in the playbook's `run.env` as well"


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        (None, 0, "cannot be read: No such file or directory"),
        (b"A=b\nB=\xff\n", 2, "is not UTF-8 text"),
        (b"#" * (1 << 20) + b"\n", 0, "is larger than 1024 KiB"),
    ],
)
def test_a_file_that_cannot_be_read_is_told(
    tmp_path: Path, content: bytes | None, line: int, message: str
) -> None:
    path = tmp_path / "secrets.env"
    if content is not None:
        path.write_bytes(content)
    (fault,) = faults_of(run(path), {})
    assert (fault.path, fault.line, fault.message) == (path, line, message)


@given(st.text(max_size=60))
def test_no_text_raises_anything_but_a_bad_file(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.env"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    try:
        lines = [0 for name in read_secrets(run(path), {}) if not name.isidentifier()]
    except BadFile as error:
        lines = [fault.line for fault in error.faults if fault.line > text.count("\n") + 1]
    assert lines == []


@given(st.text(st.characters(codec="utf-8", exclude_characters="'\n\0")))
def test_any_text_in_single_quotes_is_that_text(
    tmp_path_factory: pytest.TempPathFactory, value: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "quoted.env"
    path.write_bytes(f"A='{value}'\n".encode())
    assert read_secrets(run(path), {}) == {"A": value}
