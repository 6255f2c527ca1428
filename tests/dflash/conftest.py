"""A small data set, and trainers that start at once: forked from a process that has torch."""

from __future__ import annotations

import importlib.util
import json
import multiprocessing
import os
import socket
import time
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.dflash import forked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

os.environ["OMP_NUM_THREADS"] = "1"
DFLASH = Path(__file__).parents[2] / "playbooks" / "dflash"
ROOT = Path(__file__).parents[2]
HAS_TORCH = importlib.util.find_spec("torch") is not None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.torch)


@dataclass(kw_only=True)
class Trainer:
    """Runs of the trainer on one data set, with one configuration and one checkpoint folder."""

    folder: Path
    config: dict[str, Any]
    context: Any
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def out(self) -> Path:
        return Path(self.config["checkpoints"])

    def words(self, *words: str) -> list[str]:
        path = self.folder / "config.json"
        path.write_text(json.dumps(self.config))
        return ["--config", str(path), *words]

    def start(self, *words: str, ranks: int = 1) -> list[BaseProcess]:
        environment = dict(self.environment)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        started = []
        for rank in range(ranks):
            if ranks > 1:
                environment |= {"RANK": str(rank), "WORLD_SIZE": str(ranks)}
                environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            arguments = (environment, self.words(*words), str(self.folder / f"log{rank}"))
            started.append(self.context.Process(target=forked.train, args=arguments))
            started[-1].start()
        return started

    def run(self, *words: str, ranks: int = 1) -> int:
        """To its end; the exit code, which all ranks agree on."""
        codes = {ended(process) for process in self.start(*words, ranks=ranks)}
        assert len(codes) == 1, (codes, self.log())
        return codes.pop()

    def log(self) -> str:
        return (self.folder / "log0").read_text()

    def events(self, event: str) -> list[dict[str, Any]]:
        path = self.out / "metrics.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [told for line in lines if (told := json.loads(line))["event"] == event]

    def losses(self) -> dict[int, float]:
        return {told["step"]: told["loss"] for told in self.events("step")}


def ended(process: BaseProcess) -> int:
    process.join(60)
    assert process.exitcode is not None, "it did not end in time"
    return process.exitcode


def until(condition: Callable[[], object], seconds: float = 40.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.01)


@pytest.fixture(scope="session")
def context() -> Any:
    """Forks from a server that has imported the trainer and done nothing with it."""
    made = multiprocessing.get_context("forkserver")
    made.set_forkserver_preload(["train_dflash_pipeline", "torch._dynamo"])
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(DFLASH)])
    return made


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """120 samples."""
    import dflash_data

    folder = tmp_path_factory.mktemp("data") / "small"
    dflash_data.write(folder, dflash_data.synthetic(120, seed=3), vocabulary=24, mask_id=20)
    return folder


def small(data: Path, out: Path) -> dict[str, Any]:
    """A configuration of tiny models; an epoch of about 12 steps on one rank."""
    config: dict[str, Any] = json.loads((DFLASH / "smoke.json").read_text())
    drafter = {"layers": 1, "heads": 2, "kv_heads": 1, "head_dim": 8, "mlp": 32}
    drafter |= {"block": 8, "features": 2}
    return config | {
        "data": str(data),
        "checkpoints": str(out),
        "target": {"hidden": 32, "layers": 5, "seed": 0},
        "drafter": drafter,
        "epochs": 100,  # no run ends before it is stopped
        "print_every": 1,
        "save_every": 1000,
    }


@pytest.fixture
def trainer(data: Path, tmp_path: Path, context: Any) -> Trainer:
    return Trainer(folder=tmp_path, config=small(data, tmp_path / "out"), context=context)


@pytest.fixture
def other(data: Path, tmp_path: Path, context: Any) -> Trainer:
    """A second one, which saves elsewhere."""
    (tmp_path / "other").mkdir()
    config = small(data, tmp_path / "other" / "out")
    return Trainer(folder=tmp_path / "other", config=config, context=context)


@pytest.fixture
def as_in_a_test(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The trainer's main in this very process: its signal handlers undone afterwards."""
    import signal

    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    monkeypatch.delenv("DFLASH_BUCKETS", raising=False)
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)
