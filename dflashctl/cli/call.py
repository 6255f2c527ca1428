"""One command as it was typed, and the world that it runs in."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from dflashctl.cli.reach import Reach

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    import typer

    from dflashctl.agent.protocol import FileWanted, Look, Who
    from dflashctl.agent.seen import Observed
    from dflashctl.cli.memory import Kind
    from dflashctl.inventory.model import Inventory, Target
    from dflashctl.link.client import Agent
    from dflashctl.link.connect import Question
    from dflashctl.plan.model import Desired
    from dflashctl.playbook.boundaries import BucketsFile
    from dflashctl.playbook.model import Playbook
    from dflashctl.view.again import Again
    from dflashctl.view.console import Screen

Color = Literal["auto", "always", "never"]


@dataclass(kw_only=True)
class Call:
    """Filled in as the command line is read.

    Attributes:
        environ: the operator's environment.
        cwd: where files are looked for.
        way: makes the ways to the targets.
        inventory_path: what -i says.
        playbook_path: what -p says.
        said: the targets as -t names them; everything_said: --all was typed.
        debug: show tracebacks and the parts' logs.
        color: what --color says.
        command: the verb.
        json: answer with a JSON object.
        noting: held while names are kept in mind.
    """

    environ: Mapping[str, str]
    cwd: Path
    way: Callable[[Screen], Reach] = field(default=Reach)
    inventory_path: str | None = None
    playbook_path: str | None = None
    said: tuple[str, ...] = ()
    everything_said: bool = False
    debug: bool = False
    color: Color = "auto"
    command: str = ""
    json: bool = False
    noting: threading.Lock = field(default_factory=threading.Lock)

    @cached_property
    def screen(self) -> Screen:
        """The terminal, or what stands in for it."""
        from dflashctl.view.console import Screen

        return Screen(self.color, self.environ, self.same_again)

    @cached_property
    def inventory(self) -> Inventory:
        """Read when first asked for. Raises NoFile, BadFile, InventoryProgram."""
        from dflashctl.inventory.load import find_inventory, load_inventory
        from dflashctl.inventory.program import is_program

        path = find_inventory(self.inventory_path, self.environ, self.cwd)
        if not is_program(path):
            inventory = load_inventory(path)
        else:
            with self.screen.waiting(f"asking {path.name} for the inventory"):
                inventory = load_inventory(path)
        if inventory.foreign:
            from dflashctl.cli import memory

            memory.remember_inventory(self.environ, inventory)
        return inventory

    def outline(self, option: str | None, names: tuple[str, ...] = ("deploy.yml",)) -> Playbook:
        """The playbook without its sources, which may be gone by now. Raises NoFile, BadFile.

        ``names``: the files that it may have in a usual folder.
        """
        from dflashctl.playbook.load import find_playbook, load_outline

        self.playbook_path = option
        return load_outline(find_playbook(option, self.environ, self.cwd, names))

    def targets(self, names: Sequence[str] | None, *, everything: bool) -> tuple[Target, ...]:
        """Raises UnknownTarget, AmbiguousTarget."""
        from dflashctl.inventory.select import select

        chosen = select(self.inventory, names or (), everything=everything)
        self.said, self.everything_said = tuple(names or ()), everything
        return chosen

    def desired(self, chosen: Sequence[Target], playbook: str | None) -> tuple[Desired, ...]:
        """The job on each of the targets, for verbs that start nothing."""
        from dflashctl.plan.model import Desired

        job = self.outline(playbook)
        nodes = _nodes(job, chosen)
        return tuple(Desired(playbook=job, target=target, nodes=nodes) for target in chosen)

    def desired_run(self, chosen: Sequence[Target], playbook: str | None) -> tuple[Desired, ...]:
        """The same with all that a new run needs: its files' hashes, its secrets, its id.

        What is the same for all is read once. Raises:
            MissingSetting: the playbook does not say what to run.
            SourceUnreadable: a file to push cannot be read.
            BadBuckets: the file of boundaries is none.
        """
        from dflashctl.errors import MissingSetting
        from dflashctl.plan.model import Desired
        from dflashctl.playbook.channels import read_watch
        from dflashctl.playbook.load import find_playbook
        from dflashctl.playbook.origin import read_source
        from dflashctl.playbook.payload import read_payload
        from dflashctl.playbook.secrets import read_secrets

        self.playbook_path = playbook
        job, boundaries = _whole(find_playbook(playbook, self.environ, self.cwd))
        if job.run is None:
            raise MissingSetting(verb=self.command, setting="run", path=job.path)
        files, source = read_payload(job.files), read_source(job)
        secrets = read_secrets(job.run, self.environ)
        watch = read_watch(job.watch, self.environ)
        wanted = tuple(
            Desired(
                playbook=job,
                target=target,
                files=files,
                secrets=secrets,
                source=source,
                boundaries=boundaries,
                watch=watch,
                nodes=_nodes(job, chosen),
            )
            for target in chosen
        )
        return self.with_new_ids(wanted)

    def desired_play(self, chosen: Sequence[Target], file: str) -> tuple[Desired, ...]:
        """The targets and what the steps of a playbook need: files and secrets only for some.

        Raises:
            MissingSetting: the playbook has no steps, or starts what it does not say.
        """
        from dataclasses import replace

        from dflashctl.agent.ids import archive_name
        from dflashctl.errors import MissingSetting
        from dflashctl.plan.model import Desired

        job = self.outline(file)
        from datetime import UTC, datetime

        archive = archive_name(datetime.now(UTC))
        if not job.steps:
            raise MissingSetting(verb=self.command, setting="steps", path=job.path)
        verbs = {step.do for step in job.steps}
        if "start" in verbs:
            return tuple(replace(one, archive=archive) for one in self.desired_run(chosen, file))
        about_files = any(step.when.files_changed is not None for step in job.steps)
        files: tuple[FileWanted, ...] = ()
        if about_files or "push" in verbs:
            from dflashctl.playbook.payload import read_payload

            job, _ = _whole(job.path)
            files = read_payload(job.files)
        nodes = _nodes(job, chosen)
        return tuple(
            Desired(playbook=job, target=target, files=files, archive=archive, nodes=nodes)
            for target in chosen
        )

    @staticmethod
    def with_new_ids(wanted: tuple[Desired, ...]) -> tuple[Desired, ...]:
        """The same with ids for runs that begin now.

        Each gets another one, as two targets may share a machine (a host, and a container on
        it); but what is one run over all of them has one.
        """
        import secrets
        from dataclasses import replace
        from datetime import UTC, datetime

        from dflashctl.agent.ids import run_id

        now = datetime.now(UTC)
        job = wanted[0].playbook
        ids: dict[str, None] = {}
        while len(ids) < (1 if job.distributed else len(wanted)):
            ids[run_id(job.name, now, secrets.choice)] = None
        if job.distributed:
            return tuple(replace(one, run_id=next(iter(ids))) for one in wanted)
        return tuple(replace(one, run_id=new) for one, new in zip(wanted, ids, strict=True))

    def target(self, names: Sequence[str] | None) -> Target:
        """The one target that is meant. Raises TooManyTargets, and what `targets` raises."""
        from dflashctl.errors import TooManyTargets

        chosen = self.targets(names, everything=False)
        if len(chosen) > 1:
            raise TooManyTargets(verb=self.command, named=tuple(target.name for target in chosen))
        return chosen[0]

    def same_again(self, target: str = "") -> Again:
        """How to type a further command for this job, with the options that were given.

        ``target``: on that one only.
        """
        from dflashctl.view.again import Again

        return Again(
            targets=(target,) if target else self.said,
            everything=self.everything_said and not target,
            inventory=self.inventory_path,
            playbook=self.playbook_path,
        )

    def reach(self) -> Reach:
        """The ways to the targets; a context manager."""
        return self.way(self.screen)

    def waiting_for(self, what: str, wanted: Sequence[Desired]) -> AbstractContextManager[None]:
        """A sign beside ``what`` and the targets, while something is awaited of them."""
        from dflashctl.inventory.select import in_short

        return self.screen.waiting(f"{what} {in_short([one.target for one in wanted])}")

    @contextmanager
    def at(self, target: Target, first: Question | None = None) -> Iterator[Agent]:
        """An agent at work on the target. Raises what stands between us and it.

        ``first``: what it is asked first, where that is known: it answers the sooner.
        """
        with self.reach() as reach:
            with self.screen.waiting(f"connecting to {target.name}"):
                agent = reach.agent(target, first)
            with agent:
                yield agent

    def observe(self, agent: Agent, desired: Desired, look: Look) -> Observed:
        """One look at the target."""
        with self.screen.waiting(f"looking at {desired.target.name}"):
            seen = agent.observe(look)
        self.keep_in_mind(desired.target.name, seen)
        return seen

    def keep_in_mind(self, target: str, seen: Observed) -> None:
        """For completion: names that were seen there."""
        from dflashctl.cli import memory

        if seen.run is not None:
            with self.noting:
                memory.add(self.environ, "runs", target, seen.run.id)

    def remember(self, kind: Kind, target: str, names: Iterable[str]) -> None:
        """For completion: all names that there are, the newest first. Thread-safe."""
        from dflashctl.cli import memory

        with self.noting:
            memory.remember(self.environ, kind, target, names)

    def with_texts(self, desired: Desired, seen: Observed) -> Desired:
        """The job with the texts of its files that are not on the target as they are here."""
        from dataclasses import replace

        from dflashctl.plan.diff import LONGEST_TEXT
        from dflashctl.playbook.payload import read_texts

        there = {file.dest: file.sha256 for file in seen.files}
        differing = {file.dest for file in desired.files if there.get(file.dest) != file.sha256}
        return replace(desired, texts=read_texts(desired.playbook.files, differing, LONGEST_TEXT))

    def who(self) -> Who:
        """Who does it, for the target's records."""
        import getpass
        import socket

        from dflashctl import __version__
        from dflashctl.agent.protocol import Who

        try:
            user = getpass.getuser()
        except (KeyError, OSError):  # an account that the system does not know
            user = "unknown"
        return Who(user=user, host=socket.gethostname(), version=__version__)


def _whole(path: Path) -> tuple[Playbook, BucketsFile | None]:
    """A playbook with its boundaries, if it has some, and the files that come with them.

    Raises:
        BadFile: with every mistake in it.
        BadBuckets: the file of boundaries is none.
    """
    from dataclasses import replace

    from dflashctl.playbook.boundaries import read_boundaries
    from dflashctl.playbook.library import library_files
    from dflashctl.playbook.load import load_playbook

    job = load_playbook(path)
    if job.buckets is None:
        return job, None
    boundaries = read_boundaries(job.buckets)
    return replace(job, files=(*job.files, *library_files(job.buckets))), boundaries


def _nodes(job: Playbook, chosen: Sequence[Target]) -> tuple[str, ...]:
    """The targets' names, where they are to have one run together."""
    return tuple(target.name for target in chosen) if job.distributed else ()


def begin(ctx: typer.Context, command: str, as_json: bool) -> Call:
    """The call of this context, now that its verb is known."""
    call = ctx.find_object(Call)
    assert call is not None, "main() puts it there"
    call.command, call.json = command, as_json
    return call
