"""Every way a command can fail, as one tree.

An error carries data; ``view`` gives it words and the next thing to do. Each class
fixes its exit code and the ``error.code`` that ``--json`` shows.

::

    DflashError                       1
    ├── Internal                      1   a fault of ours, or a reply we cannot read
    ├── UserMistake                   2
    │   ├── BadFile                       an inventory or playbook with mistakes
    │   ├── NoFile                        no inventory or playbook was found
    │   ├── InventoryProgram              a program does not tell its inventory
    │   ├── UnknownTarget                 no such target; AmbiguousTarget: more than one
    │   ├── TooManyTargets                the verb takes one target
    │   ├── MissingSetting                the playbook lacks what the verb needs
    │   ├── SourceUnreadable              a file to push cannot be read here
    │   ├── BadDataset                    no lengths that buckets could be made of
    │   ├── BadBuckets                    a file of boundaries that is none
    │   ├── UnknownRun                    no run on record by that name, or more than one
    │   ├── NoTerminal                    attach without a terminal
    │   ├── BadAddress                    a host that is none
    │   ├── CannotWrite                   a file cannot be written here
    │   └── NeedsYes                      what asks on a terminal, and there is none
    ├── NothingRuns                   3
    ├── NoOptimizer                   3   no detached bucket optimiser to fetch from
    ├── Refused                       65  preflight; nothing was touched
    ├── HeldBack                      65  nothing was touched, as another target stands in the way
    ├── Unverified                    66  begun, but the new run could not be started or verified
    ├── Unreachable                   69
    │   └── LinkLost                      the connection died in the middle
    ├── NotSent                       69  nobody could be told of a run
    ├── TryAgain                      75
    │   ├── LockHeld                      another deploy is at work
    │   ├── Stale                         the target changed since it was looked at
    │   ├── OptimizerAtWork               a detached bucket optimiser is at it already
    │   └── OptimizerKilled               a bucket optimiser was ended by something else
    ├── HostKeyProblem                76
    │   ├── HostKeyUnknown
    │   ├── HostKeyChanged
    │   └── OtherFingerprint              not the one that was asked for
    ├── NotLetIn                      77
    │   ├── NotRoot                       let in, but pct is for root
    │   └── SudoRefused                   let in, but sudo makes us no root
    ├── TargetLacks                   78
    │   ├── ContainerStopped
    │   ├── NoSuchContainer
    │   ├── PctFailed                     it cannot tell its containers
    │   ├── MissingTool                   no python3, no tmux
    │   └── MissingModule                 the dataset's interpreter lacks numpy or pyarrow
    ├── CannotRun                     127 exec: the program could not be started
    └── Interrupted                   130
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from pathlib import Path

_GRAVEST_FIRST = (1, 2, 76, 77, 69, 78, 75, 65, 66, 4, 5, 3, 10, 0)


def worst(codes: list[int]) -> int:
    """The exit code of a command over several targets: the gravest of theirs.

    130 (interrupted) outranks all, since the command did not finish.
    """
    order = (130, *_GRAVEST_FIRST)
    return min(codes, key=order.index, default=0)


class DflashError(Exception):
    """The root. ``code`` is what ``--json`` shows; ``exit_code`` what the shell sees."""

    exit_code: ClassVar[int] = 1
    code: ClassVar[str] = "internal"

    def __str__(self) -> str:
        """For tracebacks and debug output; people read the words that ``view`` gives."""
        return f"{self.code} {vars(self)}"


@dataclass(eq=False, kw_only=True)
class Internal(DflashError):
    """A fault of ours, or an answer from a target that makes no sense."""

    what: str
    detail: str = ""


class UserMistake(DflashError):
    """What was typed, or a file that was read, is wrong."""

    exit_code = 2
    code = "usage"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One mistake in a hand-written file.

    Attributes:
        path: the file.
        line: the line it stands in, counted from 1; 0 when it concerns the whole file.
        where: the field, as a person writes it: ``hosts.kpro6.port``.
        message: what was read and what is allowed, with a suggestion where one is near.
    """

    path: Path
    line: int
    where: str
    message: str


