"""A plan: what will happen on a target, each step with its reason; or why it may not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dflashctl.agent.fabric import Node
    from dflashctl.agent.protocol import Action, FileWanted, Look
    from dflashctl.agent.recorded import RunRecord, Source
    from dflashctl.agent.seen import Observed
    from dflashctl.agent.watching import Watch
    from dflashctl.errors import Refusal
    from dflashctl.inventory.model import Target
    from dflashctl.plan.diff import FileDiff
    from dflashctl.plan.rollback import Wanted
    from dflashctl.playbook.boundaries import BucketsFile
    from dflashctl.playbook.model import Playbook


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A target's part in a run over several, known once all of them have been looked at.

    Attributes:
        node: which one it is, and where all of them meet.
        lead: what node 0 looks like: by it the whole run goes on from checkpoints, or does not.
        living: the targets on which the job runs.
        kept_at: another target that has this one's very folder of checkpoints, and sees to it.
    """

    node: Node
    lead: Observed
    living: tuple[str, ...] = ()
    kept_at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Desired:
    """What a verb wants of one target.

    Attributes:
        playbook: the job.
        target: where.
        files: the playbook's files with their hashes, for the verbs that start a run.
        secrets: variables for the trainer that are shown and recorded nowhere.
        run_id: the id that a run gets if one is started.
        texts: the contents of those files by their hashes, where they are wanted for a diff.
        source: the checkout that the files come from.
        repeats: the run that is to be started again, for a rollback.
        archive: the name that an archive of checkpoints gets if it is given none.
        watch: how the run is watched there, addresses and all.
        boundaries: those of the buckets, as they are on this machine.
        nodes: all targets of the run, where it is one over several.
        place: this target's part in that, once it is known.
    """

    playbook: Playbook
    target: Target
    files: tuple[FileWanted, ...] = ()
    secrets: dict[str, str] = field(default_factory=dict, repr=False)
    run_id: str = ""
    texts: dict[str, str] = field(default_factory=dict, repr=False)
    source: Source | None = None
    repeats: str | None = None
    archive: str = ""
    boundaries: BucketsFile | None = None
    watch: Watch | None = field(default=None, repr=False)
    nodes: tuple[str, ...] = ()
    place: Place | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """One target as a verb found it: what is wanted of it, beside how it looks.

    Attributes:
        look: the question that ``seen`` answers.
        record: the run that is to be repeated, for a rollback.
        back: the checkpoints that a rollback is to bring back; None: those there stay.
    """

    desired: Desired
    look: Look
    seen: Observed
    record: RunRecord | None = None
    back: Wanted | None = None

    @property
    def target(self) -> str:
        """The target's name."""
        return self.desired.target.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One action. ``what`` names it for a person, ``why`` gives the reason.

    ``may_fail``: its failure is passed over, and the next step done.
    """

    action: Action
    what: str
    why: str
    may_fail: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Steps in order, remarks, and refusals. With a refusal nothing may be done.

    ``run_id`` is set when the plan starts a run. ``diffs``: what placing files changes.
    ``asks``: what cannot be undone, to be said yes to before anything is done.
    """

    steps: tuple[Step, ...] = ()
    notes: tuple[str, ...] = ()
    refusals: tuple[Refusal, ...] = field(default=())
    run_id: str | None = None
    diffs: tuple[FileDiff, ...] = ()
    asks: tuple[str, ...] = ()
