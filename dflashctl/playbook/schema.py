"""The shape of a playbook file. What its fields mean together is checked in ``load``."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
)

from dflashctl.agent.metrics import METRICS, unknown_groups
from dflashctl.document.judge import named
from dflashctl.document.paths import absolute

if TYPE_CHECKING:
    from collections.abc import Mapping

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_LONGEST_S = 366 * 86400
_BYTES: dict[str, int] = {"B": 1} | {
    prefix + suffix: base**power
    for suffix, base in (("B", 1000), ("iB", 1024))
    for power, prefix in enumerate("KMGT", start=1)
}


def duration(value: object) -> float:
    """``90s``, ``15m``, ``2h`` or ``7d`` in seconds.

    Raises:
        ValueError: it is none of these, or more than a year.
    """
    form = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)([smhd])", str(value))
    if not form:
        raise ValueError(f"must be a number and a unit (90s, 15m, 2h, 7d), not {named(value)}")
    seconds = float(form[1]) * _SECONDS[form[2]]
    if seconds > _LONGEST_S:
        raise ValueError(f"must be at most a year (366d), not {value}")
    return seconds


def size(value: object) -> int:
    """``20GB`` (powers of 1000) or ``512MiB`` (powers of 1024) in bytes.

    Raises:
        ValueError: it is neither.
    """
    form = re.fullmatch(r"([0-9]{1,9})(?:\.([0-9]{1,3}))? ?([A-Za-z]+)", str(value))
    if not form or form[3] not in _BYTES:
        raise ValueError(f"must be a number and a unit (20GB, 512MiB), not {named(value)}")
    thousandths = int(form[1]) * 1000 + int((form[2] or "").ljust(3, "0"))
    return thousandths * _BYTES[form[3]] // 1000


def _name(text: str) -> str:
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,63}", text):
        raise ValueError(
            "must be small letters, digits and dashes, at most 64, a letter or digit first,"
            f" not {named(text)}"
        )
    return text


def _session(text: str) -> str:
    # tmux replaces `.` and `:`, expands `#`, escapes what does not print, and gives a first
    # `$`, `=`, `@` and the like a meaning.
    if not re.fullmatch(r"\w[^.:#\\]*", text) or not text.isprintable() or text != text.strip():
        raise ValueError(
            "must begin with a letter or digit and be without `.`, `:`, `#` and `\\`,"
            f" not {named(text)}"
        )
    return text


def _not_empty(text: str) -> str:
    if not text:
        raise ValueError("must not be empty")
    return text


def _mode(value: object) -> int:
    if not isinstance(value, str) or not re.fullmatch(r"0?[0-7]{3}", value):
        raise ValueError(f'must be octal digits in quotes ("0755"), not {named(value)}')
    return int(value, 8)


def _words(value: object) -> object:
    if isinstance(value, str):
        # What only a shell can make sense of is given to one.
        plain = re.fullmatch(r"[\w./ :,@%+-]+", value) and not re.search(r"[:,]( |$)", value)
        words = ", ".join(value.split()) if plain else f"bash, -c, {json.dumps(value)}"
        raise ValueError(f"must be a list of words, as in [{words}], not one text")
    return value


def _command(words: list[str]) -> list[str]:
    if not words or not words[0]:
        raise ValueError("must be a list whose first word is the program to run")
    return words


def _variable(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", text):
        raise ValueError(f"must be a variable's name (letters, digits, _), not {named(text)}")
    if text.startswith("DFLASHCTL_"):
        raise ValueError(f"must not begin with DFLASHCTL_, as dflashctl's own do, not {text}")
    return text


def _user(text: str) -> str:
    if not re.fullmatch(r"[^\s:/-][^\s:/]*", text):
        raise ValueError(f"must be the name of a user, not {named(text)}")
    return text


def _program(text: str) -> str:
    if not re.fullmatch(r"[^\s/-][^\s/]*", text):
        return absolute(text)
    return text


def _module(text: str) -> str:
    if not all(part.isidentifier() for part in text.split(".")):
        raise ValueError(f"must be a module's name, as in an import, not {named(text)}")
    return text


def _pattern(text: str) -> str:
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise ValueError(f"must be a regular expression: {error}") from error
    wrong = unknown_groups(pattern)
    if not pattern.groupindex or wrong:
        what = f"not {wrong[0]}" if wrong else "as in (?P<step>[0-9]+)"
        raise ValueError(f"its groups are named after metrics ({', '.join(METRICS)}), {what}")
    return text


def _archive(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", text):
        raise ValueError(
            f"must be letters, digits, `.`, `_` and `-`, a letter or digit first, not {named(text)}"
        )
    return text


def _signal(value: object) -> object:
    return value.removeprefix("SIG") if isinstance(value, str) else value


def _count(value: int) -> int:
    if not 0 <= value <= 1024:
        raise ValueError(f"must be from 0 to 1024, not {value}")
    return value


def _at_least(least: int) -> AfterValidator:
    def check(value: int) -> int:
        if not least <= value <= 1 << 40:
            raise ValueError(f"must be at least {least}, not {value}")
        return value

    return AfterValidator(check)


def _buckets(value: int) -> int:
    if not 1 <= value <= MOST_BUCKETS:
        raise ValueError(f"must be from 1 to {MOST_BUCKETS}, not {value}")
    return value


def _exit_code(code: int) -> int:
    if not 1 <= code <= 255:
        raise ValueError(f"must be an exit code from 1 to 255, not {code}")
    return code


MOST_BUCKETS = 16
Positive = Annotated[int, _at_least(1)]
NotNegative = Annotated[int, _at_least(0)]
Dest = Annotated[str, AfterValidator(absolute)]
TargetPath = Annotated[str, AfterValidator(absolute)]
Command = Annotated[list[str], AfterValidator(_command), BeforeValidator(_words)]
Variable = Annotated[str, AfterValidator(_variable)]
Seconds = Annotated[float, BeforeValidator(duration)]
Text = Annotated[str, AfterValidator(_not_empty)]


class _Mapping(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    # Fields of the format that a later version builds.
    not_yet: ClassVar[tuple[str, ...]] = ()


class File(_Mapping):
    """Files to push: one, a directory's, or those that match a pattern."""

    source: Text
    dest: Dest
    mode: Annotated[int, BeforeValidator(_mode)] | None = None


