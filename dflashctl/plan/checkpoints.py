"""What happens to checkpoints: clear, archive, restore, prune; as verbs, and within others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dflashctl.agent.keeping import (
    ArchiveCheckpoints,
    ClearCheckpoints,
    PruneCheckpoints,
    PurgeCleared,
    RestoreCheckpoints,
    RestoreCleared,
    VerifyArchive,
)
from dflashctl.errors import Internal, MissingSetting, Refusal
from dflashctl.plan import words
from dflashctl.plan.look import store_of
from dflashctl.plan.model import Plan, Step
from dflashctl.plan.preflight import preflight
from dflashctl.plan.retention import Rules, doomed, may_purge
from dflashctl.plan.steps import lives

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dflashctl.agent.keeping import StoreSeen, StoreSpec
    from dflashctl.agent.seen import CheckpointsSeen, Observed
    from dflashctl.plan.model import Desired

Steps = tuple[tuple[Step, ...], tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """The playbook's checkpoints, and what is there of them."""

    spec: StoreSpec
    seen: CheckpointsSeen

    @property
    def named(self) -> str:
        """Its path, and where that really leads."""
        really = self.seen.real_path
        return self.seen.path if really == self.seen.path else f"{self.seen.path} (really {really})"


def folder_of(desired: Desired, seen: Observed, verb: str) -> Folder:
    """Raises MissingSetting when the playbook has no ``checkpoints``."""
    spec = desired.playbook.checkpoints
    if spec is None or seen.checkpoints is None:
        raise MissingSetting(verb=verb, setting="checkpoints.path", path=desired.playbook.path)
    return Folder(spec=store_of(spec), seen=seen.checkpoints)


def store_seen(seen: Observed) -> StoreSeen:
    """The whole list. Raises Internal when the look left it out."""
    if seen.store is None:
        raise Internal(what="the look left out the list of checkpoints")
    return seen.store


def kept_elsewhere(desired: Desired) -> str | None:
    """That another target of the run has the very same folder, and sees to it; None: none has."""
    spec, place = desired.playbook.checkpoints, desired.place
    if spec is None or place is None or place.kept_at is None:
        return None
    return f"{spec.path} is the very folder that {place.kept_at} has: it is seen to there, once"


def clear_steps(desired: Desired, seen: Observed, verb: str, *, purge: bool = False) -> Steps:
    """Move the checkpoints away, or a note why there is nothing to move.

    While something lives there may yet be something: stopped, the trainer may save.
    ``purge`` deletes them. What the playbook's ``trash`` lets go is purged, too.

    Raises:
        MissingSetting: the playbook has no checkpoints.
    """
    folder = folder_of(desired, seen, verb)
    if note := kept_elsewhere(desired):
        return (), (note,)
    there = folder.seen
    if there.problem is None and not there.entries and not lives(seen):
        how = "is empty" if there.exists else "does not exist"
        return (), (f"nothing to clear: {there.path} {how}",)
    away = f"moved to {trash_of(there)}, nothing is deleted"
    what = words.checkpoints(there) if there.entries else "what the stopped run saves"
    step = Step(
        action=ClearCheckpoints(path=there.path, real_path=there.real_path),
        what=f"clear {folder.named}: {what}",
        why=f"{_reason(verb)}; {'and deleted after that' if purge else away}",
    )
    return (step, *_purge_steps(desired, seen, folder, own=purge)), ()


def _purge_steps(
    desired: Desired, seen: Observed, folder: Folder, *, own: bool
) -> tuple[Step, ...]:
    spec = desired.playbook.checkpoints
    policy = spec.trash if spec else None
    # A run that is stopped first may leave nothing to clear.
    more = 1 if folder.seen.entries else 0
    known = seen.store.cleared if seen.store else ()
    going = may_purge(known, policy, seen.now, more=more) if policy else ()
    if not going and not own:
        return ()
    parts = ["what was just cleared"] if own else []
    parts += [f"what was cleared on {words.moment(one.at)}" for one in going]
    reasons = ["--purge"] if own else []
    if going and policy:
        days = f"{policy.for_s / 86400:g} d"
        reasons.append(f"checkpoints.trash keeps the last {policy.keep}, and all for {days}")
    action = PurgeCleared(
        path=folder.seen.path,
        real_path=folder.seen.real_path,
        ids=tuple(one.id for one in going),
        own=own,
    )
    return (
        Step(
            action=action, what=f"delete for good {words.listed(tuple(parts))}",
            why="; ".join(reasons),
        ),
    )  # fmt: skip


