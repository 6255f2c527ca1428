"""The five invariants, each judged from what is really there."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

from tests.faults.cases import WORDS, Case
from tests.faults.preloaded import Command
from tests.faults.world import World

SETTLE_S = 10.0
LIVE = ("STARTING", "RUNNING", "ORPHANED")
OVER = ("NONE", "STOPPED", "FINISHED", "FAILED", "INTERRUPTED")
EXIT = {"STARTING": 0, "RUNNING": 0, "STOPPED": 3, "FINISHED": 3, "NONE": 3, "FAILED": 4,
        "INTERRUPTED": 4, "ORPHANED": 5}  # fmt: skip


@dataclass
class Before:
    """What there was before the cut."""

    ledger: set[str]
    saved: set[str]
    pushed: dict[str, bytes | None]
    journals: set[str]


def before(world: World) -> Before:
    return Before(
        ledger=world.ledger(),
        saved=world.saved(),
        pushed=world.pushed(),
        journals=set(world.journals()),
    )


def said_well(case: Case, command: Command, allowed: set[int]) -> None:
    """The command ends as the contract says, and in words."""
    told = f"{case.id}: exit {command.poll()}\n{command.out}\n{command.err}"
    assert command.poll() in allowed, told
    assert "Traceback" not in command.err + command.out, told
    if command.poll() in (65, 66, 69, 75, 78):
        assert command.err.strip(), told


def a_lost_link_is_told(world: World, was: Before, command: Command) -> None:
    """Who cannot tell how it ended says how to ask; who says that nothing was done is right."""
    if command.poll() != 69:
        return
    begun = [name for name in world.journals() if name not in was.journals]
    begun = [name for name in begun if world.journals()[name][:1] != [] and _begins(world, name)]
    if begun:
        assert begun[0] in "".join(command.err.split()), command.err
        assert "dflashctl status" in command.err, command.err
    else:
        assert "Nothing was" in command.err, command.err


def _begins(world: World, name: str) -> bool:
    return bool(world.journals()[name][0]["fact"] == "begin")


def no_checkpoint_is_lost(world: World, was: Before) -> None:
    # Of what is on the ledger from before, the tests themselves have removed some.
    missing = (was.saved | (world.ledger() - was.ledger)) - world.saved()
    assert not missing, f"lost: {missing}"


def files_are_whole(world: World, was: Before) -> None:
    new = world.contents(world.version)
    for name, content in world.pushed().items():
        assert content in (was.pushed[name], new[name]), f"{name} is neither old nor new"


def one_trainer(world: World, at_least: int = 0) -> None:
    """Now, and at every moment before: a second one would have left its mark."""
    trainers = world.those("trainer")
    assert at_least <= len(trainers) <= 1, trainers
    assert not world.beside("two").exists(), "two trainers ran at once"


def status_is_true(world: World, was: Before, *, disk: bool) -> None:
    """What it says is what there is; processes that end may take some seconds to.

    ``disk``: records could not be written, so that what is on record may be less than all.
    """
    deadline = time.monotonic() + SETTLE_S
    while True:
        wrong = _untrue(world, was, disk=disk)
        if not wrong:
            return
        assert time.monotonic() < deadline, wrong
        time.sleep(0.5)


def _untrue(world: World, was: Before, *, disk: bool) -> str:
    command = world.run("status", "--json")
    processes = world.processes()
    told = f"{command.out}\n{command.err}"
    if not command.out:
        return f"no status: exit {command.poll()} {told}"
    (seen,) = json.loads(command.out)["targets"].values()
    if seen.get("error"):
        return f"an error for a status: {told}"
    problems = [
        *_of_processes(seen, processes),
        *_of_the_store(seen, world),
        *_of_the_code(seen, command),
        *([] if disk else _of_the_journal(seen, world, was)),
    ]
    return "; ".join([*problems, told, str(processes)]) if problems else ""


def _of_processes(seen: dict[str, Any], processes: list[Any]) -> list[str]:
    state, run = seen["state"], seen["run"] or {}
    trainers = [one for one in processes if one.kind == "trainer"]
    if not trainers:
        return [] if state in OVER else [f"{state}, and no trainer is there"]
    (trainer,) = trainers
    found = []
    if state not in LIVE:
        found.append(f"{state}, and a trainer runs")
    if run.get("id") != trainer.run_id:
        found.append(f"another run than {trainer.run_id}")
    if state == "RUNNING" and run.get("pid") != trainer.inner:
        found.append("another pid")
    supervised = any(one.kind == "supervise" for one in processes)
    if (state == "ORPHANED") == supervised:
        found.append(f"{state}, supervised: {supervised}")
    return found


def _of_the_store(seen: dict[str, Any], world: World) -> list[str]:
    steps, told = world.in_place(), seen["checkpoints"] or {}
    whole = world.in_place(complete=True)
    there = (len(steps), len(whole), whole[-1] if whole else None)
    if (told.get("count") or 0, told.get("complete") or 0, told.get("latest_step")) != there:
        return [f"checkpoints {steps}, complete {whole}"]
    return []


def _of_the_code(seen: dict[str, Any], command: Command) -> list[str]:
    expected = EXIT[seen["state"]]
    if seen["verdicts"] and seen["state"] in LIVE:
        expected = 5
    return [] if command.poll() == expected else [f"exit {command.poll()}, not {expected}"]


def _of_the_journal(seen: dict[str, Any], world: World, was: Before) -> list[str]:
    """Whether the newest transaction was cut; of two, the one that was begun last."""
    begun = {
        name: facts
        for name, facts in world.journals().items()
        if name not in was.journals and any(fact["fact"] == "begin" for fact in facts)
    }
    if not begun:
        return []
    newest = max(begun.values(), key=lambda facts: float(facts[0]["at"]))
    cut = newest[-1]["fact"] != "end"
    lives = seen["state"] in LIVE
    told = any(one["code"] == "cut_off" for one in seen["verdicts"])
    if cut and not lives and seen["state"] != "INTERRUPTED":
        return ["it was cut, and that is not told"]
    if not cut and (seen["state"] == "INTERRUPTED" or told):
        return ["it was not cut"]
    return ["a verdict about the cut is missing"] if cut and lives and not told else []


def it_ended_well(world: World, was: Before) -> None:
    """What was begun before the link died is over by now, and well."""
    for name, facts in world.journals().items():
        if name not in was.journals and facts and facts[0]["fact"] == "begin":
            assert facts[-1]["fact"] == "end", f"{name}: {facts}"
            assert facts[-1]["ok"], f"{name}: {facts}"


def the_same_again(case: Case, world: World) -> None:
    """Once more, without anybody's help, and all is as it was meant to be."""
    world.ok(*WORDS[case.verb])
    if case.verb == "stop":
        one_trainer(world)
        assert not world.those("trainer")
        return
    one_trainer(world, at_least=1)
    if case.verb != "start":
        assert world.pushed() == world.contents(world.version)
