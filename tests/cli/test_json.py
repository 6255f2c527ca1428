"""The shapes that docs/json.md describes, one by one."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dflashctl.agent.protocol import LogEnd, LogText
from dflashctl.agent.seen import CutTransaction, LockSeen
from dflashctl.errors import HostKeyChanged, Unreachable
from tests.cli.world import World
from tests.plan.scenes import ADOPTED, BARE, BUSY, RUNNING

DOCUMENT = Path(__file__).parents[2] / "docs" / "json.md"
STATUS = {
    "state", "run", "session", "metrics", "gpus", "gpu_status", "checkpoints", "disk", "release",
    "buckets", "restart", "optimizer", "verdicts", "lock", "interrupted", "last_known", "error",
}  # fmt: skip
RUN = {
    "id", "pid", "started_at", "ended_at", "elapsed_s", "exit_code", "exit_name", "signal", "oom",
    "node",
}  # fmt: skip
GPU = {
    "index", "name", "utilization_pct", "memory_used_mib", "memory_total_mib", "temperature_c",
    "power_w",
}  # fmt: skip
TRANSACTION = {
    "transaction", "plan", "done", "passed_over", "state", "live", "run_id", "pid", "release",
    "session", "on_partial", "after", "error",
}  # fmt: skip


def answer(world: World, *words: str) -> dict[str, Any]:
    """The one object of a command; its exit code is the process's."""
    result = world.run(*words, "--json")
    assert result.out.count("\n") == 1
    value: dict[str, Any] = json.loads(result.out)
    more = {"left_out"} if words[:2] == ("inventory", "show") else set()
    more |= {"runs"} if words[0] == "status" and not value["error"] else set()
    assert set(value) == {"schema", "command", "exit_code", "error", "targets"} | more
    assert (value["schema"], value["exit_code"]) == (1, result.code)
    return value


def test_status_of_a_running_job(world: World) -> None:
    world.answers = [BUSY]
    value = answer(world, "status")
    assert (value["command"], value["exit_code"], value["error"]) == ("status", 0, None)
    target = value["targets"]["here"]
    assert set(target) == STATUS
    assert set(target["run"]) == RUN
    assert target["run"]["started_at"] == "2026-11-28T09:00:00Z"
    assert target["run"]["elapsed_s"] == 11_160.0
    assert target["run"]["exit_code"] is None
    assert target["session"] == {"name": "dflash", "alive": True, "adopted": False}
    assert len(target["gpus"]) == 8
    assert set(target["gpus"][0]) == GPU
    assert target["gpu_status"] == "ok"
    assert target["checkpoints"] == {
        "count": 17, "complete": 17, "latest_step": 3400, "latest_age_s": 7560.0,
        "bytes": 41_200_000_000,
    }  # fmt: skip
    assert target["disk"] == {"free_bytes": 900_000_000_000, "total_bytes": 2_000_000_000_000}
    assert target["release"] == RUNNING.release
    assert (target["metrics"], target["buckets"], target["verdicts"]) == (None, None, [])


def test_status_of_a_target_where_nothing_was_ever_started(world: World) -> None:
    world.answers = [replace(BARE, gpus=None, checkpoints=None, disks=())]
    target = answer(world, "status")["targets"]["here"]
    assert set(target) == STATUS
    assert target["state"] == "NONE"
    for name in ("run", "session", "gpu_status", "checkpoints", "disk", "release"):
        assert target[name] is None
    assert target["gpus"] == []


def test_status_of_a_hand_started_session(world: World) -> None:
    world.answers = [replace(ADOPTED, run=RUNNING)]
    target = answer(world, "status")["targets"]["here"]
    assert target["session"]["adopted"] is True
    assert (target["run"]["id"], target["run"]["pid"]) == (None, 777)
    assert set(target["run"]) == RUN


def test_status_with_a_verdict_a_lock_and_a_cut_transaction(world: World) -> None:
    cut = CutTransaction(id="t-9", step="StopRun", at=1_795_860_000.0, who="ann@desk")
    lock = LockSeen(who="bob@desk", since=1_795_860_000.0, transaction="t-10")
    world.answers = [replace(BUSY, cut=cut, lock=lock)]
    target = answer(world, "status")["targets"]["here"]
    (verdict,) = target["verdicts"]
    assert verdict["code"] == "cut_off"
    assert set(verdict) == {"code", "since", "evidence"}
    assert target["lock"] == {
        "who": "bob@desk", "since": "2026-11-28T10:00:00Z", "transaction": "t-10",
    }  # fmt: skip
    assert target["interrupted"] == {
        "transaction": "t-9", "step": "StopRun", "at": "2026-11-28T10:00:00Z", "who": "ann@desk",
    }  # fmt: skip


def test_status_of_a_target_that_cannot_be_reached(world: World) -> None:
    world.answers = [BUSY]
    world.unreachable["kpro6/eval"] = Unreachable(
        target="kpro6/eval", address="192.0.2.61", reason="connection refused"
    )
    value = answer(world, "status", "--all")
    assert value["exit_code"] == 69
    target = value["targets"]["kpro6/eval"]
    assert set(target) == STATUS
    assert target["state"] == "UNREACHABLE"
    assert target["error"]["code"] == "unreachable"
    assert set(target["error"]) == {"code", "message", "next", "detail"}
    assert target["error"]["detail"]["reason"] == "connection refused"
    assert set(value["targets"]["here"]) == STATUS