def archive_steps(
    desired: Desired, seen: Observed, verb: str, name: str, *, then_remove: bool
) -> Steps:
    """Bring the complete checkpoints into an archive, or a note why there are none.

    Raises:
        MissingSetting: the playbook has no checkpoints, or names no place for archives.
    """
    folder = folder_of(desired, seen, verb)
    if folder.spec.archive_to is None:
        raise MissingSetting(
            verb=verb, setting="checkpoints.archive_to", path=desired.playbook.path
        )
    if note := kept_elsewhere(desired):
        return (), (note,)
    there = folder.seen
    if not there.complete and not lives(seen):
        return (), (f"nothing to archive: {there.path} has no complete checkpoint",)
    going = words.complete(there) if there.complete else "what the stopped run saves"
    left = there.count - there.complete
    notes = [f"{words.counted(left, 'checkpoint')} not complete: left where it is"] if left else []
    notes += [
        f"the archive {one.name} was cut short while it was made: that is put in order first"
        for one in (seen.store.archives if seen.store else ())
        if not one.whole
    ]
    fate = "the originals go once it is verified" if then_remove else "the originals stay"
    step = Step(
        action=ArchiveCheckpoints(
            store=folder.spec,
            real_path=there.real_path,
            name=name,
            names=None,
            then_remove=then_remove,
        ),
        what=f"archive {folder.named} as {folder.spec.archive_to}/{name}: {going}",
        why=f"{_reason(verb)}; {fate}",
    )
    return (step,), tuple(notes)


def restore_steps(
    desired: Desired, seen: Observed, verb: str, name: str, to: str | None = None
) -> Steps:
    """Bring an archive's checkpoints back; what is there now is moved aside.

    Raises:
        MissingSetting: the playbook has no checkpoints, or names no place for archives.
    """
    folder = folder_of(desired, seen, verb)
    if folder.spec.archive_to is None:
        raise MissingSetting(
            verb=verb, setting="checkpoints.archive_to", path=desired.playbook.path
        )
    if note := kept_elsewhere(desired):
        return (), (note,)
    found = [one for one in store_seen(seen).archives if one.name == name]
    amount = words.archived(found[0]) if found else "its checkpoints"
    there = folder.seen
    away = f"; what is there ({words.checkpoints(there)}) is moved to {trash_of(there)}"
    step = Step(
        action=RestoreCheckpoints(
            store=folder.spec, real_path=to or there.real_path, name=name, to=to
        ),
        what=f"restore {amount} of archive {name} to {to or folder.named}",
        why=f"{_reason(verb)}; verified first{away if to is None and there.entries else ''}",
    )
    return (step,), ()


def _reason(verb: str) -> str:
    """The flag that asked for it, or that the verb did."""
    flag = verb.rpartition(" ")[2]
    if flag.startswith("--"):
        return flag
    return "asked for" if verb.startswith("checkpoints ") else verb


def plan_clear(desired: Desired, seen: Observed, *, purge: bool) -> Plan:
    """Move all aside; ``purge`` deletes it. Raises MissingSetting."""
    steps, notes = clear_steps(desired, seen, "checkpoints clear", purge=purge)
    asks = ("The checkpoints will be deleted for good.",) if purge and steps else ()
    return _plan(desired, seen, steps, notes, asks)


def plan_archive(desired: Desired, seen: Observed, name: str, *, then_remove: bool) -> Plan:
    """Archive what is complete. Raises MissingSetting."""
    verb = "checkpoints archive"
    steps, notes = archive_steps(desired, seen, verb, name, then_remove=then_remove)
    return _plan(desired, seen, steps, notes)


def plan_restore(desired: Desired, seen: Observed, name: str, to: str | None) -> Plan:
    """Bring an archive back. Raises MissingSetting."""
    steps, notes = restore_steps(desired, seen, "checkpoints restore", name, to)
    return _plan(desired, seen, steps, notes, _over_newer(seen, name) if to is None else ())


def _over_newer(seen: Observed, name: str) -> tuple[str, ...]:
    """Restoring over newer checkpoints asks, although they can come back."""
    there = seen.checkpoints
    found = [one for one in store_seen(seen).archives if one.name == name]
    if there is None or not there.complete or not found or there.latest_at is None:
        return ()
    if there.latest_at <= found[0].at:
        return ()
    asked = (
        f"Newer checkpoints are there (step {there.latest_step}); they will be moved aside "
        f"for those of {name} (step {found[0].latest_step})."
    )
    return (asked,)


