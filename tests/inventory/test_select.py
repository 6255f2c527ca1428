from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dflashctl.errors import AmbiguousTarget, UnknownTarget
from dflashctl.inventory.model import Inventory, Local, Target
from dflashctl.inventory.select import select

NAMES = ("kpro6", "kpro6/dflash", "kpro6/eval", "kpro7", "kpro7/eval", "kpro7/kpro6")
INVENTORY = Inventory(
    path=Path("hosts.yml"),
    targets=tuple(Target(name=name, route=Local()) for name in NAMES),
    groups={"training": ("kpro7/eval", "kpro6/dflash")},
    default_target="kpro6/dflash",
)


def chosen(*names: str, inventory: Inventory = INVENTORY, everything: bool = False) -> list[str]:
    return [target.name for target in select(inventory, names, everything=everything)]


def test_a_host_is_chosen_by_its_name() -> None:
    assert chosen("kpro7") == ["kpro7"]


def test_a_container_is_chosen_by_its_own_name_where_no_other_has_it() -> None:
    assert chosen("dflash") == ["kpro6/dflash"]
    assert chosen("kpro6/dflash") == ["kpro6/dflash"]


@pytest.mark.provokes("ambiguous_target")
def test_a_name_that_several_hosts_have_is_ambiguous() -> None:
    with pytest.raises(AmbiguousTarget) as caught:
        chosen("eval")
    assert caught.value.name == "eval"
    assert caught.value.candidates == ("kpro6/eval", "kpro7/eval")


def test_a_full_name_wins_over_a_container_that_is_called_like_a_host() -> None:
    assert chosen("kpro6") == ["kpro6"]
    assert chosen("kpro7/kpro6") == ["kpro7/kpro6"]


def test_a_group_stands_for_its_targets() -> None:
    assert chosen("training") == ["kpro6/dflash", "kpro7/eval"]


def test_targets_come_once_each_in_the_files_order() -> None:
    assert chosen("kpro7", "training", "dflash", "kpro6") == [
        "kpro6",
        "kpro6/dflash",
        "kpro7",
        "kpro7/eval",
    ]


def test_no_name_means_the_default_target() -> None:
    assert chosen() == ["kpro6/dflash"]


def test_no_name_and_no_default_means_the_only_target() -> None:
    only = replace(INVENTORY, targets=INVENTORY.targets[:1], default_target=None)
    assert chosen(inventory=only) == ["kpro6"]


def test_no_name_no_default_and_several_targets_is_ambiguous() -> None:
    with pytest.raises(AmbiguousTarget) as caught:
        chosen(inventory=replace(INVENTORY, default_target=None))
    assert caught.value.name == ""
    assert caught.value.candidates == NAMES


def test_everything_means_every_target() -> None:
    assert chosen(everything=True) == list(NAMES)


@pytest.mark.parametrize(
    ("name", "close"),
    [("dflsh", "dflash"), ("kpro6/dflsh", "kpro6/dflash"), ("trainin", "training")],
)
def test_an_unknown_name_comes_with_near_ones(name: str, close: str) -> None:
    with pytest.raises(UnknownTarget) as caught:
        chosen(name)
    assert caught.value.name == name
    assert caught.value.close[0] == close
    assert caught.value.known == (*NAMES, "training")


@pytest.mark.parametrize("name", ["", "/", "kpro6/", "/dflash", "zebra"])
def test_a_name_that_is_near_to_nothing_is_unknown(name: str) -> None:
    with pytest.raises(UnknownTarget):
        chosen(name)