@dataclass(eq=False, kw_only=True)
class BadFile(UserMistake):
    """An inventory or a playbook with one or more mistakes, all of them listed."""

    code = "bad_file"
    kind: str
    faults: tuple[Fault, ...]


@dataclass(eq=False, kw_only=True)
class NoFile(UserMistake):
    """No inventory or no playbook where one was looked for (in this order)."""

    code = "no_file"
    kind: str
    looked_in: tuple[str, ...]


@dataclass(eq=False, kw_only=True)
class InventoryProgram(UserMistake):
    """A program that was named as the inventory does not tell one.

    Attributes:
        words: what it was called with: ``--list``.
        reason: what it did instead: ``ended with exit code 1``.
        said: the last lines of its standard error.
    """

    code = "inventory_program"
    path: Path
    words: tuple[str, ...]
    reason: str
    said: tuple[str, ...] = ()


@dataclass(eq=False, kw_only=True)
class UnknownTarget(UserMistake):
    """The name is no target and no group of the inventory. ``close``: similar names.

    ``left_out``: why a host of that name in an inventory of Ansible's is no target.
    """

    code = "unknown_target"
    name: str
    known: tuple[str, ...]
    close: tuple[str, ...] = ()
    left_out: str = ""


@dataclass(eq=False, kw_only=True)
class AmbiguousTarget(UserMistake):
    """The name fits several targets; their full names tell them apart."""

    code = "ambiguous_target"
    name: str
    candidates: tuple[str, ...]


@dataclass(eq=False, kw_only=True)
class TooManyTargets(UserMistake):
    """The verb acts on one target, and several were named."""

    code = "too_many_targets"
    verb: str
    named: tuple[str, ...]


@dataclass(eq=False, kw_only=True)
class MissingSetting(UserMistake):
    """The verb needs a field that the playbook or inventory does not have."""

    code = "missing_setting"
    verb: str
    setting: str
    path: Path


@dataclass(eq=False, kw_only=True)
class SourceUnreadable(UserMistake):
    """A file of the playbook cannot be read on this machine any more."""

    code = "source_unreadable"
    path: Path
    reason: str


@dataclass(eq=False, kw_only=True)
class BadDataset(UserMistake):
    """A dataset that boundaries cannot be made for, or settings that it does not suit.

    Attributes:
        target: where it is; empty: on this machine.
        problem: a word for it (``missing``, ``no_column``, ``zero``, ``above-budget``, ...).
        text: what is wrong, in a sentence.
    """

    code = "bad_dataset"
    target: str
    path: str
    problem: str
    text: str


@dataclass(eq=False, kw_only=True)
class BadBuckets(UserMistake):
    """A file of bucket boundaries cannot be read, or holds none."""

    code = "bad_buckets"
    path: Path
    reason: str


@dataclass(eq=False, kw_only=True)
class UnknownRun(UserMistake):
    """The word means none of the runs on record (``known``), or several (``fitting``)."""

    code = "unknown_run"
    target: str
    word: str
    fitting: tuple[str, ...]
    known: tuple[str, ...]


@dataclass(eq=False, kw_only=True)
class NoTerminal(UserMistake):
    """The verb needs a terminal on standard input and output."""

    code = "no_terminal"
    verb: str


@dataclass(eq=False, kw_only=True)
class BadAddress(UserMistake):
    """Neither a name of the inventory nor ``[user@]host[:port]``."""

    code = "bad_address"
    text: str


@dataclass(eq=False, kw_only=True)
class CannotWrite(UserMistake):
    """A file on this machine cannot be written."""

    code = "cannot_write"
    path: Path
    reason: str