class Run(_Mapping):
    """How the trainer is started."""

    command: Command
    resume: Command | None = None
    cwd: TargetPath | None = None
    env_base: Literal["login", "minimal"] = "login"
    env: dict[Variable, str] = {}
    env_file: Text | None = None
    env_from: list[Variable] = []
    user: Annotated[str, AfterValidator(_user)] | None = None
    exit_codes: dict[
        Annotated[int, AfterValidator(_exit_code)],
        Literal["finished", "interrupted", "refused", "failed"],
    ] = {}


class Stop(_Mapping):
    """How the trainer is stopped."""

    signal: Annotated[
        Literal["INT", "TERM", "HUP", "USR1", "USR2", "QUIT"], BeforeValidator(_signal)
    ] = "INT"
    grace: Seconds = 120.0


class Ready(_Mapping):
    """When a new run counts as started."""

    not_yet = ("metric", "within")
    alive_for: Seconds = 10.0


class Preflight(_Mapping):
    """What must hold before anything is stopped."""

    gpus: Annotated[int, AfterValidator(_count)] | None = None
    free_space: Annotated[int, BeforeValidator(size)] | None = None
    python: Annotated[str, AfterValidator(_program)] | None = None
    imports: list[Annotated[str, AfterValidator(_module)]] = []


class Checkpoints(_Mapping):
    """Where the trainer keeps its checkpoints."""

    not_yet = ("pattern", "step_from", "complete_when", "archive_to", "trash", "keep")
    path: TargetPath