def test_a_changed_host_key_is_data_for_programs(world: World) -> None:
    world.unreachable["here"] = HostKeyChanged(
        target="here", host="h", port=22, key_type="ED25519", fingerprint="SHA256:new",
        expected="SHA256:old", known_hosts="/k", line=3,
    )  # fmt: skip
    value = answer(world, "stop")
    assert value["exit_code"] == 76
    error = value["targets"]["here"]["error"]
    assert error["code"] == "host_key_changed"
    assert (error["detail"]["fingerprint"], error["detail"]["line"]) == ("SHA256:new", 3)


def test_a_mistake_before_any_target_is_the_envelope_s_own_error(world: World) -> None:
    (world.cwd / "inventory" / "hosts.yml").write_text("version: 1\nhost: {}\n", encoding="utf-8")
    value = answer(world, "status")
    assert (value["exit_code"], value["targets"]) == (2, {})
    assert value["error"]["code"] == "bad_file"
    fault = value["error"]["detail"]["faults"][0]
    assert set(fault) == {"path", "line", "where", "message"}


@pytest.mark.parametrize("words", [("deploy",), ("deploy", "--restart"), ("start",), ("stop",)])
@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_transactions_have_one_shape(
    world: World, words: tuple[str, ...], dry: tuple[str, ...]
) -> None:
    world.answers = [replace(BUSY, files=())]
    value = answer(world, *words, *dry)
    assert value["command"] == words[0]
    target = value["targets"]["here"]
    assert set(target) == TRANSACTION
    assert set(target["plan"]) == {"run_id", "steps", "notes", "diffs", "refusals"}
    done = bool(target["plan"]["steps"]) and not dry
    assert (target["transaction"] is not None) == done
    assert len(target["done"]) == (len(target["plan"]["steps"]) if done else 0)
    for step in target["plan"]["steps"]:
        assert set(step) == {"action", "what", "why"}
    for step in target["done"]:
        assert set(step) == {"step", "result", "seconds", "facts"}


def test_a_deploy_names_its_actions_and_where_the_checkpoints_went(world: World) -> None:
    world.answers = [replace(BUSY, files=())]
    target = answer(world, "deploy", "--restart", "--clear-checkpoints")["targets"]["here"]
    actions = [step["action"] for step in target["plan"]["steps"]]
    assert actions == ["stop_run", "clear_checkpoints", "start_run", "verify_run"]
    assert target["done"][1]["facts"]["count"] == 17
    assert target["live"] is True
    assert target["run_id"] == target["plan"]["run_id"]


def test_a_dry_run_has_the_plan_and_code_10(world: World) -> None:
    value = answer(world, "deploy", "--dry-run")
    assert value["exit_code"] == 10
    assert value["targets"]["here"]["plan"]["steps"]


@pytest.mark.provokes("refused")
def test_a_refusal_lists_its_reasons(world: World) -> None:
    world.answers = [replace(BUSY, files=())]
    value = answer(world, "deploy", "--clear-checkpoints")
    assert value["exit_code"] == 65
    (refusal,) = value["targets"]["here"]["error"]["detail"]["refusals"]
    assert set(refusal) == {"code", "message", "remedy"}
    assert refusal["code"] == "clear_while_running"


def test_logs_are_lines(world: World) -> None:
    world.log = [LogText(text="a\r\nb\x1b[0m"), LogText(text="c\n"), END]
    target = answer(world, "logs")["targets"]["here"]
    assert target == {"run_id": "r-1", "state": "FINISHED", "lines": ["a", "bc"], "error": None}


END = LogEnd(run_id="r-1", state="FINISHED")


def test_followed_logs_are_one_object_a_line(world: World) -> None:
    world.log = [LogText(text="a\nb"), LogText(text="c\nd"), END]
    lines = [json.loads(line) for line in world.run("logs", "-f", "--json").out.splitlines()]
    assert [line.get("text") for line in lines] == ["a", "bc", "d", None]
    assert set(lines[0]) == {"schema", "command", "target", "event", "text"}
    assert lines[-1] == {
        "schema": 1, "command": "logs", "target": "here", "event": "end", "run_id": "r-1",
        "state": "FINISHED",
    }  # fmt: skip


def test_the_inventory(world: World) -> None:
    value = answer(world, "inventory", "show")
    assert value["command"] == "inventory show"
    assert value["targets"]["kpro6/dflash"] == {
        "way": "pct 200 on kpro6, ssh root@192.0.2.6", "gpus": 8, "groups": ["training"],
        "default": False, "error": None,
    }  # fmt: skip
    assert value["targets"]["here"]["default"] is True


@pytest.mark.parametrize("names", [STATUS, RUN, GPU, TRANSACTION])
def test_the_document_names_every_field(names: set[str]) -> None:
    described = set(re.findall(r"`([a-z_]+)`", DOCUMENT.read_text(encoding="utf-8")))
    assert names <= described
