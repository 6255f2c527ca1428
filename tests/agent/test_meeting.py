"""Targets of one run find each other: addresses, a port, a folder that several of them have."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from dflashctl.agent import meeting, network
from dflashctl.agent.fabric import (
    Connect,
    Connected,
    Heard,
    LayMark,
    Listen,
    Listening,
    Marks,
    Node,
    TakeMark,
)
from dflashctl.agent.failures import AgentError
from dflashctl.agent.recorded import About

from .conftest import R1, Bench, trainer, until
from .test_serve import Agent

TOKEN = "0123456789abcdef"
HOME = "127.0.0.1"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOME, 0))
        return int(probe.getsockname()[1])


def listen(port: int, *, others: int = 1, wait_s: float = 20.0) -> Listen:
    return Listen(job="dflash", session="dflash", tmux_socket=None, address=HOME, port=port,
                  token=TOKEN, others=others, wait_s=wait_s)  # fmt: skip


def come(port: int, *, token: str = TOKEN, wait_s: float = 20.0) -> Connect:
    return Connect(address=HOME, port=port, token=token, source=HOME, wait_s=wait_s)


@pytest.fixture
def agents(bench: Bench) -> Iterator[list[Agent]]:
    made: list[Agent] = []
    for _ in range(3):
        made.append(Agent(bench, beside=made))
    yield made
    for one in made:
        one.end()


def told(agent: Agent) -> Any:
    """The next thing but a heartbeat."""
    while type(said := agent.hear()).__name__ == "Alive":
        pass
    return said


def test_every_other_target_comes_to_the_first_ones_port(agents: list[Agent]) -> None:
    port = free_port()
    first, *others = agents
    first.send(listen(port, others=2))
    assert told(first) == Listening(port=port)
    for other in others:
        other.send(come(port))
    assert [other.reply() for other in others] == [Connected(), Connected()]
    assert first.reply() == Heard(others=2)


def test_the_port_is_free_again_at_once(agents: list[Agent]) -> None:
    port = free_port()
    first, other, _ = agents
    first.send(listen(port))
    assert told(first) == Listening(port=port)
    other.send(come(port))
    assert first.reply() == Heard(others=1)
    with socket.socket() as next_one:
        next_one.bind(("", port))  # without SO_REUSEADDR: nothing lingers there


def test_who_does_not_know_the_token_is_not_let_in(agents: list[Agent]) -> None:
    port = free_port()
    first, other, stranger = agents
    first.send(listen(port))
    assert told(first) == Listening(port=port)
    stranger.send(come(port, token="f" * len(TOKEN), wait_s=0.5))
    assert stranger.reply().code == "no_way"
    other.send(come(port))
    assert other.reply() == Connected()
    assert first.reply() == Heard(others=1)


def test_where_nobody_listens_the_reason_is_told_within_the_deadline(agents: list[Agent]) -> None:
    port, begun = free_port(), time.monotonic()
    agents[0].send(come(port, wait_s=0.5))
    failure = agents[0].reply()
    assert failure.code == "no_way"
    assert failure.detail == {"address": HOME, "port": port, "reason": "Connection refused"}
    assert time.monotonic() - begun < 10


def test_nobody_comes_and_the_listener_ends_by_itself(agents: list[Agent]) -> None:
    agents[0].send(listen(free_port(), wait_s=0.3))
    told(agents[0])
    assert agents[0].reply() == Heard(others=0)


def test_the_listener_ends_with_its_client(agents: list[Agent]) -> None:
    port = free_port()
    agents[0].send(listen(port, wait_s=60.0))
    told(agents[0])
    begun = time.monotonic()
    agents[0].hang_up()
    agents[0].end()
    assert time.monotonic() - begun < 30
    assert network.listeners(port) is None


@pytest.mark.provokes("refused.port_taken")
def test_a_port_that_something_else_has_names_its_holder(bench: Bench) -> None:
    with socket.create_server((HOME, 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(AgentError) as caught:
            meeting.listen(listen(port), bench.state, lambda _: None, lambda: False)
    assert caught.value.failure.code == "port_taken"
    assert caught.value.failure.detail["pid"] == os.getpid()


def test_a_port_that_the_job_itself_has_is_free_after_its_stop_so_another_is_tried(
    bench: Bench,
) -> None:
    script = (
        "import socket, time\n"
        f"door = socket.create_server(('{HOME}', 0))\n"
        f"open('{bench.folder}/port', 'w').write(str(door.getsockname()[1]) + '\\n')\n"
        "time.sleep(300)\n"
    )
    bench.commit(trainer(R1, (sys.executable, "-c", script)))
    place = Path(bench.folder, "port")
    until(lambda: place.exists() and place.read_text().endswith("\n"))
    port = int(place.read_text())
    heard: list[int] = []
    asked = Listen(job="dflash", session="dflash", tmux_socket=bench.socket, address=HOME,
                   port=port, token=TOKEN, others=1, wait_s=20.0)  # fmt: skip

    def tell(event: Listening) -> None:
        heard.append(event.port)
        threading.Thread(target=meeting.connect, args=(come(event.port),), daemon=True).start()

    answer = meeting.listen(asked, bench.state, tell, lambda: False)
    assert answer == Heard(others=1)
    assert heard[0] != port


def test_a_folder_that_two_have_shows_the_marks_of_both(
    agents: list[Agent], tmp_path: Path
) -> None:
    """Whoever takes its mark away first has seen the other's."""
    shared, own = tmp_path / "shared", tmp_path / "own"
    shared.mkdir()
    own.mkdir()
    folders = [str(shared), str(own), str(shared)]
    for rank, (agent, folder) in enumerate(zip(agents, folders, strict=True)):
        agent.send(LayMark(folder=folder, token=TOKEN, rank=rank))
        assert agent.reply() == Marks(ranks=(rank,))
    seen = []
    for rank, (agent, folder) in enumerate(zip(agents, folders, strict=True)):
        agent.send(TakeMark(folder=folder, token=TOKEN, rank=rank))
        seen.append(agent.reply().ranks)
    assert seen == [(0, 2), (1,), (2,)]
    assert not list(shared.iterdir())
    assert not list(own.iterdir())


