"""The optimiser's process beside a training: listened to, left alone, asked afterwards."""

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dflashctl.agent import dataset, optimize, process
from dflashctl.agent.failures import AgentError
from dflashctl.agent.optimizing import Cancel, Detach, Fetch, Optimize, Working
from dflashctl.agent.protocol import Event

from .conftest import Bench, until

# An interpreter's stand-in: it does what the task says, with the real way of talking.
STAND_IN = """\
#!{python} -IS
import fcntl, json, os, sys, time
if len(sys.argv) > 3:
    task = json.load(open(sys.argv[3]))["task"]
    out = open(sys.argv[4], "a")
    fcntl.flock(out, fcntl.LOCK_EX)
else:
    task = json.loads(sys.stdin.readline())["task"]
    out = sys.stdout
with open(task["me"], "w") as me:
    me.write(f"{{os.getpid()}} {{os.getpriority(os.PRIO_PROCESS, 0)}} {{os.environ['PYTHONPATH']}}")
for line in task["says"]:
    print(line, file=out, flush=True)
while not os.path.exists(task["until"]):
    time.sleep(0.02)
for line in task["then"]:
    print(line, file=out, flush=True)
print(task["cries"], file=sys.stderr)
sys.exit(task["code"])
"""
PROGRESS = json.dumps({"progress": {"stage": "reading", "share": 0.5}})
RESULT = json.dumps({"result": {"boundaries": [0, 10]}})


