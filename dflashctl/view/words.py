"""Every error in plain words: what happened, where, and the next thing to do."""

from __future__ import annotations

from dflashctl import errors as e
from dflashctl.plan.words import counted
from dflashctl.view.failures import failure_words, standing
from dflashctl.view.way import way_words
from dflashctl.view.wording import UNTOUCHED, Words


def words_for(error: e.DflashError) -> Words:  # noqa: PLR0911, PLR0912 - one a branch
    """The words for an error, whichever branch of the tree it is on."""
    match error:
        case e.UnknownRun():
            return _unknown_run(error)
        case e.UserMistake():
            return _mistake(error)
        case e.Unreachable() | e.HostKeyProblem() | e.NotLetIn() | e.TargetLacks():
            return way_words(error)
        case e.Refused():
            return _refused(error)
        case e.HeldBack():
            return _held_back(error)
        case e.Unverified():
            return _unverified(error)
        case e.TryAgain():
            return _try_again(error)
        case e.NothingRuns():
            return _nothing_runs(error)
        case e.NoOptimizer():
            return Words(
                message=f"no bucket optimiser of {error.job} is detached on {error.target}.",
                next="Start one with: dflashctl optimize-buckets --detach",
            )
        case e.CannotRun():
            return Words(
                message=f"{error.target} cannot run {error.program}: {error.reason}.",
                next="Its words are given to no shell. What needs one (pipes, *, $NAME): "
                "dflashctl exec -- sh -c '...'",
            )
        case e.NotSent():
            return Words(
                message=f"{error.target} could not send everything.",
                next="The target itself must reach these addresses; the playbook's "
                "watch.notify names them.",
                details=error.failed,
            )
        case e.Interrupted():
            return _interrupted(error)
        case e.Internal():
            return Words(
                message=f"a fault of dflashctl: {error.what}",
                next="Run it again with --debug before the verb; its output belongs in a report.",
                details=_lines(error.detail),
            )
        case _:
            return Words(
                message=f"a fault of dflashctl: {error.code}.", next="Run it again with --debug."
            )


def _nothing_runs(error: e.NothingRuns) -> Words:
    if error.run_id is not None:
        return Words(
            message=f"{error.target} has no run {error.run_id} of {error.session}.",
            next=f"The newest run: dflashctl status -t {error.target}",
        )
    if error.state == "NONE":
        return Words(
            message=f"{error.target} has no run of {error.session} yet.",
            next=f"Start one with: dflashctl deploy -t {error.target}. Of a session that was "
            f"started by hand nothing is recorded: dflashctl attach -t {error.target}",
        )
    return Words(
        message=f"nothing runs on {error.target}: there is no session {error.session} "
        f"(state {error.state}).",
        next=f"Start it with: dflashctl start -t {error.target}. What the last run "
        f"printed: dflashctl logs -t {error.target}",
    )


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line for line in text.splitlines() if line.strip())


def _mistake(error: e.UserMistake) -> Words:  # noqa: PLR0911, PLR0912 - one a branch
    match error:
        case e.BadFile():
            return _bad_file(error)
        case e.NoFile():
            return _no_file(error)
        case e.InventoryProgram():
            called = " ".join((str(error.path), *error.words))
            return Words(
                message=f"the inventory's program {error.reason}: {called}",
                details=error.said,
                next=f"{UNTOUCHED} See what it does: run it by hand.",
            )
        case e.UnknownTarget():
            return _unknown_target(error)
        case e.AmbiguousTarget(name=""):
            return Words(
                message="no target was named, and the inventory has no default_target.",
                next=f"Name one with -t: {', '.join(error.candidates)}",
            )
        case e.AmbiguousTarget():
            return Words(
                message=f"'{error.name}' is the name of several targets: "
                f"{', '.join(error.candidates)}.",
                next=f"Name one in full: -t {error.candidates[0]}",
            )
        case e.TooManyTargets():
            return Words(
                message=f"{error.verb} works on one target at a time, and this names "
                f"{len(error.named)}: {', '.join(error.named)}.",
                next=f"Name one: dflashctl {error.verb} -t {error.named[0]}",
            )
        case e.MissingSetting():
            return Words(
                message=f"{error.verb} needs `{error.setting}`, and {error.path} does not have it.",
                next=f"Add {error.setting} to {error.path.name}.",
            )
        case e.SourceUnreadable():
            return Words(
                message=f"{error.path} is to be pushed and cannot be read: {error.reason}.",
                next=f"{UNTOUCHED} Put the file there, or take it out of the playbook.",
            )
        case e.BadDataset():
            where = f" on {error.target}" if error.target else ""
            return Words(
                message=f"the dataset {error.path}{where} cannot be used: "
                f"{error.text.removesuffix('.')}.",
                next=_DATASET_REMEDIES.get(error.problem, _DATASET_REMEDY),
            )
        case e.BadBuckets():
            return Words(
                message=f"{error.path} holds no bucket boundaries: {error.reason}.",
                next=f"{UNTOUCHED} Make it anew with: dflashctl optimize-buckets --apply",
            )
        case e.NoTerminal():
            return Words(
                message=f"{error.verb} needs a terminal, and its input or output is none.",
                next=f"Run it in a terminal{_WITHOUT_A_TERMINAL.get(error.verb, '.')}",
            )
        case _:
            return _mistake_here(error)


