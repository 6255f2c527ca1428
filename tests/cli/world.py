"""The program run whole, in process, against an agent that is a script of answers."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from dflashctl.agent.keeping import ClearCheckpoints
from dflashctl.agent.optimizing import (
    Cancel,
    Cancelled,
    Detach,
    Detached,
    Fetch,
    Optimize,
    Optimized,
    Working,
)
from dflashctl.agent.protocol import (
    Ask,
    Commit,
    Event,
    Failure,
    LogEnd,
    Logs,
    LogText,
    Look,
    Outcome,
    StartRun,
    StepBegun,
    StepDone,
)
from dflashctl.agent.recorded import RunRecord, RunsListed
from dflashctl.agent.seen import Observed
from dflashctl.agent.watching import Notified, Notify
from dflashctl.cli.call import Call
from dflashctl.cli.main import main
from dflashctl.errors import DflashError
from dflashctl.inventory.model import Target
from dflashctl.link.connect import Question
from dflashctl.link.transport import Progress, Words
from tests.plan.scenes import BARE, NOW, RUNNING, SESSION, placed

INVENTORY = """\
version: 1
default_target: here
hosts:
  here: {connection: local}
  kpro6:
    address: 192.0.2.6
    user: root
    gpus: 8
    containers:
      dflash: {vmid: 200, gpus: 8}
      eval: {vmid: 201, route: ssh, address: 192.0.2.61, proxy_jump: kpro6}
groups: {training: [dflash, eval]}
"""
PLAYBOOK = """\
version: 1
name: dflash
files:
  - {source: train.py, dest: /root/train.py}
run:
  command: [bash, /root/start.sh]
  env: {PYTORCH_CUDA_ALLOC_CONF: "expandable_segments:True"}
  env_from: [WANDB_API_KEY]
