"""The connection breaks at any packet: of a status and of a deploy, straight and by a jump host.

Each time the command ends with one message and an exit code that tells it, and the target is
whole: the same deploy works at once. With DFLASHCTL_PACKETS=all at each packet, which takes
many minutes; otherwise at some of them.
"""

from __future__ import annotations

import io
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml

from dflashctl.cli import recover
from dflashctl.cli.call import Call
from dflashctl.cli.main import main
from dflashctl.cli.reach import Reach
from dflashctl.link.deadlines import Deadlines
from tests.e2e.conftest import Job, made
from tests.lab.proxy import Direction, Proxy
from tests.lab.routes import Route, ssh_route
from tests.sshd import Sshd, known_hosts_line, start_sshd

pytestmark = pytest.mark.hostile

How = Literal["reset", "end", "silence"]
Place = Literal["straight", "before the jump", "behind the jump"]
WAYS = ("up", "down")

# For silence only. On a busy machine they may pass without it: then that is the break.
SHORT = Deadlines(
    banner_s=1.5,
    handshake_s=1.5,
    answer_s=1.5,
    stall_s=1.5,
    copy_stall_s=1.5,
    greeting_s=1.5,
    install_s=1.5,
    silence_s=6.0,
    farewell_s=0.5,
)
UNREACHABLE, LOCKED = 69, 75


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a command ended."""

    code: int
    said: str
    seconds: float


@dataclass(kw_only=True)
class Line:
    """A job on ``box``, and the connection there that can be broken at a packet."""

    job: Job
    proxy: Proxy
    broken: str
    version: int = 1

    def run(
        self, *words: str, inventory: str | None = None, deadlines: Deadlines | None = None
    ) -> Ended:
        """The program in this process."""
        environ = {**self.job.environment, "NO_COLOR": "1"}
        if inventory is not None:
            environ["DFLASHCTL_INVENTORY"] = inventory
        call = Call(
            environ=environ, cwd=self.job.folder, way=lambda screen: Reach(screen, deadlines)
        )
        out, err, began = io.StringIO(), io.StringIO(), time.monotonic()
        with redirect_stdout(out), redirect_stderr(err):
            code = main(words, call)
        return Ended(code=code, said=err.getvalue(), seconds=time.monotonic() - began)

    def deploy_anew(self) -> tuple[str, ...]:
        """The words of a deploy that has all to do: a file to push, a run to restart."""
        self.version += 1
        self.job.write(version=self.version, ready={"alive_for": "0s"})
        return ("deploy", "--restart")

    def packets(self, *words: str) -> dict[str, int]:
        """How many packets the command takes each way, undisturbed."""
        for way in WAYS:
            self._way(way).pieces = 0
        done = self.run(*words, inventory=self.broken)
        assert done.code == 0, done.said
        return {way: self._way(way).pieces for way in WAYS}

    def broken_at(self, packet: int, way: str, how: How, *words: str) -> Ended:
        """The command, whose connection breaks instead of passing that packet."""
        direction = self._way(way)
        direction.pieces = 0
        blow: Callable[[], None] = {
            "reset": self.proxy.cut,
            "end": self.proxy.end,
            "silence": self.proxy.fall_silent,
        }[how]
        direction.before = lambda number: blow() if number == packet else None
        try:
            short = SHORT if how == "silence" else None
            return self.run(*words, inventory=self.broken, deadlines=short)
        finally:
            direction.before = None
            self.proxy.cut()
            self.proxy.recover()

    def _way(self, name: str) -> Direction:
        return self.proxy.up if name == "up" else self.proxy.down


def through(place: Place, route: Route, jump: Sshd, port: int) -> str:
    """The inventory, with the proxy's port somewhere on the way."""
    if place == "straight":
        return route.inventory_through(port)
    inventory: dict[str, Any] = yaml.safe_load(route.inventory)
    assert route.sshd is not None
    for sshd in (jump, route.sshd):
        with sshd.known_hosts.open("a") as known:
            known.write(known_hosts_line(f"[{sshd.host}]:{port}", sshd.host_key))
    inventory["hosts"]["jump"] = {
        "address": jump.host,
        "port": port if place == "before the jump" else jump.port,
        "user": jump.user,
        "identity_file": str(jump.client_key),
        "known_hosts_file": str(jump.known_hosts),
        "proxy_jump": "none",
    }
    inventory["hosts"]["box"]["proxy_jump"] = "jump"
    if place == "behind the jump":
        inventory["hosts"]["box"]["port"] = port
    return yaml.safe_dump(inventory, sort_keys=False)


