"""Several targets for real: this machine three times over, each with state and tmux of its own."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dflashctl.agent.journal import locked
from dflashctl.agent.protocol import Who
from dflashctl.agent.records import StateFolder
from tests.cli.test_local import TRAINER, Place

pytestmark = pytest.mark.slow
NAMES = ("a", "b", "c")


@dataclass(frozen=True)
class Three(Place):
    """Three targets, which differ in their settings and share the file system."""

    def inventory(self, **further: str) -> None:
        """Write it; ``further``: what a target has in the place of its socket."""
        hosts = "".join(
            f"  {name}: {{connection: local, state_dir: {self.path}/{name}/state, "
            f"path: [{self.path}/{name}/bin], "
            f"{further.get(name, f'tmux_socket: {self.path}/{name}/s')}}}\n"
            for name in NAMES
        )
        (self.path / "inventory" / "hosts.yml").write_text(f"version: 1\nhosts:\n{hosts}")

    def playbook(self, more: str = "") -> None:
        (self.path / "playbooks" / "deploy.yml").write_text(
            f"""\
version: 1
name: dflash
files: [{{source: train.sh, dest: {self.path}/train.sh}}]
run: {{command: [sh, {self.path}/train.sh], cwd: {self.path}, env_base: minimal}}
stop: {{signal: INT, grace: 5s}}
ready: {{alive_for: 1s}}
preflight: {{python: py, imports: [json]}}
{more}"""
        )

    def trainer(self, text: str) -> None:
        """It is in place already: three targets that put one file in place would race for it."""
        (self.path / "playbooks" / "train.sh").write_text(text)
        (self.path / "train.sh").write_text(text)

    def states(self) -> dict[str, tuple[str, str | None, int | None]]:
        """State, run and pid of each target, as status sees them."""
        targets = json.loads(self.run("status", "--all", "--json").stdout)["targets"]
        return {
            name: (one["state"], one["run"] and one["run"]["id"], one["run"] and one["run"]["pid"])
            for name, one in targets.items()
        }


@contextlib.contextmanager
def three() -> Iterator[Three]:
    folder = Path(tempfile.mkdtemp(prefix="dflash-three-", dir="/tmp"))
    place = Three(path=folder, socket=folder / "unused")
    for name in ("inventory", "playbooks"):
        (folder / name).mkdir()
    for name in NAMES:
        (folder / name / "bin").mkdir(parents=True)
        python = folder / name / "bin" / "py"
        python.write_text('#!/bin/sh\nexec python3 "$@"\n')
        python.chmod(0o755)
    place.trainer(TRAINER)
    place.inventory()
    place.playbook()
    try:
        yield place
    finally:
        place.inventory()
        place.playbook()
        place.run("stop", "--all")
        for name in NAMES:
            subprocess.run(
                ("tmux", "-S", str(folder / name / "s"), "kill-server"),
                capture_output=True,
                check=False,
            )
        subprocess.run(("rm", "-rf", str(folder)), check=True)


@pytest.fixture(scope="module")
def training() -> Iterator[Three]:
    """All three train, and nothing that is tried here may disturb them."""
    with three() as place:
        result = place.run("deploy", "--all")
        assert result.returncode == 0, result.stderr
        assert [one[0] for one in place.states().values()] == ["RUNNING"] * 3
        yield place


@contextlib.contextmanager
def no_python(place: Three, name: str) -> Iterator[None]:
    place.inventory(**{name: "python: no-such-python"})
    yield


@contextlib.contextmanager
def too_few_gpus(place: Three, name: str) -> Iterator[None]:
    place.inventory(**{name: f"gpus: 8, tmux_socket: {place.path}/{name}/s"})
    yield


@contextlib.contextmanager
def no_folder_for_its_socket(place: Three, name: str) -> Iterator[None]:
    place.inventory(**{name: "tmux_socket: /no/such/folder/s"})
    yield


@contextlib.contextmanager
def a_broken_interpreter(place: Three, name: str) -> Iterator[None]:
    python = place.path / name / "bin" / "py"
    whole = python.read_text()
    python.write_text("#!/bin/sh\nexit 3\n")
    yield
    python.write_text(whole)


@contextlib.contextmanager
def another_operator(place: Three, name: str) -> Iterator[None]:
    state = StateFolder(path=place.path / name / "state")
    with locked(state, "t-0", Who(user="ann", host="desk", version="0")):
        yield


@contextlib.contextmanager
def nowhere_to_send_files_to(place: Three, name: str) -> Iterator[None]:
    """Found by the very last thing that is done before anything is stopped: the sending."""
    staging = place.path / name / "state" / "staging"
    staging.rmdir()
    staging.write_text("in the way")
    yield
    staging.unlink()
    staging.mkdir(0o700)


Breaking = Callable[[Three, str], AbstractContextManager[None]]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("breaking", "code"),
    [
        (no_python, 78),
        (too_few_gpus, 65),
        (no_folder_for_its_socket, 65),
        (a_broken_interpreter, 65),
        (another_operator, 75),
        (nowhere_to_send_files_to, 1),
    ],
)
def test_what_fails_on_one_of_three_leaves_the_others_running_untouched(
    training: Three, breaking: Breaking, code: int, name: str
) -> None:
    before = training.states()
    deployed = (training.path / "train.sh").read_bytes()
    (training.path / "playbooks" / "train.sh").write_text(f"{TRAINER}# {name} {breaking}\n")
    with breaking(training, name):
        result = training.run("deploy", "--all", "--restart", "--json")
    training.inventory()
    assert result.returncode == code, result.stderr
    errors = {
        target: one["error"]["code"] for target, one in json.loads(result.stdout)["targets"].items()
    }
    assert {target for target, error in errors.items() if error == "held_back"} == {*NAMES} - {name}
    assert training.states() == before
    assert (training.path / "train.sh").read_bytes() == deployed
    for target in NAMES:
        assert list((training.path / target / "state" / "staging").iterdir()) == []


@pytest.fixture
def place() -> Iterator[Three]:
    with three() as made:
        yield made


# Its supervisor tells a trainer on which of the targets it is.
FAILS_ONCE = f"""\
own=$(tr '\\0' '\\n' < /proc/$PPID/cmdline | sed -n 's#/state/.*#/fail-once#p')
test -e "$own" && rm "$own" && exit 7
{TRAINER}"""


def deploys(place: Three, *options: str) -> None:
    place.trainer(FAILS_ONCE)
    result = place.run("deploy", *options)
    assert result.returncode == 0, result.stderr


def restart_that_fails_on(place: Three, name: str, rule: str) -> dict[str, Any]:
    """A restart after which the trainer dies at once on one of them."""
    (place.path / name / "fail-once").touch()
    place.playbook(f"on_partial: {rule}\n" if rule else "")
    result = place.run("deploy", "--all", "--restart", "--json")
    assert result.returncode == 66, result.stderr
    targets: dict[str, Any] = json.loads(result.stdout)["targets"]
    assert list(targets) == [*NAMES]
    assert {one: targets[one]["error"] is None for one in NAMES} == {
        one: one != name for one in NAMES
    }
    error = targets[name]["error"]
    assert (error["code"], error["detail"]["failure"]) == ("unverified", "died_early")
    return targets


@pytest.mark.parametrize("rule", ["", "keep"])
def test_what_failed_on_one_leaves_the_others_with_the_new_run(place: Three, rule: str) -> None:
    deploys(place, "--all")
    targets = restart_that_fails_on(place, "b", rule)
    now = place.states()
    assert [now[name][0] for name in NAMES] == ["RUNNING", "FAILED", "RUNNING"]
    for name in NAMES:
        assert now[name][1] == targets[name]["plan"]["run_id"]
        assert (targets[name]["on_partial"], targets[name]["after"]) == (None, None)


def test_with_stop_nothing_of_it_runs_anywhere(place: Three) -> None:
    deploys(place, "--all")
    targets = restart_that_fails_on(place, "a", "stop")
    now = place.states()
    assert [now[name][0] for name in NAMES] == ["FAILED", "STOPPED", "STOPPED"]
    for name in ("b", "c"):
        after = targets[name]["after"]
        assert (targets[name]["on_partial"], after["error"], after["state"]) == (
            "stop", None, "STOPPED",
        )  # fmt: skip
        assert [step["action"] for step in after["plan"]["steps"]] == ["stop_run"]
        assert now[name][1] == targets[name]["plan"]["run_id"]


def test_with_rollback_every_one_is_back_at_what_ran_before(place: Three) -> None:
    """One had nothing that ran: there what was started is stopped."""
    deploys(place, "-t", "a", "-t", "b")
    old = place.states()
    targets = restart_that_fails_on(place, "b", "rollback")
    now = place.states()
    assert [now[name][0] for name in NAMES] == ["RUNNING", "RUNNING", "STOPPED"]
    for name in ("a", "b"):
        after = targets[name]["after"]
        assert (targets[name]["on_partial"], after["error"]) == ("rollback", None)
        assert now[name][1] == after["plan"]["run_id"]
        shown = place.run("runs", "show", "last", "-t", name, "--json")
        assert json.loads(shown.stdout)["targets"][name]["repeats"] == old[name][1]


def test_the_report_says_of_every_target_what_is_where(place: Three) -> None:
    place.trainer(FAILS_ONCE)
    (place.path / "c" / "fail-once").touch()
    place.playbook("on_partial: stop\n")
    result = place.run("deploy", "--all")
    assert result.returncode == 66
    rows = {line.split()[0]: line for line in result.stdout.splitlines() if line[:1] in NAMES}
    assert [rows[name].split()[1] for name in NAMES] == ["STOPPED", "STOPPED", "FAILED"]
    assert "on_partial: stop" in " ".join(result.stdout.split())
    assert "the run ended after" in result.stderr
    for name in NAMES:
        assert re.search(rf"done  {name}: start run", result.stderr)
    assert re.search(r"failed  c: check that it lives", result.stderr)
    assert re.search(r"done  a: stop run", result.stderr)


def test_stop_of_all_stops_all_but_the_one_out_of_reach(place: Three) -> None:
    deploys(place, "--all")
    place.inventory(b="python: no-such-python")
    result = place.run("stop", "--all", "--json")
    assert result.returncode == 78
    place.inventory()
    assert [one[0] for one in place.states().values()] == ["STOPPED", "RUNNING", "STOPPED"]
    targets = json.loads(result.stdout)["targets"]
    assert targets["b"]["error"]["code"] == "missing_tool"
    assert targets["a"]["error"] is None


def test_a_program_runs_on_all_and_each_line_names_its_target(training: Three) -> None:
    """Its own code is passed on; what keeps it from one target hides no other's output."""
    script = 'printf "one\\ntwo"; echo "in $PATH" >&2; case "$PATH" in */b/bin*) exit 7;; esac'
    result = training.run("exec", "--all", "--", "sh", "-c", script)
    assert result.returncode == 7
    assert sorted(result.stdout.splitlines()) == [
        f"{n}  {w}" for n in NAMES for w in ("one", "two")
    ]
    for name in NAMES:
        assert re.search(rf"^{name}  in .*/{name}/bin", result.stderr, re.MULTILINE)
    assert "b: sh ended with exit code 7" in result.stderr
    training.inventory(b="python: no-such-python")
    result = training.run("exec", "--all", "--", "cat")
    training.inventory()
    assert result.returncode == 78
    assert "b has no usable python3" in result.stderr


def test_what_only_reads_is_told_of_each_in_turn(training: Three) -> None:
    result = training.run("runs", "--all")
    assert result.returncode == 0
    assert [line for line in result.stdout.splitlines() if line in NAMES] == [*NAMES]
    training.inventory(b="python: no-such-python")
    result = training.run("checkpoints", "list", "-t", "a", "-t", "b", "--json")
    listed = training.run("logs", "--all", "-n", "1")
    training.inventory()
    assert json.loads(result.stdout)["error"]["code"] == "missing_setting"
    assert listed.returncode == 78
    assert len(re.findall(r"step \d+ loss", listed.stdout)) == 2
