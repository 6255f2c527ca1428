"""Looking again and again."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from dflashctl.cli import watch
from dflashctl.errors import ContainerStopped, HostKeyChanged, LinkLost
from tests.cli.world import World
from tests.plan.scenes import BUSY, METRICS

SEEN = replace(BUSY, metrics=METRICS)
GONE = LinkLost(target="here", address="here", reason="the network is down")


@pytest.fixture
def rests(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Ends a watching after so many drawings, as Ctrl-C would; looks do not rest."""
    monkeypatch.setattr(watch, "EVERY_S", 0.01)
    monkeypatch.setattr(watch, "RETRY_S", 0.2)

    def after(count: int) -> None:
        left = [count]

        def rest(_: float) -> None:
            left[0] -= 1
            threading.Event().wait(0.05)
            if left[0] <= 0:
                raise KeyboardInterrupt

        monkeypatch.setattr(watch, "rest", rest)

    return after


def objects(world: World) -> list[dict[str, Any]]:
    result = world.run("status", "--watch", "--json")
    assert result.code == 130
    return [json.loads(line)["targets"]["here"] for line in result.out.splitlines()]


def test_every_look_is_an_object_on_a_line(world: World, rests: Callable[[int], None]) -> None:
    rests(3)
    world.answers = [SEEN]
    found = objects(world)
    assert [one["state"] for one in found] == ["RUNNING"] * 3
    assert found[0]["metrics"]["step"] == 254
    assert found[0]["last_known"] is None


def test_a_lost_link_is_told_with_the_last_known_state_and_comes_back(
    world: World, rests: Callable[[int], None]
) -> None:
    rests(12)
    world.answers = [SEEN, SEEN, SEEN, GONE, SEEN]
    found = objects(world)
    states = [one["state"] for one in found]
    assert states[-1] == "RUNNING"
    lost = found[states.index("UNREACHABLE")]
    assert lost["last_known"]["state"] == "RUNNING"
    assert lost["last_known"]["metrics"]["step"] == 254
    assert lost["last_known"]["age_s"] < 5
    assert lost["error"]["code"] == "link_lost"


def test_a_link_that_is_only_silent_counts_as_lost_in_time(
    world: World, rests: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    rests(8)
    monkeypatch.setattr(watch, "LATE_S", 0.1)
    world.answers = [SEEN, SEEN]
    looks = iter(range(100))
    answer = world.answers

    class Silent(list):
        def __len__(self) -> int:
            if next(looks) > 2:
                threading.Event().wait(60)
            return 1

    world.answers = Silent(answer)
    found = objects(world)
    assert found[-1]["state"] == "UNREACHABLE"
    assert "no answer for" in found[-1]["error"]["message"]


def test_without_a_terminal_it_is_one_block_after_another(
    world: World, rests: Callable[[int], None]
) -> None:
    rests(4)
    world.answers = [SEEN, SEEN, GONE]
    result = world.run("status", "--watch")
    assert result.code == 130
    assert result.out.count("254 of 2,400") == 4
    assert "UNREACHABLE, RUNNING" in result.out


def test_what_no_waiting_heals_ends_the_watching(
    world: World, rests: Callable[[int], None]
) -> None:
    rests(100)
    world.answers = [
        SEEN,
        HostKeyChanged(
            target="here", host="h", port=22, key_type="ED25519", fingerprint="SHA256:x",
            expected="SHA256:y", known_hosts="known_hosts", line=1,
        ),
    ]  # fmt: skip
    assert world.run("status", "--watch").code == 76


def test_one_of_several_that_no_waiting_heals_keeps_the_others_from_nothing(
    world: World, rests: Callable[[int], None]
) -> None:
    rests(3)
    world.answers = [SEEN]
    world.unreachable["kpro6/eval"] = HostKeyChanged(
        target="kpro6/eval", host="h", port=22, key_type="ED25519", fingerprint="SHA256:x",
        expected="SHA256:y", known_hosts="known_hosts", line=1,
    )  # fmt: skip
    result = world.run("status", "--watch", "-t", "training")
    assert result.code == 130
    assert result.out.count("2 targets: 1 running, 1 unknown") == 3
    assert result.out.count("host key changed") == 3
    value = json.loads(
        world.run("status", "--watch", "-t", "training", "--json").out.split("\n")[0]
    )
    assert value["targets"]["kpro6/eval"]["error"]["code"] == "host_key_changed"


# --- the way to a host that several targets are on -----------------------------------------


class Counted:
    """A way that remembers whether it was closed."""

    made: ClassVar[list[Counted]] = []

    def __init__(self) -> None:
        self.closed = 0
        self.made.append(self)

    def __enter__(self) -> Counted:
        return self

    def __exit__(self, *_: object) -> None:
        self.closed += 1


@pytest.fixture
def shared() -> Iterator[watch.SharedWay]:
    Counted.made.clear()
    yield watch.SharedWay(Counted)  # type: ignore[arg-type] # as much of a Reach as is used
    assert [one.closed for one in Counted.made] == [1] * len(Counted.made)


def test_all_targets_of_a_host_share_a_way_and_the_last_closes_it(shared: watch.SharedWay) -> None:
    with shared.use() as first:
        with shared.use() as second:
            assert second is first
        assert not Counted.made[0].closed
    with shared.use() as later:
        assert later is not first


def test_a_way_that_broke_is_replaced_while_others_still_find_out(shared: watch.SharedWay) -> None:
    with shared.use() as old:
        with pytest.raises(LinkLost), shared.use():
            raise GONE
        assert not Counted.made[0].closed
        with shared.use() as new:
            assert new is not old


def test_what_a_target_lacks_breaks_no_way(shared: watch.SharedWay) -> None:
    stopped = ContainerStopped(target="c", vmid=200, host="h")
    with shared.use() as way:
        with pytest.raises(ContainerStopped), shared.use():
            raise stopped
        with shared.use() as again:
            assert again is way


def test_sixteen_containers_of_a_host_are_watched_over_one_way(
    world: World, rests: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = "".join(f"      c{n}: {{vmid: {n}}}\n" for n in range(100, 116))
    hosts = world.cwd / "inventory" / "hosts.yml"
    hosts.write_text(f"version: 1\nhosts:\n  h:\n    address: x\n    containers:\n{inside}")
    rests(3)
    world.answers = [SEEN]
    made: list[object] = []
    way = world._way

    def counted(still: object) -> Any:
        made.append(still)
        return way(still)

    monkeypatch.setattr(world, "_way", counted)
    result = world.run("status", "--watch", "--all")
    assert result.out.count("17 targets: 17 running") == 3
    assert len(made) == 1
