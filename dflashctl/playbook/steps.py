"""The steps that a playbook may name, as they are written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, Field

from dflashctl.playbook.values import (
    Command,
    NotNegative,
    Part,
    Seconds,
    TargetPath,
    Variable,
    valid_archive,
    valid_count,
    valid_program,
)

if TYPE_CHECKING:
    pass


class Count(Part):
    """How many there are."""

    at_least: NotNegative | None = None
    """So many or more."""
    at_most: NotNegative | None = None
    """So many or fewer."""


class When(Part):
    """What must be so, when the target is looked at, for a step to be done."""

    state: list[
        Literal[
            "NONE", "STARTING", "RUNNING", "STALLED", "ADOPTED", "STOPPED", "FINISHED", "FAILED",
            "ORPHANED", "INTERRUPTED",
        ]
    ] = []  # fmt: skip
    """The job is in one of these states."""
    gpus_free: Annotated[int, AfterValidator(valid_count)] | None = None
    """So many GPUs at least are held by nobody else."""
    checkpoints: Count | None = None
    """How many checkpoints there are."""
    files_changed: bool | None = None
    """Whether the files there differ from those here."""
    missing: list[Annotated[str, AfterValidator(valid_program)]] = []
    """One of these is not there: absolute paths, names of programs."""


class AnyStep(Part):
    """What every step may say."""

    when: When = When()
    """What must be so for the step to be done; else it is left out."""
    on_failure: Literal["stop", "continue"] = "stop"
    """stop: the rest is not done; continue: it is."""


class PlainStep(AnyStep):
    """A step that needs to be told nothing more."""

    do: Literal["push", "stop", "clear_checkpoints", "prune_checkpoints", "start",
                "optimize_buckets"]  # fmt: skip
    """What is done."""


class RunStep(AnyStep):
    """A command on the target."""

    do: Literal["run"]
    """A command on the target."""
    command: Command
    """The words to run; no shell reads them."""
    cwd: TargetPath | None = None
    """Where it runs; default: the user's home."""
    env_base: Literal["login", "minimal"] = "login"
    """login: start from the user's login environment; minimal: from nearly nothing."""
    env: dict[Variable, str] = {}
    """Further variables."""
    timeout: Seconds = 600.0
    """How long it may take."""


class ArchiveStep(AnyStep):
    """Complete checkpoints into an archive; without a name it is named for the moment."""

    do: Literal["archive_checkpoints"]
    """Complete checkpoints into an archive."""
    name: Annotated[str, AfterValidator(valid_archive)] | None = None
    """The archive's name; default: made of the moment."""


class RestoreStep(AnyStep):
    """An archive's checkpoints back to where they were."""

    do: Literal["restore_checkpoints"]
    """An archive's checkpoints back to where they were."""
    name: Annotated[str, AfterValidator(valid_archive)]
    """The archive's name."""


class WaitStep(AnyStep):
    """Until the run that was started has proved itself."""

    do: Literal["wait_ready"]
    """Wait until the run that was started has proved itself."""
    alive_for: Seconds | None = None
    """How long it must live; default: ready.alive_for."""


Step = Annotated[
    PlainStep | RunStep | ArchiveStep | RestoreStep | WaitStep, Field(discriminator="do")
]
