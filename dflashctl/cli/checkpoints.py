"""checkpoints: what there is of them; clear, archive, restore, prune, verify, pull."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dflashctl.cli.call import begin
from dflashctl.cli.options import (
    AllOption,
    DryRunOption,
    JsonOption,
    PlaybookOption,
    TargetOption,
    TargetsOption,
    YesOption,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from dflashctl.agent.seen import Observed
    from dflashctl.cli.call import Call
    from dflashctl.cli.reach import Agents
    from dflashctl.plan.model import Desired, Plan, Sight

ArchiveArgument = Annotated[str, typer.Argument(metavar="ARCHIVE", help="Its name.")]


def show_list(
    ctx: typer.Context,
    target: TargetsOption = None,
    everything: AllOption = False,
    playbook: PlaybookOption = None,
    as_json: JsonOption = False,
) -> int:
    """List the checkpoints, the archives, and what was cleared."""
    from dflashctl.cli.reading import read_each
    from dflashctl.plan.checkpoints import folder_of
    from dflashctl.plan.look import look_at_store
    from dflashctl.view import checkpoints

    call = begin(ctx, "checkpoints list", as_json)
    wanted = call.desired(call.targets(target, everything=everything), playbook)

    def read(agents: Agents, desired: Desired) -> Observed:
        look = look_at_store(desired)
        seen = agents.at(desired.target, look).observe(look)
        folder_of(desired, seen, call.command)
        remember(call, desired, seen)
        return seen

    def show(desired: Desired, seen: Observed) -> None:
        checkpoints.show_store(call.screen, call.same_again(desired.target.name), seen)

    return read_each(call, wanted, read, lambda _, seen: checkpoints.store_object(seen), show)


def clear(  # noqa: PLR0913, PLR0917 - one parameter an option
    ctx: typer.Context,
    purge: Annotated[
        bool, typer.Option("--purge", help="Delete them for good; this cannot be undone.")
    ] = False,
    target: TargetsOption = None,
    everything: AllOption = False,
    playbook: PlaybookOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> int:
    """Move all checkpoints aside; `restore --last-cleared` brings them back."""
    from dflashctl.plan.checkpoints import plan_clear

    call = begin(ctx, "checkpoints clear", as_json)
    wanted = call.desired(call.targets(target, everything=everything), playbook)
    return _perform(
        call,
        wanted,
        lambda sight: plan_clear(sight.desired, sight.seen, purge=purge),
        _Way(dry_run, yes),
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
    target: TargetsOption = None,
    everything: AllOption = False,
    playbook: PlaybookOption = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> int:
    """Bring the complete checkpoints into an archive, with the SHA-256 of each file."""
    from dflashctl.plan.checkpoints import plan_archive

    call = begin(ctx, "checkpoints archive", as_json)
    wanted = call.desired(call.targets(target, everything=everything), playbook)
    called = archive_name(name)

    def plan(sight: Sight) -> Plan:
        return plan_archive(sight.desired, sight.seen, called, then_remove=remove)

    return _perform(call, wanted, plan, _Way(dry_run, False))


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
    target: TargetsOption = None,
    everything: AllOption = False,
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
    wanted = call.desired(call.targets(target, everything=everything), playbook)

    def plan(sight: Sight) -> Plan:
        if name is None:
            return plan_restore_cleared(sight.desired, sight.seen)
        return plan_restore(sight.desired, sight.seen, name, dest)

    return _perform(call, wanted, plan, _Way(dry_run, yes, all_or_none=True))


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
    target: TargetsOption = None,
    everything: AllOption = False,
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
    wanted = call.desired(call.targets(target, everything=everything), playbook)
    rules = Rules(last=keep_last, every=keep_every, best=keep_best, best_is=best_is)
    spec = wanted[0].playbook.checkpoints
    if not rules and not trash and spec is not None:
        rules = rules_of(spec.keep)

    def plan(sight: Sight) -> Plan:
        return plan_prune(sight.desired, sight.seen, rules, trash=trash)

    return _perform(call, wanted, plan, _Way(dry_run, yes, metric=keep_best))


def verify(  # noqa: PLR0913, PLR0917 - one parameter an option
    ctx: typer.Context,
    name: ArchiveArgument,
    target: TargetsOption = None,
    everything: AllOption = False,
    playbook: PlaybookOption = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> int:
    """Read an archive whole, and compare every file with its SHA-256."""
    from dflashctl.plan.checkpoints import plan_verify

    call = begin(ctx, "checkpoints verify", as_json)
    wanted = call.desired(call.targets(target, everything=everything), playbook)
    return _perform(
        call,
        wanted,
        lambda sight: plan_verify(sight.desired, sight.seen, name),
        _Way(dry_run, False),
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
    (desired,) = call.desired((call.target(target),), playbook)
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


@dataclass(frozen=True, slots=True)
class _Way:
    """How a plan is gone about. ``metric``: what checkpoints are compared by."""

    dry_run: bool
    yes: bool
    metric: str | None = None
    all_or_none: bool = False


def _perform(
    call: Call, wanted: tuple[Desired, ...], plan: Callable[[Sight], Plan], way: _Way
) -> int:
    """Look, plan, and carry the plans out."""
    from dflashctl.cli.together import folders_only
    from dflashctl.cli.transaction import perform
    from dflashctl.cli.verb import Verb, Way, one_by_one
    from dflashctl.plan.look import look_at_store
    from dflashctl.plan.model import Sight

    def look(agents: Agents, desired: Desired) -> Sight:
        question = look_at_store(desired, way.metric)
        seen = agents.at(desired.target, question).observe(question)
        remember(call, desired, seen)
        return Sight(desired=desired, look=question, seen=seen)

    all_or_none = way.all_or_none
    verb = Verb(look=look, plan=one_by_one(plan), all_or_none=all_or_none, meet=folders_only)
    return perform(call, verb, wanted, Way(dry_run=way.dry_run, yes=way.yes))


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
        call.remember("archives", target, archives)
        names = [one.name for one in reversed(seen.store.checkpoints)]
        call.remember("checkpoints", target, names)