def test_a_mark_goes_with_the_agent_that_laid_it(agents: list[Agent], tmp_path: Path) -> None:
    agents[0].send(LayMark(folder=str(tmp_path), token=TOKEN, rank=0))
    agents[0].reply()
    assert list(tmp_path.iterdir())
    agents[0].hang_up()
    agents[0].end()
    assert not list(tmp_path.iterdir())


def test_where_there_is_no_folder_no_mark_is_laid(bench: Bench, tmp_path: Path) -> None:
    asked = LayMark(folder=str(tmp_path / "none"), token=TOKEN, rank=0)
    assert meeting.lay_mark(asked) == Marks(ranks=())
    assert meeting.take_mark(asked) == Marks(ranks=())
    assert not (tmp_path / "none").exists()


def test_addresses_are_those_that_others_could_reach(bench: Bench) -> None:
    found = bench.observe(network=True).interfaces
    names = {name for _, name in socket.if_nameindex()}
    for one in found:
        assert one.name in names
        assert not ip_address(one.address).is_loopback
        with socket.socket(socket.AF_INET6 if ":" in one.address else socket.AF_INET) as probe:
            probe.bind((one.address, 0))  # it is really ours
    assert bench.observe().interfaces == ()


def test_a_run_knows_its_place_and_what_comes_before_its_words(bench: Bench) -> None:
    node = Node(rank=1, names=("a/x", "b/x"), port=29400, master="10.0.0.1", address="10.0.0.2",
                interface="eth0")  # fmt: skip
    words = ("python3", "-c", "import time; time.sleep(300)")
    outcome = bench.commit(
        trainer(R1, words, about=About(node=node), launcher=("env", "LAUNCHED=1"))
    )
    assert outcome.failure is None
    run = outcome.observed.run
    assert run is not None
    assert run.node == node
    assert run.command == words, "the playbook's words, by which a run is known again"
    assert run.pid is not None
    until(lambda: "LAUNCHED=1" in Path(f"/proc/{run.pid}/environ").read_text())
