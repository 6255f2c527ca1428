"""inventory show: what the inventory says."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from dflashctl.cli.call import begin
from dflashctl.cli.options import JsonOption


def show(
    ctx: typer.Context,
    form: Annotated[
        Literal["table", "ansible"],
        typer.Option("--format", help="ansible: as an inventory of Ansible's, in YAML."),
    ] = "table",
    as_json: JsonOption = False,
) -> int:
    """List the targets and the ways to them; no machine is contacted."""
    from dflashctl.view import json
    from dflashctl.view.inventory import show_inventory

    call = begin(ctx, "inventory show", as_json)
    if as_json and form != "table":
        raise typer.BadParameter(f"--json and --format {form} contradict each other: one of them")
    inventory = call.inventory
    if form == "ansible":
        from dflashctl.inventory.export import as_ansible

        call.screen.write(as_ansible(inventory))
    elif as_json:
        targets = {one.name: json.target_object(one, inventory) for one in inventory.targets}
        call.screen.write(json.envelope("inventory show", 0, targets, left_out=inventory.left_out))
    else:
        show_inventory(call.screen, inventory)
    return 0
