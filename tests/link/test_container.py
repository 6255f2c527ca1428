"""Wrapping by pct, on a host whose answers are written down here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflashctl.errors import (
    ContainerStopped,
    DflashError,
    MissingTool,
    NoSuchContainer,
    NotRoot,
)
from dflashctl.inventory.model import InContainer, Local, SshAddress, Target
from dflashctl.link.connect import Connections
from dflashctl.link.container import ContainerTransport, in_container
from dflashctl.link.transport import NoFileChannel, NoScp, Progress, Words

Answer = tuple[int | None, bytes]


class Said:
    """A channel of a program that printed something and ended."""

    def __init__(self, answer: Answer) -> None:
        self.code, self.output = answer

    def read(self, timeout_s: float) -> bytes:
        said, self.output = self.output, b""
        return said

    def write(self, data: bytes) -> None:
        raise AssertionError("nothing is written")

    def close_input(self) -> None: ...

    def stderr_tail(self) -> str:
        return ""

    def exit_code(self, timeout_s: float) -> int | None:
        return self.code

    def close(self) -> None: ...


class Host:
    """A host that answers as told, and writes down what was asked of it."""

    def __init__(self, answer: Callable[[Words], Answer], *, scp: bool = False) -> None:
        self.answer, self.scp = answer, scp
        self.ran: list[Words] = []
        self.sent: list[tuple[str, str]] = []

    def start(self, words: Words) -> Said:
        self.ran.append(words)
        return Said(self.answer(words))

    def send_file(self, source: Path, folder: str, name: str, progress: Progress) -> None:
        self.sent.append((folder, name))

    def send_by_scp(
        self, scp: Words, source: Path, folder: str, name: str, progress: Progress
    ) -> None:
        self.ran.append(scp)
        if not self.scp:
            raise NoScp("exit code 127")

    def terminal_words(self, words: Words) -> Words:
        return ("ssh", "kpro6", *words)

    def explain_silence(self, exit_code: int | None, stderr: str) -> DflashError | None:
        raise AssertionError("the container explains itself")

    def close(self) -> None: ...


def container(host: Host) -> ContainerTransport:
    return ContainerTransport(host, "kpro6", 200, "kpro6/dflash")


def nothing(_sent: int, _total: int) -> None:
    """No progress to show."""


@given(st.integers(100, 999_999_999), st.lists(st.text(), min_size=1).map(tuple))
def test_wrapping_is_lengthening(vmid: int, words: Words):
    assert in_container(vmid, words) == ("pct", "exec", str(vmid), "--", *words)


def test_programs_and_terminals_go_through_pct_exec():
    host = Host(lambda _: (0, b""))
    container(host).start(("nvidia-smi", "-L"))
    assert host.ran == [("pct", "exec", "200", "--", "nvidia-smi", "-L")]
    assert container(host).terminal_words(("tmux", "attach")) == (
        *("ssh", "kpro6", "pct", "exec", "200", "--", "tmux", "attach"),
    )


def test_files_go_by_scp_straight_into_the_container():
    host = Host(lambda _: (0, b""), scp=True)
    container(host).send_file(Path("/x"), "/staging", "files.tar", nothing)
    assert host.ran == [("pct", "exec", "200", "--", "scp")]
    assert host.sent == []


@pytest.mark.parametrize("push_code", [0, 1])
def test_without_scp_in_it_files_go_by_way_of_the_host_and_leave_no_trace(push_code: int):
    def answer(words: Words) -> Answer:
        return (0, b"/var/tmp/d.X\n") if words[0] == "mktemp" else (push_code, b"")

    host = Host(answer)
    if push_code:
        with pytest.raises(NoFileChannel):
            container(host).send_file(Path("/x"), "/a b", "files.tar", nothing)
    else:
        container(host).send_file(Path("/x"), "/a b", "files.tar", nothing)
    assert host.sent == [("/var/tmp/d.X", "files")]
    push = ("pct", "push", "200", "/var/tmp/d.X/files", "/a b/files.tar", "--perms", "0600")
    assert host.ran[-2:] == [push, ("rm", "-rf", "--", "/var/tmp/d.X")]


def test_nothing_is_removed_where_no_temporary_folder_was_made():
    host = Host(lambda _: (1, b""))
    with pytest.raises(NoFileChannel):
        container(host).send_file(Path("/x"), "/s", "files.tar", nothing)
    assert [words[0] for words in host.ran] == ["pct", "mktemp"]


@pytest.mark.provokes("not_root")
@pytest.mark.parametrize(
    ("exit_code", "status", "uid", "expected"),
    [
        (255, (0, b"status: stopped\n"), b"0\n", ContainerStopped),
        (255, (2, b""), b"0\n", NoSuchContainer),
        (127, (127, b""), b"0\n", MissingTool),
        (127, (0, b"status: running\n"), b"0\n", MissingTool),
        (255, (255, b""), b"1000\n", NotRoot),
        (1, (0, b"status: running\n"), b"0\n", None),
        (None, (None, b""), b"0\n", None),
    ],
)
def test_one_pct_status_explains_why_nothing_greeted(
    exit_code: int | None, status: Answer, uid: bytes, expected: type[DflashError] | None
):
    host = Host(lambda words: status if words[0] == "pct" else (0, uid))
    explained = container(host).explain_silence(exit_code, "")
    assert type(explained) is (expected or type(None))
    assert host.ran[0] == ("pct", "status", "200")
    assert host.ran[1:] in ([], [("id", "-u")])


def test_missing_pct_and_missing_python_are_told_apart():
    no_pct = container(Host(lambda _: (127, b""))).explain_silence(127, "")
    no_python = container(Host(lambda _: (0, b"status: running\n"))).explain_silence(127, "")
    assert isinstance(no_pct, MissingTool)
    assert isinstance(no_python, MissingTool)
    assert (no_pct.tool, no_python.tool) == ("pct", "python3")


@pytest.mark.parametrize("host", [Local(), SshAddress(address="192.0.2.6", user="root")])
def test_a_container_is_reached_over_any_host(host: Local | SshAddress, connections: Connections):
    route = InContainer(host=host, host_name="kpro6", vmid=200)
    transport = connections.transport(Target(name="kpro6/dflash", route=route))
    assert transport.terminal_words(("true",))[-6:] in {
        ("pct", "exec", "200", "--", "true"),
        (*transport.terminal_words(("true",))[-6:-1], "pct exec 200 -- true"),
    }