@dataclass(eq=False, kw_only=True)
class NeedsYes(UserMistake):
    """What cannot be undone asks on a terminal; there is none, and no ``--yes``.

    Attributes:
        what: what would be done: ``record a host key``.
        details: what the question would have shown.
    """

    code = "needs_yes"
    what: str
    details: tuple[str, ...] = ()


@dataclass(eq=False, kw_only=True)
class NothingRuns(DflashError):
    """The verb needs a running job, and there is none. ``state`` says what there is.

    ``run_id``: the one run that was asked for, where it was.
    """

    exit_code = 3
    code = "nothing_runs"
    target: str
    session: str
    state: str
    run_id: str | None = None


@dataclass(eq=False, kw_only=True)
class NoOptimizer(DflashError):
    """No bucket optimiser of this job is detached; to be ended, it must be at work."""

    exit_code = 3
    code = "no_optimizer"
    target: str
    job: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """One reason why preflight refuses. ``code`` is stable; ``remedy`` what to do next."""

    code: str
    message: str
    remedy: str


@dataclass(eq=False, kw_only=True)
class Refused(DflashError):
    """Preflight found what makes the plan unsafe. Nothing was touched."""

    exit_code = 65
    code = "refused"
    target: str
    refusals: tuple[Refusal, ...]


@dataclass(eq=False, kw_only=True)
class HeldBack(DflashError):
    """Nothing speaks against it here, but the verb is for all of its targets or for none.

    Attributes:
        against: those that stand in the way, each with an error of its own.
        ready: those that were ready, this one among them.
    """

    exit_code = 65
    code = "held_back"
    target: str
    verb: str
    against: tuple[str, ...]
    ready: tuple[str, ...]


@dataclass(eq=False, kw_only=True)
class Unverified(DflashError):
    """A transaction began, and the new run could not be started or verified.

    Attributes:
        step: the step that failed, in the plan's words.
        failure: its stable code (``died_early``, ``still_alive``, ``disk_full``, ...).
        detail: what the agent reported with it.
        state: what runs now (a state of the contract).
        done: the steps that were done before.
        run_id: the run that was to start, if it came to that.
        log_tail: the last lines that the run printed.
    """

    exit_code = 66
    code = "unverified"
    target: str
    step: str
    failure: str
    detail: dict[str, object]
    state: str
    done: tuple[str, ...] = ()
    run_id: str | None = None
    log_tail: tuple[str, ...] = ()


@dataclass(eq=False, kw_only=True)
class Unreachable(DflashError):
    """No connection to the target. ``reason`` in the operating system's words.

    ``ssh``: the words by which ssh itself would go there.
    """

    exit_code = 69
    code = "unreachable"
    target: str
    address: str
    reason: str
    ssh: tuple[str, ...] = ()


@dataclass(eq=False, kw_only=True)
class LinkLost(Unreachable):
    """The connection died in the middle. ``transaction`` is set when one had begun."""

    code = "link_lost"
    transaction: str | None = None


@dataclass(eq=False, kw_only=True)
class NotSent(DflashError):
    """Somebody who is to be told of a run could not be reached from the target.

    ``failed``: each way that failed, and why.
    """

    exit_code = 69
    code = "not_sent"
    target: str
    failed: tuple[str, ...]


class TryAgain(DflashError):
    """Another operator was quicker."""

    exit_code = 75
    code = "try_again"


@dataclass(eq=False, kw_only=True)
class LockHeld(TryAgain):
    """Another transaction is at work on the target. Nothing was touched."""

    code = "lock_held"
    target: str
    holder: str
    since: str


@dataclass(eq=False, kw_only=True)
class Stale(TryAgain):
    """The target changed between the look and the commit. Nothing was touched."""

    code = "stale"
    target: str
    changed: tuple[str, ...] = ()


@dataclass(eq=False, kw_only=True)
class OptimizerAtWork(TryAgain):
    """A detached bucket optimiser of this job is at work. ``session``: where."""

    code = "optimizer_at_work"
    target: str
    session: str


