from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflashctl.document.read import MAX_BYTES, Document, read_document
from dflashctl.errors import BadFile, Fault


def read(tmp_path: Path, text: str | bytes) -> Document:
    path = tmp_path / "file.yml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_document(path, "inventory")


def only_fault(tmp_path: Path, text: str | bytes) -> Fault:
    """The one fault of a file that cannot be read at all."""
    with pytest.raises(BadFile) as caught:
        read(tmp_path, text)
    assert caught.value.kind == "inventory"
    (fault,) = caught.value.faults
    assert fault.path == tmp_path / "file.yml"
    return fault


def fault_of(tmp_path: Path, text: str) -> tuple[int, str, str]:
    """The one fault of a file that is readable otherwise."""
    (fault,) = read(tmp_path, text).faults
    return fault.line, fault.where, fault.message


def test_values_keep_their_types_and_their_lines(tmp_path: Path) -> None:
    document = read(
        tmp_path,
        'a: one\nb:\n  - 2\n  - -3.5\n  - true\nc: {75: "yes"}\n',
    )
    assert document.values == {"a": "one", "b": [2, -3.5, True], "c": {75: "yes"}}
    assert document.faults == ()
    assert document.lines[("a",)] == 1
    assert document.lines[("b",)] == 2
    assert document.lines[("b", 1)] == 4
    assert document.lines[("c", 75)] == 6


def test_text_that_only_looks_special_stays_text(tmp_path: Path) -> None:
    text = 'a: 192.0.2.6\nb: 1e3\nc: "0755"\nd: "no"\ne: =\nf: <<\ng: !!str 12\nh: 08\n'
    document = read(tmp_path, text)
    assert document.faults == ()
    assert list(document.values.values()) == [
        "192.0.2.6", "1e3", "0755", "no", "=", "<<", "12", "08",
    ]  # fmt: skip


def test_a_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    assert read(tmp_path, b"\xef\xbb\xbfa: 1\n").values == {"a": 1}


def test_an_alias_stands_for_its_anchor(tmp_path: Path) -> None:
    document = read(tmp_path, "a: &x {k: v}\nb: *x\n")
    assert document.values["b"] == {"k": "v"}
    assert document.lines[("b", "k")] == 1


@pytest.mark.parametrize(
    ("written", "called"),
    [
        ("yes", "a truth value"),
        ("no", "a truth value"),
        ("on", "a truth value"),
        ("Off", "a truth value"),
        ("TRUE", "a truth value"),
        ("2026-11-29", "a date"),
        ("2026-11-29 12:06:00", "a date"),
        ("0755", "another number than it seems"),
        ("0x1f", "another number than it seems"),
        ("1_000", "another number than it seems"),
        ("1:30", "another number than it seems"),
        ("+1", "another number than it seems"),
        ("1234567890123456789", "another number than it seems"),
        (".inf", "another number than it seems"),
        ("1.0e+3", "another number than it seems"),
        ("190:20:30.15", "another number than it seems"),
    ],
)
def test_a_word_that_yaml_reads_otherwise_must_be_quoted(
    tmp_path: Path, written: str, called: str
) -> None:
    line, where, message = fault_of(tmp_path, f"x: 1\na:\n  b: {written}\n")
    assert (line, where) == (3, "a.b")
    assert message.startswith(f"YAML reads {written} as {called}")
    assert message.endswith(f'put it in quotes, "{written}"')


@pytest.mark.parametrize("written", ["yes", "on", "1.5", "2026-11-29", "010", "~"])
def test_a_name_that_yaml_reads_otherwise_must_be_quoted(tmp_path: Path, written: str) -> None:
    line, _, message = fault_of(tmp_path, f"x: 1\n{written}: 2\n")
    assert line == 2
    assert message.startswith(f"YAML reads {written} as ")


@pytest.mark.parametrize("written", ["", "null", "~", "Null"])
def test_an_empty_value_is_a_fault(tmp_path: Path, written: str) -> None:
    line, where, message = fault_of(tmp_path, f"x: 1\na: {written}\n")
    assert (line, where) == (2, "a")
    assert message == "is empty: give it a value, or leave it out"


def test_a_key_written_twice_is_told_with_both_lines(tmp_path: Path) -> None:
    text = "a:\n  k: 1\n  l: 2\n  k: 3\n"
    assert fault_of(tmp_path, text) == (4, "a.k", "is written twice; first in line 2")


def test_a_merge_key_is_refused(tmp_path: Path) -> None:
    line, where, message = fault_of(tmp_path, "a: &x {k: v}\nb:\n  <<: *x\n")
    assert (line, where) == (3, "b['<<']")
    assert "merge keys are not supported" in message