checkpoints: {path: /workspace/checkpoints}
"""
SECRET = "the-secret-itself"


@dataclass
class Agent:
    """Answers as it was told to, and remembers what it was asked."""

    world: World
    target: str

    def __enter__(self) -> Agent:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.world.closed += 1

    def observe(self, look: Look) -> Observed:
        self.world.looks.append(look)
        answers = self.world.answers_of.get(self.target, self.world.answers)
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, BaseException):
            raise answer
        # Of the files asked for, each is there, unless the answer speaks of it.
        known = {file.dest for file in answer.files}
        more = tuple(placed(file) for file in look.files if file.dest not in known)
        return replace(answer, files=answer.files + more)

    def push(self, transaction: str, archive: Path, progress: Progress) -> None:
        with tarfile.open(archive) as tar:
            self.world.pushed.append((self.target, transaction, tar.getnames()))
        progress(archive.stat().st_size, archive.stat().st_size)
        error = self.world.push_error_of.get(self.target, self.world.push_error)
        if error is not None:
            raise error

    def commit(self, commit: Commit, on_event: Callable[[Event], None]) -> Outcome:
        self.world.commits.append(commit)
        self.world.committed.append(self.target)
        return self.world.commit_of.get(self.target, self.world.commit)(commit, on_event)

    def ask(self, ask: Ask, on_event: Callable[[Event], None]) -> Outcome | Failure:
        self.world.asked.append(ask)
        answer = self.world.answer
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, Failure):
            return answer
        return answer(self.world.commits[-1], on_event)

    def notify(self, request: Notify) -> Notified:
        self.world.notified.append(request)
        return Notified(problems=self.world.problems or ("",) * len(request.channels))

    def list_runs(self, job: str) -> RunsListed:
        runs = tuple(record.run for record in self.world.records)
        return RunsListed(now=NOW, current=runs[-1].id if runs else None, runs=runs)

    def recall(self, job: str, run_id: str) -> RunRecord:
        return next(record for record in self.world.records if record.run.id == run_id)

    def read_blobs(self, sha256s: Sequence[str], limit: int) -> dict[str, str]:
        return {sha: text for sha, text in self.world.blobs.items() if sha in sha256s}

    def optimize(self, request: Optimize | Fetch, on_event: Callable[[Event], None]) -> Optimized:
        self.world.optimizing.append(request)
        answer = self.world.optimized_on.get(self.target, self.world.optimized)
        if isinstance(answer, BaseException):
            raise answer
        assert answer is not None, "nobody said what is found"
        on_event(Working(stage="reading", share=0.5))
        return answer

    def detach(self, request: Detach) -> Detached:
        self.world.optimizing.append(request)
        return Detached(session=request.session)

    def cancel(self, request: Cancel) -> Cancelled:
        self.world.optimizing.append(request)
        return Cancelled(session=f"{request.job}-buckets")

    def logs(self, request: Logs) -> Iterator[LogText | LogEnd]:
        self.world.log_requests.append(request)
        for piece in self.world.log:
            if isinstance(piece, BaseException):
                raise piece
            yield piece


@dataclass
class Reach:
    """Opens an agent for each target, or fails as told."""

    world: World

    def __enter__(self) -> Reach:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def agent(self, target: Target, first: Question | None = None) -> Agent:
        error = self.world.unreachable.get(target.name)
        if error is not None:
            raise error
        return Agent(self.world, target.name)

    def terminal_words(self, _: Target, words: Words) -> Words:
        return words


@dataclass(frozen=True)
class Result:
    """What the shell would see."""

    code: int
    out: str
    err: str


@dataclass
class World:
    """A folder with an inventory and a playbook, and what the target will answer."""

    cwd: Path
    capsys: pytest.CaptureFixture[str]
    environ: dict[str, str]
    answers: list[Observed | BaseException] = field(default_factory=lambda: [BARE])
    commit: Callable[[Commit, Callable[[Event], None]], Outcome] = field(
        default_factory=lambda: succeed
    )
    answer: Callable[[Commit, Callable[[Event], None]], Outcome] | BaseException | Failure = field(
        default_factory=lambda: succeed
    )
    answers_of: dict[str, list[Observed | BaseException]] = field(default_factory=dict)
    commit_of: dict[str, Callable[[Commit, Callable[[Event], None]], Outcome]] = field(
        default_factory=dict
    )
    committed: list[str] = field(default_factory=list)
    unreachable: dict[str, DflashError] = field(default_factory=dict)
    push_error: BaseException | None = None
    push_error_of: dict[str, BaseException] = field(default_factory=dict)
    log: list[LogText | LogEnd | BaseException] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)
    pushed: list[Any] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    asked: list[Ask] = field(default_factory=list)
    log_requests: list[Logs] = field(default_factory=list)
    notified: list[Notify] = field(default_factory=list)
    problems: tuple[str, ...] = ()
    records: list[RunRecord] = field(default_factory=list)
    blobs: dict[str, str] = field(default_factory=dict)
    optimized: Optimized | BaseException | None = None
    optimized_on: dict[str, Optimized | BaseException] = field(default_factory=dict)
    optimizing: list[Optimize | Fetch | Detach | Cancel] = field(default_factory=list)
    closed: int = 0
    ways: int = 0

    def run(self, *arguments: str) -> Result:
        """The program's whole way, from its arguments to its exit code."""
        call = Call(environ=self.environ, cwd=self.cwd, way=self._way)
        code = main(arguments, call)
        out, err = self.capsys.readouterr()
        return Result(code=code, out=out, err=err)

    def _way(self, _: object) -> Any:
        self.ways += 1
        return Reach(self)


def make(folder: Path, capsys: pytest.CaptureFixture[str]) -> World:
    """A world in an empty folder."""
    (folder / "inventory").mkdir()
    (folder / "inventory" / "hosts.yml").write_text(INVENTORY, encoding="utf-8")
    (folder / "playbooks").mkdir()
    (folder / "playbooks" / "deploy.yml").write_text(PLAYBOOK, encoding="utf-8")
    (folder / "playbooks" / "train.py").write_text("print('training')\n", encoding="utf-8")
    environ = {"HOME": str(folder), "TERM": "xterm-256color", "WANDB_API_KEY": SECRET}
    return World(cwd=folder, capsys=capsys, environ=environ)


def succeed(commit: Commit, on_event: Callable[[Event], None]) -> Outcome:
    """Every step goes well; the new run, if one is started, lives."""
    run_id = None
    for index, action in enumerate(commit.actions):
        on_event(StepBegun(index=index))
        facts: dict[str, Any] = {}
        if isinstance(action, StartRun):
            run_id = action.run_id
        elif isinstance(action, ClearCheckpoints):
            facts = {"moved_to": "/workspace/.checkpoints.dflashctl-trash/t-1", "count": 17}
        on_event(StepDone(index=index, seconds=0.1, result="well", facts=facts))
    after = after_start(run_id) if run_id else replace(BARE, state="STOPPED", gpus=None)
    return Outcome(run_id=run_id, failed_at=None, failure=None, observed=after)


def after_start(run_id: str) -> Observed:
    """The target once the run lives."""
    run = replace(RUNNING, id=run_id)
    return replace(BARE, state="RUNNING", run=run, session=SESSION, gpus=None)