@dataclass(eq=False, kw_only=True)
class OptimizerKilled(TryAgain):
    """A bucket optimiser was ended from outside: by a kill, a reboot, for want of memory."""

    code = "optimizer_killed"
    target: str


class HostKeyProblem(DflashError):
    """The host's key is not the one that known_hosts vouches for."""

    exit_code = 76
    code = "host_key"


@dataclass(eq=False, kw_only=True)
class HostKeyUnknown(HostKeyProblem):
    """known_hosts has no key for the host. Fingerprints as OpenSSH writes them.

    ``options``: what was said about the way, to be said again to ``inventory trust``.
    """

    code = "host_key_unknown"
    target: str
    host: str
    port: int
    key_type: str
    fingerprint: str
    known_hosts: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


@dataclass(eq=False, kw_only=True)
class HostKeyChanged(HostKeyProblem):
    """The host shows another key than the one in known_hosts."""

    code = "host_key_changed"
    target: str
    host: str
    port: int
    key_type: str
    fingerprint: str
    expected: str
    known_hosts: str
    line: int


@dataclass(eq=False, kw_only=True)
class OtherFingerprint(HostKeyProblem):
    """An unknown host shows another key than the fingerprint that was asked for."""

    code = "other_fingerprint"
    target: str
    host: str
    port: int
    key_type: str
    fingerprint: str
    wanted: tuple[str, ...]


@dataclass(eq=False, kw_only=True)
class NotLetIn(DflashError):
    """The host refused every key that was offered.

    ``ssh``: the words by which ssh itself would go there.
    """

    exit_code = 77
    code = "not_let_in"
    target: str
    user: str
    address: str
    tried: tuple[str, ...] = ()
    reason: str = ""
    ssh: tuple[str, ...] = ()


@dataclass(eq=False, kw_only=True)
class NotRoot(NotLetIn):
    """The host lets us in, but not as root, and ``pct`` is for root only."""

    code = "not_root"


@dataclass(eq=False, kw_only=True)
class SudoRefused(NotLetIn):
    """The host lets us in, and its sudo does not make us root, or wants a password."""

    code = "sudo_refused"


class TargetLacks(DflashError):
    """The target was reached but cannot do the work."""

    exit_code = 78
    code = "target_lacks"


@dataclass(eq=False, kw_only=True)
class ContainerStopped(TargetLacks):
    """The container exists and does not run."""

    code = "container_stopped"
    target: str
    vmid: int
    host: str


@dataclass(eq=False, kw_only=True)
class NoSuchContainer(TargetLacks):
    """The host has no container with this id (another cluster node may have it)."""

    code = "no_such_container"
    target: str
    vmid: int
    host: str


@dataclass(eq=False, kw_only=True)
class PctFailed(TargetLacks):
    """``pct list`` failed on a Proxmox host, although we are root there."""

    code = "pct_failed"
    target: str
    reason: str


@dataclass(eq=False, kw_only=True)
class MissingTool(TargetLacks):
    """A program that the work needs is not there: ``python3``, ``tmux`` or ``pct``."""

    code = "missing_tool"
    target: str
    tool: str
    detail: str = ""


@dataclass(eq=False, kw_only=True)
class MissingModule(TargetLacks):
    """The interpreter that reads the dataset lacks a module. ``needed``: what for."""

    code = "missing_module"
    target: str
    python: str
    module: str
    needed: str


@dataclass(eq=False, kw_only=True)
class CannotRun(DflashError):
    """A program that was to be run there could not be started."""

    exit_code = 127
    code = "cannot_run"
    target: str
    program: str
    reason: str


@dataclass(eq=False, kw_only=True)
class Interrupted(DflashError):
    """Ctrl-C. ``committed``: a transaction had begun and goes on without us."""

    exit_code = 130
    code = "interrupted"
    target: str = ""
    committed: bool = False
