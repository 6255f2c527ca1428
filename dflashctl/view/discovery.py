"""What ``inventory discover`` found: a table for people, lines of YAML to paste."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dflashctl.inventory.write import hosts_block
from dflashctl.plan.words import counted
from dflashctl.view.console import ACCENT
from dflashctl.view.sanitize import one_line

if TYPE_CHECKING:
    from pathlib import Path

    from dflashctl.inventory.found import Found
    from dflashctl.view.console import Screen


def found_objects(found: Found) -> dict[str, Any]:
    """The targets of ``inventory discover --json``: the host, then its containers."""
    new = {one.vmid for one in found.new}
    host = {
        "vmid": None,
        "state": None,
        "gpus": found.seen.gpus,
        "declared_gpus": None,
        "listed": found.listed,
        "proxmox": found.seen.pct,
        "error": None,
    }
    return {found.name: host} | {
        f"{found.name}/{one.name}": {
            "vmid": one.vmid,
            "state": one.state,
            "gpus": one.gpus,
            "declared_gpus": found.declared.get(one.vmid),
            "listed": one.vmid not in new,
            "proxmox": None,
            "error": None,
        }
        for one in found.seen.containers
    }


def say_found(screen: Screen, found: Found) -> None:
    """What the host is and has, on standard error."""
    from rich.table import Table
    from rich.text import Text

    seen = found.seen
    gpus = f"{counted(seen.gpus, 'GPU')}" if seen.gpus else "no GPU"
    called = found.name if seen.hostname == found.name else f"{found.name} ({seen.hostname})"
    if not seen.pct:
        screen.say(f"{called} is no Proxmox host: it has no pct. It has {gpus}.")
        screen.say("It is a target by itself.", style="dim")
        return
    screen.say(
        f"{called} is a Proxmox host with {gpus} and {counted(len(seen.containers), 'container')}."
    )
    if not seen.containers:
        return
    new = {one.vmid for one in found.new}
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    headings = ("TARGET", "VMID", "STATE", "GPUS", *(("INVENTORY",) if found.listed else ()))
    for heading in headings:
        table.add_column(heading, overflow="fold", justify="right" if heading == "GPUS" else "left")
    for one in seen.containers:
        declared = found.declared.get(one.vmid)
        if one.vmid in new:
            listed = Text("not yet", style="yellow")
        elif declared is not None and declared != one.gpus:
            listed = Text(f"declares {counted(declared, 'GPU')}", style="yellow")
        else:
            listed = Text("yes")
        table.add_row(
            Text(one_line(f"{found.name}/{one.name}"), style=f"bold {ACCENT}"),
            str(one.vmid),
            one.state,
            str(one.gpus),
            *((listed,) if found.listed else ()),
        )
    screen.note(table)


def show_yaml(screen: Screen, found: Found) -> None:
    """The host as lines of an inventory, on standard output."""
    screen.write(hosts_block(found.name, found.body))
    screen.say("Paste it into the inventory, or add what is new with --write.", style="dim")


def show_added(screen: Screen, found: Found, path: Path) -> None:
    """What was added to the inventory, as the answer."""
    if not found.listed:
        more = [found.name]
    elif not found.new:
        screen.write(f"{path} has it all already\n")
        return
    else:
        more = []
    more += [f"{found.name}/{one.name}" for one in found.new]
    screen.write("".join(f"added {one_line(name)}\n" for name in more))
    screen.say(f"to {path}; what was there is as it was", style="dim")