class Metrics(_Mapping):
    """Where the metrics are found."""

    from_: Annotated[Literal["output"], Field(alias="from")] = "output"
    pattern: Annotated[str, AfterValidator(_pattern)] | None = None
    jsonl: TargetPath | None = None


class Dataset(_Mapping):
    """Where the lengths are."""

    path: TargetPath
    column: Text | None = None
    format: Literal[
        "auto", "npy", "npz", "txt", "csv", "tsv", "jsonl", "parquet", "arrow", "idx"
    ] = "auto"
    python: Annotated[str, AfterValidator(_program)] | None = None


class Batching(_Mapping):
    """How training makes its batches."""

    count: Annotated[int, AfterValidator(_buckets)] = 6
    token_budget: Positive | None = None
    max_batch_size: Positive | None = None
    max_length: Positive | None = None
    align: Positive = 1
    window: NotNegative = 0
    order: Literal["random", "stratified"] = "stratified"
    ranks: Positive | None = None
    accumulation: Positive = 1
    seed: NotNegative = 0


class Count(_Mapping):
    """How many there are."""

    at_least: NotNegative | None = None
    at_most: NotNegative | None = None


class When(_Mapping):
    """What must be so, when the target is looked at, for a step to be done."""

    state: list[
        Literal[
            "NONE", "STARTING", "RUNNING", "STALLED", "ADOPTED", "STOPPED", "FINISHED", "FAILED",
            "ORPHANED", "INTERRUPTED",
        ]
    ] = []  # fmt: skip
    gpus_free: Annotated[int, AfterValidator(_count)] | None = None
    checkpoints: Count | None = None
    files_changed: bool | None = None
    missing: list[Annotated[str, AfterValidator(_program)]] = []


class _Step(_Mapping):
    when: When = When()
    on_failure: Literal["stop", "continue"] = "stop"


class PlainStep(_Step):
    """A step that needs to be told nothing more."""

    do: Literal["push", "stop", "clear_checkpoints", "prune_checkpoints", "start",
                "optimize_buckets"]  # fmt: skip


class RunStep(_Step):
    """A command on the target."""

    do: Literal["run"]
    command: Command
    cwd: TargetPath | None = None
    env_base: Literal["login", "minimal"] = "login"
    env: dict[Variable, str] = {}
    timeout: Seconds = 600.0


class ArchiveStep(_Step):
    """Complete checkpoints into an archive; without a name it is named for the moment."""

    do: Literal["archive_checkpoints"]
    name: Annotated[str, AfterValidator(_archive)] | None = None


class RestoreStep(_Step):
    """An archive's checkpoints back to where they were."""

    do: Literal["restore_checkpoints"]
    name: Annotated[str, AfterValidator(_archive)]


class WaitStep(_Step):
    """Until the run that was started has proved itself."""

    do: Literal["wait_ready"]
    alive_for: Seconds | None = None


Step = Annotated[
    PlainStep | RunStep | ArchiveStep | RestoreStep | WaitStep, Field(discriminator="do")
]


class PlaybookFile(_Mapping):
    """The whole file."""

    not_yet = ("watch", "distributed")
    version: Literal[1]
    name: Annotated[str, AfterValidator(_name)]
    session: Annotated[str, AfterValidator(_session)] | None = None
    files: list[File] = []
    run: Run | None = None
    stop: Stop = Stop()
    ready: Ready = Ready()
    preflight: Preflight = Preflight()
    checkpoints: Checkpoints | None = None
    metrics: Metrics = Metrics()
    buckets: Text | None = None
    dataset: Dataset | None = None
    batching: Batching | None = None
    steps: list[Step] = []


def check(values: Mapping[str | int, Any]) -> tuple[PlaybookFile | None, list[Any]]:
    """The file as checked values, or None and pydantic's list of what is wrong."""
    try:
        return PlaybookFile.model_validate(values), []
    except ValidationError as error:
        return None, error.errors(include_url=False)
