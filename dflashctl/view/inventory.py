"""The inventory as a table: each target, and the way to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dflashctl.inventory.model import InContainer, Local, SshAddress
from dflashctl.view.console import ACCENT
from dflashctl.view.sanitize import one_line

if TYPE_CHECKING:
    from dflashctl.inventory.model import Inventory, Target
    from dflashctl.view.console import Screen


def way(target: Target) -> str:
    """How a target is reached: ``pct 200 on kpro6, ssh root@192.0.2.6``."""
    match target.route:
        case Local():
            return "local"
        case SshAddress() as address:
            return _ssh(address)
        case InContainer() as inside:
            host = "" if isinstance(inside.host, Local) else f", {_ssh(inside.host)}"
            return f"pct {inside.vmid} on {inside.host_name}{host}"


def _ssh(address: SshAddress) -> str:
    user = f"{address.user}@" if address.user else ""
    port = f":{address.port}" if address.port else ""
    return f"ssh {user}{address.address}{port}{_via(address.jump)}"


def _via(jump: SshAddress | str | None) -> str:
    match jump:
        case None:
            return ""
        case "none":
            return ", straight"
        case str():
            return f", via {jump}"
        case SshAddress():
            return f", via {_ssh(jump).removeprefix('ssh ')}"


def show_inventory(screen: Screen, inventory: Inventory) -> None:
    """All targets, the default one marked with a star, in the file's order."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("TARGET", no_wrap=True)
    table.add_column("WAY", overflow="fold")
    table.add_column("GPUS", no_wrap=True, justify="right")
    table.add_column("GROUPS", overflow="fold")
    for target in inventory.targets:
        groups = [name for name, members in inventory.groups.items() if target.name in members]
        name = Text(one_line(target.name), style=f"bold {ACCENT}")
        if target.name == inventory.default_target:
            name.append(" *", style="green")
        table.add_row(
            name,
            Text(one_line(way(target))),
            "-" if target.gpus is None else str(target.gpus),
            Text(one_line(", ".join(groups)) or "-"),
        )
    screen.show(table)
    if inventory.default_target is not None:
        screen.say("* is taken when no target is named", style="dim")
