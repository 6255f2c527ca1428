"""Options that several verbs share, as typer reads them from a signature."""

from __future__ import annotations

from typing import Annotated

import typer

# Of verbs that take one: a list, so that a group of one works, and several get a word of their own.
TargetOption = Annotated[
    list[str] | None,
    typer.Option("-t", "--target", metavar="NAME", help="The target, if not the default one."),
]
TargetsOption = Annotated[
    list[str] | None,
    typer.Option("-t", "--target", metavar="NAME", help="Target or group; may be repeated."),
]
AllOption = Annotated[bool, typer.Option("--all", help="All targets of the inventory.")]
PlaybookOption = Annotated[
    str | None,
    typer.Option("-p", "--playbook", metavar="PATH", help="The playbook to use."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Answer with one JSON object.")]


def _seconds(text: str) -> float:
    """``90s``, ``15m``, ``2h`` or ``7d``, as in a playbook."""
    from dflashctl.playbook.values import duration

    try:
        return duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


SinceOption = Annotated[
    float | None,
    typer.Option(
        "--since", metavar="DURATION", parser=_seconds, help="What came in this time: 90s, 2h, 7d."
    ),
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Show the plan and stop; exit 10 if there is one.")
]
NoWaitOption = Annotated[
    bool, typer.Option("--no-wait", help="Do not wait until the new run has proved itself.")
]
DiffOption = Annotated[
    bool, typer.Option("--diff", help="Show the changes of files whole, however long they are.")
]
YesOption = Annotated[bool, typer.Option("--yes", help="Do what cannot be undone, unasked.")]