@pytest.fixture(scope="module")
def jump() -> Iterator[Sshd]:
    folder = Path(tempfile.mkdtemp(prefix="dflash-jump-", dir="/tmp"))
    server = start_sshd(folder)
    yield server
    server.stop()
    shutil.rmtree(folder)


@pytest.fixture(params=["straight", "before the jump", "behind the jump"])
def line(
    request: pytest.FixtureRequest, private_home: Path, sshd: Sshd, jump: Sshd, work: Path
) -> Iterator[Line]:
    place: Place = request.param
    beyond = jump if place == "before the jump" else sshd
    with ExitStack() as stack:
        route = stack.enter_context(ssh_route(private_home, sshd))
        proxy = stack.enter_context(Proxy(target=(beyond.host, beyond.port)))
        job = made(route, work)
        broken = work / "broken.yml"
        broken.write_text(through(place, route, jump, proxy.port))
        line = Line(job=job, proxy=proxy, broken=str(broken))
        first = line.run(*line.deploy_anew())
        assert first.code == 0, first.said
        yield line
        line.run("stop")


def judged(ended: Ended, allowed: set[int], where: str) -> None:
    """One of the exit codes, and one message where it is an error's."""
    told = f"{where}: exit {ended.code} after {ended.seconds:.1f} s\n{ended.said}"
    assert ended.code in allowed, told
    assert "Traceback" not in ended.said, told
    assert "Exception" not in ended.said, told
    assert ended.said.count("error:") == (ended.code == UNREACHABLE), told


def is_whole(line: Line, where: str) -> None:
    """The same again succeeds; what the broken one began is waited for."""
    until = time.monotonic() + 20
    while (again := line.run("deploy")).code == LOCKED and time.monotonic() < until:
        time.sleep(0.1)
    judged(again, {0}, f"deployed again after {where}")


def some(packets: dict[str, int], stride: int) -> Iterator[tuple[str, int]]:
    """The packets each way that are tried: each one, or each so many."""
    stride = 1 if os.environ.get("DFLASHCTL_PACKETS") == "all" else stride
    for way, count in packets.items():
        # Another start for each way, and always the last.
        yield from ((way, n) for n in range(1 + WAYS.index(way) % stride, count + 1, stride))
        yield way, count


@pytest.mark.slow
@pytest.mark.parametrize(("how", "stride"), [("reset", 1), ("end", 2), ("silence", 6)])
def test_a_status_is_told_or_is_out_of_reach(line: Line, how: How, stride: int):
    for way, packet in some(line.packets("status"), stride):
        ended = line.broken_at(packet, way, how, "status")
        judged(ended, {0, UNREACHABLE}, f"status, {how} at packet {packet} {way}")
    is_whole(line, f"the status of {how}")


@pytest.mark.slow
@pytest.mark.parametrize(("how", "stride"), [("reset", 4), ("end", 6), ("silence", 16)])
def test_a_deploy_is_done_or_can_be_done_again(
    line: Line, how: How, stride: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(recover, "RECONNECT_S", 2.0)
    monkeypatch.setattr(recover, "PAUSE_S", 0.1)
    for way, packet in some(line.packets(*line.deploy_anew()), stride):
        where = f"deploy, {how} at packet {packet} {way}"
        judged(line.broken_at(packet, way, how, *line.deploy_anew()), {0, UNREACHABLE}, where)
        is_whole(line, where)
    judged(line.run("status"), {0}, "status after all")