class Case:
    """A bench with the stand-in, and one task for it."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.events = bench, list[Event]()
        self.python = bench.folder / "python"
        self.python.write_text(STAND_IN.format(python=sys.executable))
        self.python.chmod(0o755)
        self.data = bench.folder / "lengths.npy"
        self.data.write_bytes(b"data")
        self.me, self.go_on = bench.folder / "me", bench.folder / "go-on"
        self.task: dict[str, Any] = {
            "me": str(self.me), "until": str(self.go_on), "says": [PROGRESS], "then": [RESULT],
            "cries": "", "code": 0,
        }  # fmt: skip

    def common(self) -> dict[str, Any]:
        return {
            "job": "dflash", "python": str(self.python), "dataset": str(self.data),
            "task": self.task,
        }  # fmt: skip

    def attached(self, hung_up: Callable[[], bool] = lambda: False) -> Any:
        return optimize.attached(Optimize(**self.common()), self.events.append, hung_up)

    def detach(self) -> None:
        request = Detach(**self.common(), session="dflash-buckets", tmux_socket=self.bench.socket)
        assert optimize.detached(request, self.bench.state).session == "dflash-buckets"

    def fetch(self, hung_up: Callable[[], bool] = lambda: False) -> Any:
        return optimize.fetched(Fetch(job="dflash"), self.bench.state, self.events.append, hung_up)

    def cancel(self) -> str:
        request = Cancel(job="dflash", tmux_socket=self.bench.socket)
        return optimize.cancelled(request, self.bench.state).session

    @property
    def pid(self) -> int:
        return int(self.me.read_text().split()[0])


@pytest.fixture
def case(bench: Bench) -> Case:
    return Case(bench)


def test_it_runs_at_a_low_priority_with_the_agents_own_package(case: Case) -> None:
    case.go_on.touch()
    found = case.attached()
    assert found.result == {"boundaries": [0, 10]}
    assert found.dataset == dataset.fingerprint(str(case.data))
    assert case.events == [Working(stage="reading", share=0.5)]
    _, priority, path = case.me.read_text().split()
    assert int(priority) == min(os.getpriority(os.PRIO_PROCESS, 0) + 10, 19)
    assert Path(path, "dflashctl", "buckets", "__init__.py").exists()


def test_when_nobody_listens_any_more_it_is_ended(case: Case) -> None:
    with pytest.raises(AgentError, match="unheard"):
        case.attached(hung_up=lambda: bool(case.events))
    assert process.look(case.pid) is None


def test_what_it_complains_of_is_told(case: Case) -> None:
    case.go_on.touch()
    case.task["then"] = [json.dumps({"error": {"code": "bad_dataset", "detail": {"text": "x"}}})]
    with pytest.raises(AgentError) as caught:
        case.attached()
    assert caught.value.failure.code == "bad_dataset"
    assert caught.value.failure.detail == {"text": "x"}


def test_one_that_dies_leaves_its_last_words(case: Case) -> None:
    case.go_on.touch()
    case.task |= {"then": [], "cries": "MemoryError", "code": 3}
    with pytest.raises(AgentError) as caught:
        case.attached()
    assert caught.value.failure.code == "job_died"
    assert caught.value.failure.detail == {"exit_code": 3, "said": "MemoryError"}


def test_one_that_is_killed_is_no_fault(case: Case) -> None:
    def kill_it() -> bool:
        if case.events:
            os.kill(case.pid, 9)
        return False

    with pytest.raises(AgentError, match="job_killed"):
        case.attached(hung_up=kill_it)


def test_what_others_print_in_between_is_passed_over(case: Case) -> None:
    case.go_on.touch()
    case.task["says"] = ["a warning", "[1]", '{"progress": {}}', PROGRESS]
    assert case.attached().result
    assert len(case.events) == 1


def test_an_interpreter_that_is_not_there_is_named(case: Case) -> None:
    case.python.unlink()
    with pytest.raises(AgentError) as caught:
        case.attached()
    assert caught.value.failure.code == "no_python"


@pytest.mark.provokes("optimizer_at_work")
def test_a_detached_one_is_seen_fetched_and_still_there_afterwards(case: Case) -> None:
    bench = case.bench
    assert bench.observe().optimizer is None
    case.detach()
    assert bench.sessions() == ["dflash-buckets"]
    seen = bench.observe().optimizer
    assert seen is not None
    assert (seen.state, seen.stage, seen.share) == ("working", "reading", 0.5)
    with pytest.raises(AgentError, match="optimizing"):
        case.detach()
    found: list[Any] = []
    waiting = threading.Thread(target=lambda: found.append(case.fetch()))
    waiting.start()
    time.sleep(0.2)
    assert not found
    case.go_on.touch()
    waiting.join(10)
    assert found[0].result == {"boundaries": [0, 10]}
    assert found[0].task == case.task
    assert found[0].dataset == dataset.fingerprint(str(case.data))
    until(lambda: not bench.sessions())
    seen = bench.observe().optimizer
    assert seen is not None
    assert seen.state == "done"
    assert seen.ended_at is not None
    assert case.fetch() == found[0]


def test_who_stops_waiting_for_a_detached_one_leaves_it_at_work(case: Case) -> None:
    case.detach()
    with pytest.raises(AgentError, match="unheard"):
        case.fetch(hung_up=lambda: bool(case.events))
    assert process.look(case.pid) is not None
    case.go_on.touch()
    assert case.fetch().result


def test_a_detached_one_that_was_killed_has_failed(case: Case) -> None:
    case.detach()
    os.kill(case.pid, 9)
    with pytest.raises(AgentError, match="job_killed"):
        case.fetch()
    seen = case.bench.observe().optimizer
    assert seen is not None
    assert seen.state == "failed"


def test_a_detached_one_that_is_cancelled_is_gone_and_forgotten(case: Case) -> None:
    case.detach()
    assert case.cancel() == "dflash-buckets"
    until(lambda: process.look(case.pid) is None)
    assert not case.bench.sessions()
    assert case.bench.observe().optimizer is None
    with pytest.raises(AgentError, match="no_job"):
        case.cancel()


def test_one_that_is_done_is_not_cancelled(case: Case) -> None:
    case.go_on.touch()
    case.detach()
    found = case.fetch()
    until(lambda: not case.bench.sessions())
    with pytest.raises(AgentError, match="no_job"):
        case.cancel()
    assert case.fetch() == found


def test_what_a_detached_one_complains_of_at_once_is_told_at_once(case: Case) -> None:
    case.task["says"] = [json.dumps({"error": {"code": "missing_module", "detail": {}}})]
    with pytest.raises(AgentError, match="missing_module"):
        case.detach()
    case.go_on.touch()


@pytest.mark.provokes("no_optimizer")
def test_where_none_was_detached_there_is_nothing_to_fetch(case: Case) -> None:
    with pytest.raises(AgentError, match="no_job"):
        case.fetch()


# --- the data at a glance -------------------------------------------------------------


def test_a_dataset_changes_with_each_file_that_it_stands_for(tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(b"1")
    (tmp_path / "b.npy").write_bytes(b"1")
    (tmp_path / "c.txt").write_bytes(b"1")
    whole, some = str(tmp_path), str(tmp_path / "*.npy")
    first = [dataset.fingerprint(path) for path in (whole, some)]
    assert first == [dataset.fingerprint(path) for path in (whole, some)]
    os.utime(tmp_path / "c.txt", ns=(1, 1))
    assert dataset.fingerprint(whole) != first[0]
    assert dataset.fingerprint(some) == first[1]
    (tmp_path / "b.npy").write_bytes(b"22")
    assert dataset.fingerprint(some) != first[1]
    assert dataset.fingerprint(str(tmp_path / "d.npy")) is None
