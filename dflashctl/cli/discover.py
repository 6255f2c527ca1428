"""inventory discover: which containers a Proxmox host has, as lines of an inventory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dflashctl.cli.call import begin
from dflashctl.cli.host import (
    HostArgument,
    IdentityOption,
    KnownHostsOption,
    host_named,
    inventory_here,
)
from dflashctl.cli.options import JsonOption

if TYPE_CHECKING:
    from pathlib import Path

    from dflashctl.cli.call import Call
    from dflashctl.cli.host import Host
    from dflashctl.cli.reach import Reach
    from dflashctl.inventory.found import Found
    from dflashctl.inventory.model import Inventory


def discover(
    ctx: typer.Context,
    host: HostArgument,
    identity_file: IdentityOption = None,
    known_hosts_file: KnownHostsOption = None,
    write: Annotated[bool, typer.Option("--write", help="Add what is new to the inventory.")] = (
        False
    ),
    as_json: JsonOption = False,
) -> int:
    """Print a Proxmox host's containers for the inventory.

    With --write they are added to it; what it says already stays as it is.
    """
    from dflashctl.view import json
    from dflashctl.view.discovery import found_objects, say_found, show_added, show_yaml

    call = begin(ctx, "inventory discover", as_json)
    named = host_named(call, host, identity_file, known_hosts_file)
    inventory = inventory_here(call)
    if write and inventory is not None:
        refuse_foreign(inventory)
    found = ask(call, named, inventory)
    say_found(call.screen, found)
    path = add(call, found) if write else None
    if as_json:
        call.screen.write(json.envelope("inventory discover", 0, found_objects(found)))
    elif path is not None:
        show_added(call.screen, found, path)
    else:
        show_yaml(call.screen, found)
    return 0


def ask(call: Call, named: Host, inventory: Inventory | None) -> Found:
    """Ask a host for its containers, and set its answer beside an inventory.

    Raises:
        Unreachable, HostKeyProblem, NotLetIn: it was not reached.
        NotRoot, PctFailed: it was, and cannot tell its containers.
    """
    from dflashctl.document.read import mapping
    from dflashctl.errors import HostKeyUnknown, NotRoot, PctFailed
    from dflashctl.inventory.discover import fitting_name
    from dflashctl.inventory.found import beside
    from dflashctl.link.proxmox import ask_host

    target = named.target
    with call.reach() as reach:
        try:
            with call.screen.waiting(f"asking {named.place} for its containers"):
                seen = ask_host(reach.transport(target), target.name, named.place)
        except HostKeyUnknown as unknown:
            unknown.options = named.trust_options
            raise
        listed = _listed(reach, named, inventory)
    if seen.failed is not None and seen.uid != 0:
        uid, said = f"uid {seen.uid}", seen.failed
        raise NotRoot(target=target.name, user=uid, address=target.name, reason=said)
    if seen.failed is not None:
        raise PctFailed(target=target.name, reason=seen.failed)
    taken = {one.name for one in inventory.targets} if inventory else set()
    chosen = listed or fitting_name(named.short_name or seen.hostname, "host", taken)
    known = mapping(inventory.said["hosts"])[listed] if inventory and listed else None
    return beside(seen, named.said, chosen, named.route, known)


def refuse_foreign(inventory: Inventory) -> None:
    """Raises CannotWrite: it is not in our format, or no file at all."""
    from dflashctl.errors import CannotWrite

    if inventory.foreign:
        reason = "it is an inventory of Ansible's, which is only read; add the lines by hand"
        raise CannotWrite(path=inventory.path, reason=reason)


def add(call: Call, found: Found) -> Path:
    """Add what is new to the inventory file, which is replaced at once; its path.

    Raises:
        NoFile: there is none.
        BadFile: it is written so that nothing can be added by itself.
        CannotWrite: it cannot be replaced.
    """
    from dflashctl.document.read import read_text
    from dflashctl.inventory.write import add_containers, add_host, replace_file

    path = call.inventory.path
    before = read_text(path, "inventory")
    if not found.listed:
        after = add_host(path, before, found.name, found.body)
    elif found.additions:
        after = add_containers(path, before, found.name, found.additions)
    else:
        return path
    replace_file(path, after)
    return path


def _listed(reach: Reach, named: Host, inventory: Inventory | None) -> str | None:
    """The inventory's name for the host, which may have been named by its address."""
    from dflashctl.inventory.model import SshAddress

    if inventory is None or named.listed is not None:
        return named.listed if inventory else None
    if not isinstance(named.route, SshAddress):
        return None
    sought = reach.hop(named.route)
    for target in inventory.targets:
        if isinstance(target.route, SshAddress) and "/" not in target.name:
            hop = reach.hop(target.route)
            if (hop.host, hop.port) == (sought.host, sought.port):
                return target.name
    return None
