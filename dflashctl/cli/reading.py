"""Verbs that only read: from all targets at once, and each told in the inventory's order."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from dflashctl.cli.reach import Agents
from dflashctl.cli.verb import of_no_target
from dflashctl.errors import DflashError, worst
from dflashctl.link.fanout import each
from dflashctl.view import json
from dflashctl.view.outcome import show_error, show_traceback

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from dflashctl.cli.call import Call
    from dflashctl.plan.model import Desired

T = TypeVar("T")


def read_each(
    call: Call,
    wanted: tuple[Desired, ...],
    read: Callable[[Agents, Desired], T],
    shape: Callable[[Desired, T], dict[str, Any]],
    show: Callable[[Desired, T], None],
) -> int:
    """Read, and tell; a target that fails keeps no other one from being told.

    Args:
        call: the command.
        wanted: the targets, and the job on them.
        read: from one of them, in a thread of its own.
        shape: what was read as JSON has it.
        show: what was read as the answer. Both may find that it is an error.

    Returns:
        The gravest of the targets' exit codes.
    """
    with (
        call.reach() as reach,
        Agents(reach) as agents,
        call.waiting_for("reading from", wanted),
    ):
        found = each(wanted, lambda one: read(agents, one))
    shapes: dict[str, Any] = {}
    codes = [0]
    for number, (one, what) in enumerate(zip(wanted, found, strict=True)):
        name = one.target.name
        try:
            if isinstance(what, DflashError):
                raise what
            if call.json:
                shapes[name] = shape(one, what)
                continue
            if len(wanted) > 1:
                call.screen.heading(name, first=not number)
            show(one, what)
        except DflashError as error:
            if of_no_target(error):
                raise
            if call.debug:
                show_traceback(call.screen, error)
            again = call.same_again(name if len(wanted) > 1 else "")
            show_error(call.screen, error, again=again)
            shapes[name] = {"error": json.error_object(error)}
            codes.append(error.exit_code)
    code = worst(codes)
    if call.json:
        call.screen.write(json.envelope(call.command, code, shapes, again=call.screen.again()))
    return code
