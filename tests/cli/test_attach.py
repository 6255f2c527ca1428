from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from dflashctl.cli import terminal
from dflashctl.errors import Internal, LinkLost
from dflashctl.inventory.model import InContainer, Local, SshAddress, Target
from dflashctl.plan.model import Desired
from tests.cli.world import World
from tests.plan.scenes import BUSY, OVER, PLAYBOOK, TARGET

HOST = SshAddress(address="192.0.2.6", user="root")
SEEN = replace(BUSY, terminal="xterm-256color", files=())


def words(target: Target = TARGET, *, read_only: bool = False) -> tuple[str, ...]:
    desired = Desired(playbook=PLAYBOOK, target=target)
    return terminal.attach_words(desired, SEEN, {"PATH": "/my/bin"}, read_only=read_only)


@pytest.fixture
def on_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "require", lambda _: None)


@pytest.mark.provokes("no_terminal")
def test_without_a_terminal_it_says_so_before_anything_is_contacted(world: World) -> None:
    result = world.run("attach")
    assert result.code == 2
    assert "attach needs a terminal" in result.err
    assert world.looks == []


def test_the_session_is_named_exactly_in_an_environment_of_our_own() -> None:
    far = replace(
        TARGET, route=InContainer(host=HOST, host_name="kpro6", vmid=200), path=("/opt/x",)
    )
    assert words(far) == (
        "env", "-i", "TERM=xterm-256color", "LC_ALL=C.UTF-8",
        "PATH=/opt/x:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "tmux", "attach-session", "-t", "=dflash",
    )  # fmt: skip


def test_on_this_machine_our_own_path_is_used() -> None:
    assert "PATH=/my/bin" in words()


@pytest.mark.parametrize(
    ("socket", "option"), [("demo", ("-L", "demo")), ("/run/x", ("-S", "/run/x"))]
)
def test_another_socket_is_named_or_given_by_path(socket: str, option: tuple[str, str]) -> None:
    found = words(replace(TARGET, tmux_socket=socket))
    at = found.index("tmux")
    assert found[at + 1 : at + 3] == option


def test_looking_on_is_read_only() -> None:
    assert words(read_only=True)[-1] == "-r"
    assert "-r" not in words()


@pytest.mark.provokes("nothing_runs")
@pytest.mark.usefixtures("on_terminal")
def test_with_nothing_running_there_is_nothing_to_attach_to(world: World) -> None:
    world.answers = [replace(OVER, files=())]
    result = world.run("attach")
    assert result.code == 3
    assert "there is no session dflash (state FAILED)" in result.err


@pytest.mark.usefixtures("on_terminal")
def test_the_terminal_goes_to_tmux_and_detaching_leaves_the_job(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[tuple[str, ...]] = []
    monkeypatch.setattr(terminal, "run", lambda _, words: given.append(words))
    world.answers = [SEEN]
    world.environ["TERM"] = "xterm-kitty"
    result = world.run("attach", "--read-only")
    assert result.code == 0
    assert world.looks[0].term == "xterm-kitty"
    assert given[0][2] == "TERM=xterm-256color"
    assert given[0][-1] == "-r"
    assert result.err == (
        "Ctrl-b d detaches and leaves it running; keys do not reach the trainer\n"
        "detached; dflash keeps running\n"
    )


@pytest.mark.usefixtures("on_terminal")
def test_within_another_tmux_the_keys_to_detach_are_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "run", lambda *_: None)
    world.answers = [SEEN]
    world.environ["TMUX"] = "/tmp/tmux-0/default,1,0"
    err = world.run("attach").err
    assert err.startswith("Ctrl-b Ctrl-b d detaches")
    assert "Ctrl-C reaches the trainer" in err


def test_a_failed_ssh_is_a_lost_link() -> None:
    far = replace(TARGET, route=InContainer(host=HOST, host_name="kpro6", vmid=200))
    with pytest.raises(LinkLost) as caught:
        terminal.run(far, ("sh", "-c", "exit 255"))
    assert caught.value.address == "192.0.2.6"


def test_a_tmux_that_cannot_attach_is_told_with_its_code() -> None:
    with pytest.raises(Internal, match="code 7"):
        terminal.run(replace(TARGET, route=Local()), ("sh", "-c", "exit 7"))


def test_while_tmux_has_the_terminal_ctrl_c_is_not_ours(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    # The child asks its parent to be interrupted, and still has the usual Ctrl-C itself.
    program = (
        "import os, pathlib, signal, sys; os.kill(os.getppid(), signal.SIGINT);"
        "usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler;"
        "pathlib.Path(sys.argv[1]).write_text(str(usual))"
    )
    seen = tmp_path / "seen"
    terminal.run(TARGET, (sys.executable, "-c", program, os.fspath(seen)))
    assert seen.read_text(encoding="utf-8") == "True"
    assert signal.getsignal(signal.SIGINT) is before