_DATASET_REMEDY = "What can be read, and how: docs/optimize-buckets.md in dflashctl's repository."
_DATASET_REMEDIES = {
    "above-longest": "Give a larger token budget (--token-budget), or leave these samples out.",
    "above-budget": "Give a larger token budget (--token-budget), or leave these samples out.",
    "no-column": "Name the one with the lengths: --column NAME, or dataset.column.",
    "not-found": "Is the path right, and on that machine? --dataset PATH names another.",
    "settings": "Change what was asked for: fewer buckets, or a smaller --align.",
}
_WITHOUT_A_TERMINAL = {
    "attach": "; or read the output with: dflashctl logs -f",
    "exec --tty": "; or leave out --tty.",
    "shell": "; or run one command with: dflashctl exec -- COMMAND",
}


def _unknown_run(error: e.UnknownRun) -> Words:
    if not error.known:
        return Words(
            message=f"{error.target} has no run on record.",
            next=f"Start one with: dflashctl deploy -t {error.target}",
        )
    if error.fitting:
        return Words(
            message=f"'{error.word}' is the beginning or end of {len(error.fitting)} runs on "
            f"{error.target}.",
            details=error.fitting[-5:],
            next="Type one more character of the one that you mean.",
        )
    if error.word == "previous":
        message = f"{error.target} has no run before the current one."
    else:
        message = f"{error.target} has no run '{error.word}' on record."
    return Words(
        message=message,
        next="A run is named by its id, the beginning or the end of it, or by the words last "
        f"and previous. All of them: dflashctl runs -t {error.target}",
    )


def _mistake_here(error: e.UserMistake) -> Words:
    """About this machine, not about the files of the job."""
    match error:
        case e.BadAddress():
            return Words(
                message=f"{error.text!r} is no target of the inventory, and no address.",
                next="An address is [user@]host[:port], or a name of ~/.ssh/config. "
                "The targets: dflashctl inventory show",
            )
        case e.CannotWrite():
            return Words(
                message=f"{error.path} cannot be written: {error.reason}.",
                next="Put that right and run the command again; what is there stays.",
            )
        case e.NeedsYes():
            return Words(
                message=f"to {error.what} needs your word, and there is no terminal to ask on.",
                details=error.details,
                next=f"{UNTOUCHED} Say it with --yes.",
            )
        case _:
            return Words(message="that cannot be done as typed.", next="See: dflashctl --help")


def _bad_file(error: e.BadFile) -> Words:
    many = len(error.faults) != 1
    what = f"the run's {error.kind}" if error.kind == "environment" else f"the {error.kind}"
    return Words(
        message=f"{what} has {counted(len(error.faults), 'mistake')}.",
        details=tuple(
            f"{fault.path}{f':{fault.line}' if fault.line else ''}: "
            f"{f'{fault.where}: ' if fault.where else ''}{fault.message}"
            for fault in error.faults
        ),
        next=f"{UNTOUCHED} Correct {'them' if many else 'it'} and run the command again.",
    )


