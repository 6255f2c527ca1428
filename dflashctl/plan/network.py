"""At which addresses the targets of one run meet, from what each of them has."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING

from dflashctl.errors import Refusal

if TYPE_CHECKING:
    from dflashctl.agent.fabric import Interface

AUTO = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """A target: its addresses, and the one that the inventory names, if any."""

    name: str
    interfaces: tuple[Interface, ...]
    fabric_address: str | None = None


def meeting(spots: tuple[Spot, ...], interface: str) -> tuple[Interface | Refusal, ...]:
    """Each target's address for the others, or why it has none.

    What the inventory and the playbook name counts. What they leave open is on the network
    that all targets share, each with an address of its own there: the quickest, then that of
    the lowest number. (A bridge that every machine has for itself, as Docker's, has the same
    address everywhere.)
    """
    open_to = tuple(_candidates(spot, interface) for spot in spots)
    if any(isinstance(found, Refusal) for found in open_to):
        return tuple(found if isinstance(found, Refusal) else found[0] for found in open_to)
    choices = tuple(found for found in open_to if not isinstance(found, Refusal))
    if all(len(found) == 1 for found in choices) and _named(spots, interface):
        return tuple(found[0] for found in choices)
    shared = [found for net in _networks(choices) if (found := _on(net, choices)) is not None]
    if not shared:
        return _nowhere(spots, choices)
    return min(shared, key=lambda found: (-_speed(found), ip_address(found[0].address)))


def _named(spots: tuple[Spot, ...], interface: str) -> bool:
    """Whether people said for every target where it is: then networks may differ."""
    return interface != AUTO or all(spot.fabric_address is not None for spot in spots)


def _candidates(spot: Spot, interface: str) -> tuple[Interface, ...] | Refusal:
    named = spot.fabric_address
    there = tuple(
        one
        for one in spot.interfaces
        # IPv6 is never guessed.
        if (one.address == named if named is not None else ":" not in one.address)
        and (interface in (AUTO, one.name) or named is not None)
    )
    if there:
        return there
    if named is not None:
        return Refusal(
            code="no_such_address",
            message=f"{named} is no address of {spot.name}, which has {_having(spot)}",
            remedy="fix its fabric_address in the inventory",
        )
    on = "" if interface == AUTO else f" on {interface}"
    return Refusal(
        code="no_network",
        message=f"{spot.name} has no IPv4 address{on} at which others could reach it; it has "
        f"{_having(spot)}",
        remedy="say fabric_address of each target in the inventory, or distributed.interface in "
        "the playbook",
    )


def _having(spot: Spot) -> str:
    return ", ".join(f"{one.name} {one.address}/{one.prefix}" for one in spot.interfaces) or "none"


def _networks(choices: tuple[tuple[Interface, ...], ...]) -> list[str]:
    return list(dict.fromkeys(_network(one) for found in choices for one in found))


def _network(one: Interface) -> str:
    return str(ip_network(f"{one.address}/{one.prefix}", strict=False))


def _on(network: str, choices: tuple[tuple[Interface, ...], ...]) -> tuple[Interface, ...] | None:
    """Each target's address on this network, if all have one and no two the same."""
    found = [next((one for one in each if _network(one) == network), None) for each in choices]
    whole = tuple(one for one in found if one is not None)
    apart = len({one.address for one in whole}) == len(choices)
    return whole if len(whole) == len(choices) and apart else None


def _speed(found: tuple[Interface, ...]) -> int:
    return min(one.mbit_per_s or 0 for one in found)


def _nowhere(
    spots: tuple[Spot, ...], choices: tuple[tuple[Interface, ...], ...]
) -> tuple[Interface | Refusal, ...]:
    have = "; ".join(f"{spot.name} has {_having(spot)}" for spot in spots)
    refusal = Refusal(
        code="no_shared_network",
        message=f"the targets of the run share no network: {have}",
        remedy="say fabric_address of each target in the inventory, or distributed.interface in "
        "the playbook",
    )
    return refusal, *(found[0] for found in choices[1:])
