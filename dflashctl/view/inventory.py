"""The inventory as a table: each target, and the way to it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dflashctl.inventory.model import InContainer, Local, SshAddress
from dflashctl.plan.words import counted
from dflashctl.view.console import ACCENT
from dflashctl.view.sanitize import one_line

if TYPE_CHECKING:
    from rich.text import Text

    from dflashctl.inventory.model import Inventory, Target
    from dflashctl.view.console import Screen


def way(target: Target) -> str:
    """How a target is reached: ``pct 200 on kpro6, ssh root@192.0.2.6``."""
    match target.route:
        case Local():
            return f"local{_sudo(target.route)}"
        case SshAddress() as address:
            return _ssh(address)
        case InContainer() as inside:
            host = (
                _sudo(inside.host) if isinstance(inside.host, Local) else f", {_ssh(inside.host)}"
            )
            return f"pct {inside.vmid} on {inside.host_name}{host}"


def _ssh(address: SshAddress) -> str:
    user = f"{address.user}@" if address.user else ""
    port = f":{address.port}" if address.port else ""
    return f"ssh {user}{address.address}{port}{_via(address.jump)}{_sudo(address)}"


def _sudo(route: SshAddress | Local) -> str:
    return ", sudo" if route.become else ""


def _via(jump: SshAddress | str | None) -> str:
    match jump:
        case None:
            return ""
        case "none":
            return ", straight"
        case str():
            return f", via {jump}"
        case SshAddress():
            return f", via {_ssh(replace(jump, become=None)).removeprefix('ssh ')}"


def show_inventory(screen: Screen, inventory: Inventory) -> None:
    """All targets, the default one marked with a star, in the file's order."""
    longest = max((len(target.name) for target in inventory.targets), default=0)
    if longest + _BESIDE_THE_NAME <= screen.out.width:
        _table(screen, inventory)
    else:
        _blocks(screen, inventory)
    if inventory.default_target is not None:
        screen.say("* is taken when no target is named", style="dim")
    for name, why in inventory.left_out.items():
        screen.say(f"left out: {one_line(name)}, {one_line(why)}", style="dim")


# What the other columns need to be read with ease.
_BESIDE_THE_NAME = 44


def _table(screen: Screen, inventory: Inventory) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("TARGET", no_wrap=True)
    table.add_column("WAY", overflow="fold")
    table.add_column("GPUS", no_wrap=True, justify="right")
    table.add_column("GROUPS", overflow="fold")
    for target in inventory.targets:
        gpus = "-" if target.gpus is None else str(target.gpus)
        groups = Text(_groups(target, inventory) or "-")
        table.add_row(_name(target, inventory), Text(one_line(way(target))), gpus, groups)
    screen.show(table)


def _blocks(screen: Screen, inventory: Inventory) -> None:
    """Where the names are too long for a table: each stays whole, to be copied."""
    from rich.text import Text

    for target in inventory.targets:
        screen.flow(screen.out, Text(), _name(target, inventory))
        facts = [way(target)]
        if target.gpus is not None:
            facts.append(counted(target.gpus, "GPU"))
        if groups := _groups(target, inventory):
            facts.append(f"in {groups}")
        for fact in facts:
            screen.flow(screen.out, Text("  "), Text(one_line(fact)))


def _name(target: Target, inventory: Inventory) -> Text:
    from rich.text import Text

    name = Text(one_line(target.name), style=f"bold {ACCENT}")
    if target.name == inventory.default_target:
        name.append(" *", style="green")
    return name


def _groups(target: Target, inventory: Inventory) -> str:
    names = [name for name, members in inventory.groups.items() if target.name in members]
    return one_line(", ".join(names))
