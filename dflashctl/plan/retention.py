"""Which checkpoints a pruning keeps, and which clearings may be purged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from dflashctl.agent.keeping import CheckpointSeen, ClearedSeen, StoreSeen
    from dflashctl.playbook.model import KeepSpec, TrashSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What is kept: the last few, every so many steps, the best by a metric. None: no rule."""

    last: int | None = None
    every: int | None = None
    best: str | None = None
    best_is: Literal["min", "max"] = "min"

    def __bool__(self) -> bool:
        """Whether there is any rule."""
        return bool(self.last or self.every or self.best)

    def __str__(self) -> str:
        """In words, for a plan."""
        parts = [f"the last {self.last}"] if self.last else []
        parts += [f"every {self.every} steps"] if self.every else []
        if self.best:
            kind = "lowest" if self.best_is == "min" else "highest"
            parts.append(f"the {kind} {self.best}")
        return ", ".join(parts)


def rules_of(keep: KeepSpec | None) -> Rules:
    """The playbook's rules."""
    return Rules(last=keep.last, every=keep.every) if keep else Rules()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """A checkpoint, and why it is kept; None: it is deleted."""

    checkpoint: CheckpointSeen
    kept: str | None


def doomed(store: StoreSeen, rules: Rules) -> tuple[Fate, ...]:
    """What becomes of each checkpoint, the oldest first.

    The newest complete one is always kept, so is the one that the live run was resumed
    from, and whatever is not complete or has no step in its name: that it is a checkpoint
    is only a guess. Where the best is to be kept and no checkpoint tells the metric, all are.
    """
    whole = [one for one in store.checkpoints if one.complete and one.step is not None]
    reasons: dict[str, str] = {}
    for one in store.checkpoints:
        if not one.complete:
            reasons[one.name] = "not complete"
        elif one.step is None:
            reasons[one.name] = "has no step"
    if rules.best:
        # Of equals the newest.
        measured = [one for one in whole if one.metric is not None]
        sign = 1 if rules.best_is == "max" else -1
        best = max(reversed(measured), key=lambda one: sign * (one.metric or 0.0), default=None)
        if best is not None:
            reasons[best.name] = f"{rules.best} {best.metric:g}"
        for one in () if measured else whole:  # a name mistyped must not cost all but the newest
            reasons[one.name] = f"none tells its {rules.best}"
    if rules.every:
        for one in whole:
            if one.step is not None and one.step % rules.every == 0:
                reasons.setdefault(one.name, f"every {rules.every} steps")
    for one in whole[-rules.last :] if rules.last else ():
        reasons.setdefault(one.name, f"of the last {rules.last}")
    if store.resumed_from is not None:
        reasons.setdefault(store.resumed_from, "the live run was resumed from it")
    complete = [one for one in store.checkpoints if one.complete]
    if complete:
        reasons.setdefault(complete[-1].name, "the newest")
    return tuple(Fate(checkpoint=one, kept=reasons.get(one.name)) for one in store.checkpoints)


def may_purge(
    cleared: tuple[ClearedSeen, ...], policy: TrashSpec, now: float, *, more: int
) -> tuple[ClearedSeen, ...]:
    """The clearings that the playbook lets go. ``more``: how many are sure to be made before."""
    earlier = sorted(cleared, key=lambda one: one.at)
    stay = max(0, policy.keep - more)
    beyond = earlier[: len(earlier) - stay] if stay else earlier
    return tuple(one for one in beyond if one.at < now - policy.for_s)