@pytest.mark.parametrize(
    ("value", "tag"),
    [
        ("!!python/object/apply:os.system [id]", "tag:yaml.org,2002:python/object/apply:os.system"),
        ("!vault abc", "!vault"),
        ("!!binary aGk=", "tag:yaml.org,2002:binary"),
        ("!!set {a}", "tag:yaml.org,2002:set"),
        ("!!map text", "tag:yaml.org,2002:map"),
        ("!!str {k: v}", "tag:yaml.org,2002:str"),
    ],
)
def test_a_tag_is_refused(tmp_path: Path, value: str, tag: str) -> None:
    assert fault_of(tmp_path, f"x: 1\na: {value}\n") == (2, "a", f"the tag {tag} is not allowed")


def test_a_name_must_not_be_a_list(tmp_path: Path) -> None:
    line, where, message = fault_of(tmp_path, "a:\n  ? [1, 2]\n  : x\n")
    assert (line, where) == (2, "a")
    assert message == "a name must be a plain word, not a list or a mapping"


@pytest.mark.parametrize("text", ['x: 1\na: "b\\0c"\n', 'x: 1\n"a\\0": c\n'])
def test_a_nul_character_is_a_fault(tmp_path: Path, text: str) -> None:
    line, _, message = fault_of(tmp_path, text)
    assert (line, message) == (2, "must not hold a NUL character")


def test_half_a_surrogate_pair_is_a_fault(tmp_path: Path) -> None:
    line, where, message = fault_of(tmp_path, 'x: 1\na: "\\ud800"\n')
    assert (line, where) == (2, "a")
    assert message == "must not hold half of a surrogate pair"


def test_names_with_odd_characters_are_shown_in_brackets(tmp_path: Path) -> None:
    assert fault_of(tmp_path, "a.b:\n  - {'c d': }\n")[1] == "['a.b'][0]['c d']"


def test_all_faults_of_a_file_are_told_at_once(tmp_path: Path) -> None:
    document = read(tmp_path, "a: yes\nb: !x y\nc: 1\nc: 2\non: 1\n")
    assert [fault.line for fault in document.faults] == [1, 2, 4, 5]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a: 1\nb: [1,\nc: 2\n", 2, "not valid YAML: while parsing a flow sequence"),
        ("a: 1\n  b: 2\n", 2, "not valid YAML: mapping values are not allowed here"),
        ("a: 1\nb:\n\tc: 2\n", 3, "not valid YAML: a tab stands here; indent with spaces"),
        ("a: *nowhere\n", 1, "not valid YAML: found undefined alias 'nowhere'"),
        ("a: 1\n---\nb: 2\n", 2, "not valid YAML: expected a single document"),
        ('a: 1\nb: "\\UFFFFFFFF"\n', 2, "not valid YAML: "),
        ("a: 1\nb: 'open\n", 2, "not valid YAML: "),
        ("- a\n- b\n", 1, "must be a mapping"),
        ("word\n", 1, "must be a mapping"),
        ("", 0, "is empty"),
        ("# only a comment\n", 0, "is empty"),
        (b"a: 1\nb: \xff\n", 2, "is not UTF-8 text"),
        ("a: 1\n".encode("utf-16"), 1, "is not UTF-8 text"),
        ("a: 1\nb: \x07\n", 2, "the character U+0007 is not allowed in YAML"),
        (b"a: " + b"x" * MAX_BYTES, 0, "is larger than 1024 KiB"),
        ("a: " + "[" * 40 + "]" * 40, 1, "is nested deeper than 32 levels"),
        ("a: " + "[" * 600, 0, "is nested too deeply"),
        ("a: &a [*a]\n", 1, "is nested deeper than 32 levels"),
    ],
)
def test_what_is_no_readable_yaml_is_told_with_its_line(
    tmp_path: Path, text: str | bytes, line: int, message: str
) -> None:
    fault = only_fault(tmp_path, text)
    assert fault.line == line
    assert fault.message.startswith(message)


def test_aliases_that_multiply_are_stopped(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    assert only_fault(tmp_path, "\n".join(lines)).message == "holds more than 50000 values"


def test_a_file_that_is_not_there_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(BadFile) as caught:
        read_document(tmp_path / "none.yml", "playbook")
    (fault,) = caught.value.faults
    assert fault.message == "cannot be read: No such file or directory"


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(BadFile) as caught:
        read_document(tmp_path, "playbook")
    assert caught.value.faults[0].message == "cannot be read: Is a directory"


PIECES = st.sampled_from(
    ["a", "b", ": ", ":", "- ", "\n", "\n  ", "\t", "&x ", "*x", "!!int ", "!t ", "{", "}", "[",
     "]", ",", "'", '"', "\\", "#", "|\n", ">\n", "?", "<<", "yes", "0o7", "1_0", "~", "---",
     "...", "%", "é", "\u2028", "2026-01-01", "2026-99-99", "0b_", "=", "@", "`"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=30).map("".join) | st.text(max_size=60))
def test_no_text_raises_anything_but_a_bad_file(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yml"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    try:
        lines = tuple(read_document(path, "inventory").lines.values())
    except BadFile as error:
        lines = tuple(fault.line for fault in error.faults)
    assert lines
    last = 1 + sum(text.count(end) for end in "\n\r\x85\u2028\u2029")
    assert all(0 <= line <= last for line in lines)
