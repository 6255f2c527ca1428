"""checkpoints: what there is of them; clear, archive, restore, prune, verify, pull."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dflashctl.cli import memory
from dflashctl.cli.call import begin
from dflashctl.cli.options import (
    DryRunOption,
    JsonOption,
    PlaybookOption,
    TargetOption,
    YesOption,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from dflashctl.agent.seen import Observed
    from dflashctl.cli.call import Call
    from dflashctl.plan.model import Desired, Plan

ArchiveArgument = Annotated[str, typer.Argument(metavar="ARCHIVE", help="Its name.")]


def show_list(
    ctx: typer.Context,
    target: TargetOption = None,
    playbook: PlaybookOption = None,
    as_json: JsonOption = False,
) -> int:
    """List the checkpoints, the archives, and what was cleared."""
    from dflashctl.plan.checkpoints import folder_of
    from dflashctl.plan.look import look_at_store
    from dflashctl.view import checkpoints, json

    call = begin(ctx, "checkpoints list", as_json)
    desired = call.desired(target, playbook)
    look = look_at_store(desired)
    with call.at(desired.target, look) as agent:
        seen = call.observe(agent, desired, look)
    folder_of(desired, seen, call.command)
    remember(call, desired, seen)
    if as_json:
        shape = {desired.target.name: checkpoints.store_object(seen)}
        call.screen.write(json.envelope(call.command, 0, shape))
    else:
        checkpoints.show_store(call.screen, call.same_again(desired.target.name), seen)
    return 0


def clear(  # noqa: PLR0913, PLR0917 - one parameter an option
    ctx: typer.Context,
    purge: Annotated[
        bool, typer.Option("--purge", help="Delete them for good; this cannot be undone.")
    ] = False,
    target: TargetOption = None,
    playbook: PlaybookOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> int:
    """Move all checkpoints aside; `restore --last-cleared` brings them back."""
    from dflashctl.plan.checkpoints import plan_clear

    call = begin(ctx, "checkpoints clear", as_json)
    desired = call.desired(target, playbook)
    return _perform(
        call, desired, lambda seen: plan_clear(desired, seen, purge=purge), _Way(dry_run, yes)
    )


def archive(  # noqa: PLR0913, PLR0917 - one parameter an option
    ctx: typer.Context,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="The archive's name; else the time is one."),
    ] = None,
    remove: Annotated[
        bool,
        typer.Option("--remove", help="Remove the originals once the archive is verified."),
    ] = False,
    target: TargetOption = None,
    playbook: PlaybookOption = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> int:
    """Bring the complete checkpoints into an archive, with the SHA-256 of each file."""
    from dflashctl.plan.checkpoints import plan_archive

    call = begin(ctx, "checkpoints archive", as_json)
    desired = call.desired(target, playbook)
    called = archive_name(name)

    def plan(seen: Observed) -> Plan:
        return plan_archive(desired, seen, called, then_remove=remove)

    return _perform(call, desired, plan, _Way(dry_run, False))


def restore(  # noqa: PLR0913, PLR0917 - one parameter an option
    ctx: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="ARCHIVE", help="The archive to bring back.")
    ] = None,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="DIR", help="Another folder on the target, empty or new."),
    ] = None,
    last_cleared: Annotated[
        bool, typer.Option("--last-cleared", help="Undo the last clearing instead.")
    ] = False,
    target: TargetOption = None,
    playbook: PlaybookOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> int:
    """Bring an archive's checkpoints back, or what was cleared last.

    Everything is verified before anything is replaced; what is there is moved aside.
    """
    from dflashctl.document.paths import absolute
    from dflashctl.plan.checkpoints import plan_restore, plan_restore_cleared

    if (name is None) != last_cleared or (last_cleared and to is not None):
        raise typer.BadParameter("name an archive, or say --last-cleared.", ctx=ctx)
    try:
        dest = None if to is None else absolute(to)
    except ValueError as error:
        raise typer.BadParameter(f"--to {error}", ctx=ctx) from error
    call = begin(ctx, "checkpoints restore", as_json)
    desired = call.desired(target, playbook)

    def plan(seen: Observed) -> Plan:
        if name is None:
            return plan_restore_cleared(desired, seen)
        return plan_restore(desired, seen, name, dest)

    return _perform(call, desired, plan, _Way(dry_run, yes))


def prune(  # noqa: PLR0913, PLR0917 - one parameter an option
    ctx: typer.Context,
    keep_last: Annotated[
        int | None, typer.Option("--keep-last", metavar="N", min=1, help="Keep the last N.")
    ] = None,
    keep_every: Annotated[
        int | None,
        typer.Option("--keep-every", metavar="M", min=1, help="Keep every M steps."),
    ] = None,
    keep_best: Annotated[
        str | None, typer.Option("--keep-best", metavar="METRIC", help="Keep the one best by it.")
    ] = None,
    best_is: Annotated[
        Literal["min", "max"], typer.Option("--best-is", help="Which value is the best.")
    ] = "min",
    trash: Annotated[
        bool, typer.Option("--trash", help="Delete also all that was cleared before.")
    ] = False,
    target: TargetOption = None,
    playbook: PlaybookOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> int:
    """Delete the checkpoints that no rule keeps, for good.

    Without a rule those of the playbook (checkpoints.keep) are used. The newest complete
    checkpoint stays always, and so does the one that a live run was resumed from.
    """
    from dflashctl.plan.checkpoints import plan_prune
    from dflashctl.plan.retention import Rules, rules_of

    call = begin(ctx, "checkpoints prune", as_json)
    desired = call.desired(target, playbook)
    rules = Rules(last=keep_last, every=keep_every, best=keep_best, best_is=best_is)
    spec = desired.playbook.checkpoints
    if not rules and not trash and spec is not None:
        rules = rules_of(spec.keep)

    def plan(seen: Observed) -> Plan:
        return plan_prune(desired, seen, rules, trash=trash)

    return _perform(call, desired, plan, _Way(dry_run, yes, keep_best))


def verify(
    ctx: typer.Context,
    name: ArchiveArgument,
    target: TargetOption = None,
    playbook: PlaybookOption = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> int:
    """Read an archive whole, and compare every file with its SHA-256."""
    from dflashctl.plan.checkpoints import plan_verify

    call = begin(ctx, "checkpoints verify", as_json)
    desired = call.desired(target, playbook)
    return _perform(
        call, desired, lambda seen: plan_verify(desired, seen, name), _Way(dry_run, False)
    )


def pull(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="ARCHIVE", help="An archive, or a checkpoint.")],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder on this machine.")],
    target: TargetOption = None,
    playbook: PlaybookOption = None,
    as_json: JsonOption = False,
) -> int:
    """Bring an archive or a checkpoint to this machine, verified.

    What was broken off is gone on with when the same command is typed again.
    """
    from dflashctl.agent.keeping import Pull
    from dflashctl.errors import Refused
    from dflashctl.link.landing import Landing
    from dflashctl.plan.checkpoints import folder_of, not_there
    from dflashctl.plan.look import look_at_store
    from dflashctl.view import checkpoints, json
    from dflashctl.view.progress import Upload

    call = begin(ctx, "checkpoints pull", as_json)
    desired = call.desired(target, playbook)
    here = desired.target.name
    look = look_at_store(desired)
    with call.at(desired.target, look) as agent:
        seen = call.observe(agent, desired, look)
        spec = folder_of(desired, seen, call.command).spec
        remember(call, desired, seen)
        refusals = tuple(not_there(seen, name))
        if refusals:
            raise Refused(target=here, refusals=refusals)
        with Upload(call.screen, ("bringing", "brought")) as progress:
            landing = Landing(call.cwd / folder, name, progress)
            request = Pull(
                store=spec,
                name=name,
                identity=landing.identity,
                skip=landing.skip,
                offset=landing.offset,
            )
            try:
                agent.pull(request, landing.hear, seen.state)
            finally:
                landing.close()
        place = landing.finish()
    if as_json:
        shape = {"name": name, "path": str(place), "files": landing.files, "error": None}
        call.screen.write(json.envelope(call.command, 0, {here: shape}))
    else:
        checkpoints.show_pulled(call.screen, name, place, landing.files)
    return 0


class _Way:
    """How a plan is gone about. ``metric``: what checkpoints are compared by."""

    def __init__(self, dry_run: bool, yes: bool, metric: str | None = None) -> None:
        self.dry_run, self.yes, self.metric = dry_run, yes, metric


def _perform(call: Call, desired: Desired, plan: Callable[[Observed], Plan], way: _Way) -> int:
    """Look, plan, and carry the plan out."""
    from dflashctl.cli.transaction import Proposal, carry_out, preview
    from dflashctl.plan.look import look_at_store

    look = look_at_store(desired, way.metric)
    with call.at(desired.target, look) as agent:
        seen = call.observe(agent, desired, look)
        remember(call, desired, seen)
        proposal = Proposal(desired=desired, look=look, seen=seen, plan=plan(seen), yes=way.yes)
        return preview(call, proposal) if way.dry_run else carry_out(call, agent, proposal)


def archive_name(said: str | None) -> str:
    """A name for an archive: what was said, else the time.

    Raises:
        typer.BadParameter: it could not be a folder's name.
    """
    import re
    from datetime import UTC, datetime

    if not said:
        return f"{datetime.now(UTC):%Y-%m-%dT%H%M%SZ}"
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", said):
        raise typer.BadParameter(
            "an archive's name is made of letters, digits, `.`, `_` and `-`, a letter or "
            f"digit first, not {said!r}."
        )
    return said


def remember(call: Call, desired: Desired, seen: Observed) -> None:
    """Keep the names in mind for completion."""
    if seen.store is not None:
        target = desired.target.name
        archives = [one.name for one in reversed(seen.store.archives) if one.whole]
        memory.remember(call.environ, "archives", target, archives)
        names = [one.name for one in reversed(seen.store.checkpoints)]
        memory.remember(call.environ, "checkpoints", target, names)