def _no_file(error: e.NoFile) -> Words:
    if len(error.looked_in) == 1:
        return Words(
            message=f"there is no {error.kind} {error.looked_in[0]}.",
            next="It was named, so no other place was looked in. Correct the path; or begin "
            "with: dflashctl init",
        )
    option = "-i" if error.kind == "inventory" else "-p"
    return Words(
        message=f"there is no {error.kind} here.",
        details=tuple(f"looked in: {place}" for place in error.looked_in),
        next=f"Begin with one: dflashctl init. Or name yours with {option} PATH.",
    )


def _unknown_target(error: e.UnknownTarget) -> Words:
    if error.left_out:
        return Words(
            message=f"{error.name} is no target: {error.left_out}.",
            next="Targets are reached by ssh, by pct, or are this machine. "
            "The inventory as it is read: dflashctl inventory show",
        )
    if error.close:
        hint = f"Did you mean {' or '.join(error.close)}?"
    elif error.known:
        hint = f"It has: {', '.join(error.known)}."
    else:
        hint = "It has no targets at all."
    return Words(
        message=f"the inventory has no target and no group '{error.name}'.",
        next=f"{hint} All of them: dflashctl inventory show",
    )


def _refused(error: e.Refused) -> Words:
    details = []
    for refusal in error.refusals:
        details += [refusal.message, f"  {refusal.remedy}"] if refusal.remedy else [refusal.message]
    return Words(
        message=f"refused on {error.target}, before anything was touched.",
        details=tuple(details),
        next="What runs there goes on as it was.",
    )


def _held_back(error: e.HeldBack) -> Words:
    held = (error.target, *(name for name in error.ready if name != error.target))
    options = " ".join(f"-t {name}" for name in error.ready)
    return Words(
        message=f"nothing was touched on {', '.join(held)} either: {error.verb} is for all "
        f"of its targets or for none, and {', '.join(error.against)} "
        f"{'stands' if len(error.against) == 1 else 'stand'} in the way.",
        next=f"Put that right; or leave out what stands in the way: dflashctl {error.verb} "
        f"{options}",
    )


def _unverified(error: e.Unverified) -> Words:
    what, remedy = failure_words(error)
    details: tuple[str, ...] = (f"in this step: {error.step}",)
    if error.log_tail:
        whose = "the command's" if error.failure == "command_failed" else "the run's"
        details += (f"{whose} last lines:", *(f"  | {line}" for line in error.log_tail))
    return Words(
        message=f"{error.target}: {what}",
        details=details,
        next=f"{standing(error)} {remedy}",
    )


def _try_again(error: e.TryAgain) -> Words:
    match error:
        case e.LockHeld():
            return Words(
                message=f"another transaction is at work on {error.target}: {error.holder}, "
                f"since {error.since}.",
                next=f"{UNTOUCHED} Try again when it is done: dflashctl status -t {error.target}",
            )
        case e.Stale():
            changed = f" ({', '.join(error.changed)})" if error.changed else ""
            return Words(
                message=f"{error.target} changed while the plan was made{changed}.",
                next=f"{UNTOUCHED} Run the command again: it plans from what is there now.",
            )
        case e.OptimizerKilled():
            return Words(
                message=f"the bucket optimiser on {error.target} was ended before its answer: "
                "by a kill, a restart, or for want of memory.",
                next="Start it again; dmesg there names what was killed for want of memory.",
            )
        case e.OptimizerAtWork():
            return Words(
                message=f"a bucket optimiser is at work on {error.target} already, in the tmux "
                f"session {error.session}.",
                next="Wait for its result with: dflashctl optimize-buckets --fetch",
            )
        case _:
            return Words(message="somebody was quicker.", next=f"{UNTOUCHED} Try again.")


def _interrupted(error: e.Interrupted) -> Words:
    if error.committed:
        return Words(
            message=f"stopped watching; the transaction on {error.target} goes on to its end.",
            next=f"Ask what came of it with: dflashctl status -t {error.target}",
        )
    return Words(message="interrupted.", next=UNTOUCHED)
