"""inventory show: what the inventory says."""

from __future__ import annotations

import typer

from dflashctl.cli.call import begin
from dflashctl.cli.options import JsonOption


def show(ctx: typer.Context, as_json: JsonOption = False) -> int:
    """List the targets and the ways to them; no machine is contacted."""
    from dflashctl.view import json
    from dflashctl.view.inventory import show_inventory

    call = begin(ctx, "inventory show", as_json)
    inventory = call.inventory
    if as_json:
        targets = {one.name: json.target_object(one, inventory) for one in inventory.targets}
        call.screen.write(json.envelope("inventory show", 0, targets))
    else:
        show_inventory(call.screen, inventory)
    return 0