def plan_restore_cleared(desired: Desired, seen: Observed) -> Plan:
    """Undo the last clearing. Raises MissingSetting."""
    folder = folder_of(desired, seen, "checkpoints restore")
    if note := kept_elsewhere(desired):
        return Plan(notes=(note,))
    found = store_seen(seen).cleared
    if not found:
        return Plan(notes=(f"nothing to restore: of {folder.seen.path} nothing was cleared",))
    last = found[-1]
    away = f"; what is there is moved to {trash_of(folder.seen)}" if folder.seen.entries else ""
    step = Step(
        action=RestoreCleared(path=folder.seen.path, real_path=folder.seen.real_path, id=last.id),
        what=f"bring back to {folder.named} what was cleared on {words.moment(last.at)}: "
        f"{words.cleared(last)}",
        why=f"--last-cleared{away}",
    )
    return _plan(desired, seen, (step,), ())


def plan_prune(desired: Desired, seen: Observed, rules: Rules, *, trash: bool) -> Plan:
    """Delete what no rule keeps; with ``trash`` also all that was cleared.

    Raises:
        MissingSetting: neither the command nor the playbook says what to keep.
    """
    folder = folder_of(desired, seen, "checkpoints prune")
    store = store_seen(seen)
    if not rules and not trash:
        raise MissingSetting(
            verb="checkpoints prune (without --keep-last, --keep-every, --keep-best or --trash)",
            setting="checkpoints.keep",
            path=desired.playbook.path,
        )
    if note := kept_elsewhere(desired):
        return Plan(notes=(note,))
    steps: list[Step] = []
    notes: list[str] = []
    fates = doomed(store, rules) if rules else ()
    going = [one for one in fates if one.kept is None]
    place = {"path": folder.seen.path, "real_path": folder.seen.real_path}
    if going:
        size = words.size(sum(one.checkpoint.size or 0 for one in going))
        steps.append(
            Step(
                action=PruneCheckpoints(
                    store=folder.spec,
                    real_path=folder.seen.real_path,
                    names=tuple(one.checkpoint.name for one in going),
                ),
                what=f"delete for good {words.counted(len(going), 'checkpoint')} ({size}) of "
                f"{folder.named}",
                why=f"kept are {rules}",
            )
        )
        notes.append(f"deleted: {', '.join(one.checkpoint.name for one in going)}")
    elif rules:
        notes.append(f"no checkpoint to delete: kept are {rules}")
    notes += [f"kept: {one.checkpoint.name} ({one.kept})" for one in fates if one.kept]
    if trash and store.cleared:
        steps.append(
            Step(
                action=PurgeCleared(**place, ids=tuple(one.id for one in store.cleared), own=False),
                what=f"delete for good what was cleared: "
                f"{words.listed(tuple(words.cleared(one) for one in store.cleared))}",
                why="--trash",
            )
        )
    asks = ("What is deleted cannot come back.",) if steps else ()
    return _plan(desired, seen, tuple(steps), tuple(notes), asks)


def plan_verify(desired: Desired, seen: Observed, name: str) -> Plan:
    """Read an archive whole. Raises MissingSetting."""
    folder = folder_of(desired, seen, "checkpoints verify")
    found = [one for one in store_seen(seen).archives if one.name == name]
    amount = f": {words.archived(found[0])}" if found else ""
    step = Step(
        action=VerifyArchive(store=folder.spec, name=name),
        what=f"verify archive {name}{amount}",
        why="every file against its SHA-256",
    )
    return _plan(desired, seen, (step,), ())


def _plan(
    desired: Desired,
    seen: Observed,
    steps: tuple[Step, ...],
    notes: tuple[str, ...],
    asks: tuple[str, ...] = (),
) -> Plan:
    return Plan(steps=steps, notes=notes, refusals=preflight(desired, seen, steps), asks=asks)


def not_there(seen: Observed, name: str) -> Iterator[Refusal]:
    """There is neither an archive nor a checkpoint by that name."""
    store = store_seen(seen)
    archives = tuple(one.name for one in reversed(store.archives) if one.whole)
    names = tuple(one.name for one in reversed(store.checkpoints))
    if name not in (*archives, *names):
        yield Refusal(
            code="no_such_archive",
            message=f"there is neither an archive nor a checkpoint {name}; there are: "
            f"{words.listed((*archives, *names)) or 'none at all'}",
            remedy="all of them: dflashctl checkpoints list",
        )


def trash_of(seen: CheckpointsSeen) -> str:
    """Where cleared checkpoints go: beside the folder, or inside it if it is a mount."""
    if seen.mount_point:
        return f"{seen.real_path}/.dflashctl-trash"
    parent, _, name = seen.real_path.rpartition("/")
    return f"{parent}/.{name}.dflashctl-trash"
