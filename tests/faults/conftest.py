"""Worlds to cut things in, one a worker and place; and the table at the end."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.faults.cases import LAB, LOCAL, SEED, Case, cases
from tests.faults.preloaded import Preloaded
from tests.faults.strike import Strike
from tests.faults.world import World, mounted
from tests.lab.machine import end_processes
from tests.lab.need import do_without, need
from tests.lab.proxy import Proxy
from tests.lab.routes import pct_route

if TYPE_CHECKING:
    from tests.conftest import Lab

SIZE = "64m"


@dataclass
class Tried:
    """The case's line in the table."""

    properties: list[tuple[str, object]]

    def strike(self) -> None:
        """The fault came while the command was at work."""
        self.properties.append(("struck", True))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" in metafunc.fixturenames:
        all_of_them = cases()
        marks = {"lab": [pytest.mark.lab], "local": []}
        metafunc.parametrize(
            "case", [pytest.param(one, id=one.id, marks=marks[one.place]) for one in all_of_them]
        )


def pytest_report_header() -> str:
    return f"faults: seed {SEED} (DFLASHCTL_FAULTS_SEED), cases {LOCAL},{LAB} (DFLASHCTL_FAULTS)"


@pytest.fixture
def tried(case: Case, request: pytest.FixtureRequest) -> Tried:
    properties: list[tuple[str, object]] = request.node.user_properties
    properties.append(("fault", f"{case.place} {case.fault}"))
    return Tried(properties=properties)


def pytest_terminal_summary(terminalreporter: object) -> None:
    """What was tried, what struck, what held."""
    tried, struck, held = Counter[str](), Counter[str](), Counter[str]()
    stats: dict[str, list[pytest.TestReport]] = terminalreporter.stats  # type: ignore[attr-defined] # of pytest's own, without types
    bad = {one.nodeid for kind in ("failed", "error") for one in stats.get(kind, ())}
    for report in (one for kind in ("passed", "failed", "error") for one in stats.get(kind, ())):
        known = dict(report.user_properties)
        if report.when != "call" or "fault" not in known:
            continue
        name = str(known["fault"])
        tried[name] += 1
        struck[name] += "struck" in known
        held[name] += report.nodeid not in bad
    if not tried:
        return
    write = terminalreporter.write_line  # type: ignore[attr-defined] # see above
    write(f"\nseed {SEED}")
    write(f"{'fault':<28}{'tried':>7}{'struck':>8}{'held':>7}")
    for name in sorted(tried):
        write(f"{name:<28}{tried[name]:>7}{struck[name]:>8}{held[name]:>7}")
    sums = (tried.total(), struck.total(), held.total())
    write(f"{'in all':<28}{sums[0]:>7}{sums[1]:>8}{sums[2]:>7}")


@pytest.fixture(scope="session")
def preloaded() -> Iterator[Preloaded]:
    folder = Path(tempfile.mkdtemp(prefix="faults-said-"))
    source = Preloaded(folder)
    yield source
    source.close()
    shutil.rmtree(folder)


@dataclass
class Keeper:
    """Keeps a world from case to case, and makes another when one was left broken."""

    make: object
    world: World | None = None
    stack: ExitStack | None = None

    def get(self) -> World:
        if self.world is None or self.world.broken:
            self.close()
            self.stack = ExitStack()
            self.world = self.stack.enter_context(self.make())  # type: ignore[operator] # a function
        assert self.world is not None
        return self.world

    def close(self) -> None:
        if self.stack is not None:
            self.stack.close()
        self.world = self.stack = None


@contextmanager
def local_world(source: Preloaded) -> Iterator[World]:
    """This machine: the job lives on a small disk of its own."""
    need("tmux")
    if os.getuid() != 0:
        do_without("only root can mount")
    base = Path(tempfile.mkdtemp(prefix="dflash-", dir="/tmp"))
    (base / "target").mkdir()
    with contextmanager(mounted)(base / "target", SIZE):
        socket = f"{base}/target/tmux"
        host = {"connection": "local", "python": f"{base}/python", "path": [f"{base}/bin"],
                "state_dir": f"{base}/target/state", "tmux_socket": socket}  # fmt: skip
        world = World(
            base=str(base), root="", desk=base / "desk", python=sys.executable,
            host={"version": 1, "default_target": "box", "hosts": {"box": host}},
            source=source, socket=socket,
        )  # fmt: skip
        world.furnish()
        try:
            yield world
        finally:
            subprocess.run(("tmux", "-S", socket, "kill-server"), check=False, capture_output=True)
            for one in world.processes():
                one.kill()
    shutil.rmtree(base, ignore_errors=True)


@contextmanager
def lab_world(source: Preloaded, lab: Lab, port: int) -> Iterator[World]:
    """The container, through a proxy, a real sshd and the stand-in for pct."""
    if lab.container.state() != "RUNNING":
        lab.container.start()
    with pct_route(lab.container, lab.host.sshd) as route:
        inventory = yaml.safe_load(route.inventory_through(port))
        box = inventory["hosts"]["kpro6"]["containers"]["box"]
        box |= {"python": f"{route.tmp}/python", "state_dir": f"{route.tmp}/target/state"}
        desk = Path(tempfile.mkdtemp(prefix="dflash-desk-", dir="/tmp"))
        world = World(
            base=route.tmp, root=str(lab.container.rootfs), desk=desk / "desk",
            python="/usr/bin/python3", host=inventory, source=source,
            socket="/tmp/tmux-0/default",
        )  # fmt: skip
        world.furnish()
        try:
            yield world
        finally:
            if lab.container.state() != "RUNNING":
                lab.container.start()
            end_processes(lab.container, "", "/usr/bin/python3")
    shutil.rmtree(desk, ignore_errors=True)


@pytest.fixture(scope="session")
def local_keeper(preloaded: Preloaded) -> Iterator[Keeper]:
    keeper = Keeper(make=lambda: local_world(preloaded))
    yield keeper
    keeper.close()


@pytest.fixture(scope="session")
def proxy(lab: Lab) -> Iterator[Proxy]:
    with Proxy(target=(lab.host.sshd.host, lab.host.sshd.port)) as proxy:
        yield proxy


@pytest.fixture(scope="session")
def lab_keeper(preloaded: Preloaded, lab: Lab, proxy: Proxy) -> Iterator[Keeper]:
    keeper = Keeper(make=lambda: lab_world(preloaded, lab, proxy.port))
    yield keeper
    keeper.close()


@pytest.fixture
def world(case: Case, request: pytest.FixtureRequest) -> World:
    """The world of the case's place."""
    keeper: Keeper = request.getfixturevalue(f"{case.place}_keeper")
    return keeper.get()


@pytest.fixture
def strike(case: Case, world: World, request: pytest.FixtureRequest) -> Iterator[Strike]:
    """The fault, mended after the test in any case."""
    if case.place == "local":
        strike = Strike(case=case, world=world)
    else:
        lab: Lab = request.getfixturevalue("lab")
        proxy: Proxy = request.getfixturevalue("proxy")
        strike = Strike(case=case, world=world, proxy=proxy, container=lab.container)
    yield strike
    strike.lift()
