"""A secret is the trainer's alone: looked for wherever it could have gone."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.lab.routes import ssh_route
from tests.sshd import Sshd

from .conftest import Job, made, until

# What surrounds a random part, by which it is found again in whatever form it went.
FORMS = ("{}", "a b'{}\"$(id)`;", "-{}\n{}", "é{}\\")


@dataclass(frozen=True, kw_only=True)
class Secretive:
    """A job with three secrets, and the random parts of their values."""

    job: Job
    parts: tuple[str, ...]
    form: str

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command with the secrets in its environment; it must not show one."""
        value = self.job.environment | {"TOKEN": self.form.format(*[self.parts[0]] * 2)}
        done = subprocess.run(
            self.job.command("--debug", *words),
            capture_output=True,
            text=True,
            timeout=120,
            stdin=subprocess.DEVNULL,
            env=value | {"HOOK": f"http://127.0.0.1:9/{self.parts[2]}"},
            cwd=self.job.folder,
            check=False,
        )
        self.assert_not_in(done.stdout, "standard output")
        self.assert_not_in(done.stderr, "standard error")
        return done

    def assert_not_in(self, text: str, where: object) -> None:
        assert [part for part in self.parts if part in text] == [], where


@pytest.fixture(params=FORMS)
def secretive(
    request: pytest.FixtureRequest, sshd: Sshd, private_home: Path, work: Path
) -> Iterator[Secretive]:
    parts = tuple(secrets.token_hex(12) for _ in range(3))
    with ssh_route(private_home, sshd) as route:
        job = made(route, work)
        (work / "secrets.env").write_text(f"FROM_FILE={parts[1]}\n")
        yield Secretive(job=job, parts=parts, form=request.param)


def run_with(job: Job, command: str) -> dict[str, object]:
    return {
        "command": ["sh", "-c", command],
        "env_base": "minimal",
        "env_file": "secrets.env",
        "env_from": ["TOKEN"],
    }


def files_below(folder: str) -> Iterator[tuple[Path, bytes]]:
    for path in Path(folder).rglob("*"):
        if path.is_file() and not path.is_symlink():
            yield path, path.read_bytes()


def processes(part: str) -> Iterator[tuple[int, str]]:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            yield int(folder.name), (folder / part).read_bytes().decode(errors="replace")
        except OSError:
            continue


@contextmanager
def watched(of: Secretive) -> Iterator[None]:
    """No process shows one in its words meanwhile."""
    found: list[tuple[int, str]] = []
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.05):
            found.extend(
                (pid, words)
                for pid, words in processes("cmdline")
                if any(part in words for part in of.parts)
            )

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    assert found == []


def test_a_secret_is_found_nowhere_but_in_the_trainers_environment(secretive: Secretive) -> None:
    job = secretive.job
    job.write(
        run=run_with(job, "exec sleep 600"),
        watch={"every": "1s", "restart": "on-failure", "notify": [{"webhook_from": "HOOK"}]},
    )
    with watched(secretive):
        done = secretive.run("deploy")
        assert done.returncode == 0, done.stderr
        for words in (("status", "--json"), ("runs", "show", "--json"), ("runs", "show"),
                      ("deploy", "--dry-run", "--json"), ("doctor",), ("logs",)):  # fmt: skip
            secretive.run(*words)
    pid = job.pid()
    assert secretive.parts[0] in dict(processes("environ"))[pid]
    for other, environment in processes("environ"):
        if other != pid and job.route.tmp in environment:
            secretive.assert_not_in(environment, other)
    orders = [path for path, _ in files_below(job.route.state_dir) if path.name == "orders.json"]
    assert orders == []
    until(lambda: "launch.json" not in {p.name for p, _ in files_below(job.route.state_dir)})
    for path, content in files_below(job.route.state_dir):
        secretive.assert_not_in(content.decode(errors="replace"), path)
    for asked in ("show-environment -g", "show-environment -t =dflash",
                  "list-panes -a -F #{pane_start_command}"):  # fmt: skip
        secretive.assert_not_in(job.route.tmux(*asked.split()).stdout, asked)
    assert secretive.run("stop").returncode == 0
    home = Path(os.environ["HOME"])
    for path, content in files_below(str(home)):
        secretive.assert_not_in(content.decode(errors="replace"), path)


def test_a_trainer_that_prints_its_secrets_does_so_into_its_log_and_nowhere_else(
    secretive: Secretive,
) -> None:
    job = secretive.job
    job.write(run=run_with(job, 'printf "%s\\n" "$TOKEN" "$FROM_FILE" ""; env; exit 3'))
    done = secretive.run("deploy", "--json")
    assert done.returncode == 66, done.stderr
    (target,) = json.loads(done.stdout)["targets"].values()
    assert any("(secret)" in line for line in target["error"]["detail"]["log_tail"])
    assert "(secret)" in secretive.run("deploy").stderr
    for path, content in files_below(job.route.state_dir):
        if path.name != "log":
            secretive.assert_not_in(content.decode(errors="replace"), path)
