"""The shape of a playbook file. What its fields mean together is checked in ``load``."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    WithJsonSchema,
    model_validator,
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

_DURATION = r"([0-9]{1,9}(?:\.[0-9]{1,3})?)([smhd])"
_SIZE = r"([0-9]{1,9})(?:\.([0-9]{1,3}))? ?([A-Za-z]+)"
_NAME = r"[a-z0-9][a-z0-9-]{0,63}"
_MODE = r"0?[0-7]{3}"
_VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"


def _form(pattern: str) -> WithJsonSchema:
    """What an editor is told of a text that is checked here."""
    return WithJsonSchema({"type": "string", "pattern": f"^{pattern}$"})


def _number(lowest: int, highest: int) -> WithJsonSchema:
    return WithJsonSchema({"type": "integer", "minimum": lowest, "maximum": highest})


def duration(value: object) -> float:
    """``90s``, ``15m``, ``2h`` or ``7d`` in seconds.

    Raises:
        ValueError: it is none of these, or more than a year.
    """
    form = re.fullmatch(_DURATION, str(value))
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
    form = re.fullmatch(_SIZE, str(value))
    if not form or form[3] not in _BYTES:
        raise ValueError(f"must be a number and a unit (20GB, 512MiB), not {named(value)}")
    thousandths = int(form[1]) * 1000 + int((form[2] or "").ljust(3, "0"))
    return thousandths * _BYTES[form[3]] // 1000


def _name(text: str) -> str:
    if not re.fullmatch(_NAME, text):
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
    if not isinstance(value, str) or not re.fullmatch(_MODE, value):
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
    if not re.fullmatch(_VARIABLE, text):
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


def _step_pattern(text: str) -> str:
    try:
        groups = re.compile(text).groups
    except re.error as error:
        raise ValueError(f"must be a regular expression: {error}") from error
    if groups != 1:
        raise ValueError(f"must have one group, the step, as in 'step-([0-9]+)', not {groups}")
    return text


def _entry(text: str) -> str:
    if not text or "/" in text:
        raise ValueError(f"must be a pattern for names, without a slash, not {named(text)}")
    return text


def _inside(text: str) -> str:
    if not text or any(part in ("", ".", "..") for part in text.split("/")):
        raise ValueError(f"must be a file's path within the folder, not {named(text)}")
    return text


def _metric(text: str) -> str:
    if text not in METRICS:
        raise ValueError(f"must be one of {', '.join(METRICS)}, not {named(text)}")
    return text


def _url(text: str) -> str:
    if not re.fullmatch(r"https?://[^\s/]+\S*", text):
        raise ValueError(
            f"must be an address that begins with http:// or https://, not {named(text)}"
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
Positive = Annotated[int, _at_least(1), WithJsonSchema({"type": "integer", "minimum": 1})]
NotNegative = Annotated[int, _at_least(0), WithJsonSchema({"type": "integer", "minimum": 0})]
Inside = Annotated[str, AfterValidator(_inside)]
Dest = Annotated[str, AfterValidator(absolute), _form("/.*")]
TargetPath = Annotated[str, AfterValidator(absolute), _form("/.*")]
Command = Annotated[list[str], AfterValidator(_command), BeforeValidator(_words)]
Variable = Annotated[str, AfterValidator(_variable), _form(_VARIABLE)]
Url = Annotated[str, AfterValidator(_url)]
Seconds = Annotated[float, BeforeValidator(duration), _form(_DURATION)]
Bytes = Annotated[int, BeforeValidator(size), _form(_SIZE)]
Signal = Annotated[
    Literal["INT", "TERM", "HUP", "USR1", "USR2", "QUIT"],
    BeforeValidator(_signal),
    _form("(SIG)?(INT|TERM|HUP|USR1|USR2|QUIT)"),
]
Text = Annotated[str, AfterValidator(_not_empty)]


class _Mapping(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    # Fields of the format that a later version builds.
    not_yet: ClassVar[tuple[str, ...]] = ()


class File(_Mapping):
    """Files to push: one, a directory's, or those that match a pattern."""

    source: Text
    """A file, a directory or a pattern (src/**/*.py) here, relative to this file."""
    dest: Dest
    """Where it goes on the target; a folder if it ends in / or the source is several files."""
    mode: Annotated[int, BeforeValidator(_mode), _form(_MODE)] | None = None
    """Its permissions, octal and in quotes: "0755"; default: its own."""


class Run(_Mapping):
    """How the trainer is started."""

    command: Command
    """The words to run; no shell reads them."""
    resume: Command | None = None
    """The words that start from the newest checkpoint; default: the command."""
    cwd: TargetPath | None = None
    """Where it runs; default: the user's home."""
    env_base: Literal["login", "minimal"] = "login"
    """login: start from the user's login environment; minimal: from nearly nothing."""
    env: dict[Variable, str] = {}
    """Further variables; values are text, so numbers need quotes."""
    env_file: Text | None = None
    """A file with lines of NAME=value on this side; the values are secret."""
    env_from: list[Variable] = []
    """Variables of your own environment to hand on; the values are secret."""
    user: Annotated[str, AfterValidator(_user)] | None = None
    """The user it runs as; default: the one we arrive as."""
    exit_codes: dict[
        Annotated[int, AfterValidator(_exit_code), _form("[1-9][0-9]{0,2}")],
        Literal["finished", "interrupted", "refused", "failed"],
    ] = {}
    """What the trainer's own exit codes mean; 0 is finished, others are failed."""


class Stop(_Mapping):
    """How the trainer is stopped."""

    signal: Signal = "INT"
    """The first signal."""
    grace: Seconds = 120.0
    """How long it may take before TERM, then KILL."""


class Ready(_Mapping):
    """When a new run counts as started."""

    alive_for: Seconds = 10.0
    """A new run counts as started once it lived this long."""
    metric: Annotated[str, AfterValidator(_metric)] | None = None
    """A metric that it must have printed, too."""
    within: Seconds = 900.0
    """How long it may take to print that."""


class Preflight(_Mapping):
    """What must hold before anything is stopped."""

    gpus: Annotated[int, AfterValidator(_count), _number(0, 1024)] | None = None
    """How many GPUs must be there, held by nobody else; 0: the job uses none."""
    free_space: Bytes | None = None
    """How much room the checkpoints need."""
    python: Annotated[str, AfterValidator(_program)] | None = None
    """An interpreter on the target that must be there."""
    imports: list[Annotated[str, AfterValidator(_module)]] = []
    """Modules that this interpreter must be able to import."""


class JsonPlace(_Mapping):
    """A field of a JSON file in a checkpoint's directory."""

    json_file: Annotated[Inside, Field(alias="json")]
    """The file, within the checkpoint's directory."""
    field: Text
    """The field; dots lead inwards."""


class CompleteWhen(_Mapping):
    """What makes a checkpoint a complete one: one of these."""

    file: Inside | None = None
    """This file is in the checkpoint's directory."""
    quiet_for: Seconds | None = None
    """Nothing in it was modified for so long."""
    pointer: Inside | None = None
    """This file beside the checkpoints names the newest complete one, or its step."""
    json_file: Annotated[Inside | None, Field(alias="json")] = None
    """This JSON file in the checkpoint's directory has `field`, which is true."""
    field: Text | None = None
    """The field of the JSON file; dots lead inwards."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        rules = (self.file, self.quiet_for, self.pointer, self.json_file)
        if sum(rule is not None for rule in rules) != 1:
            raise ValueError("must have one of file, quiet_for, pointer, or json with field")
        if (self.json_file is None) != (self.field is None):
            raise ValueError("must have json and field together: {json: state.json, field: done}")
        return self


class Trash(_Mapping):
    """What was cleared is purged when it is neither among the last ``keep`` nor that young."""

    keep: NotNegative = 1
    """How many of the last clearings are never purged."""
    for_: Annotated[Seconds, Field(alias="for")] = 7 * 86400.0
    """How long a clearing is never purged."""


class Keep(_Mapping):
    """What ``checkpoints prune`` keeps."""

    last: Positive | None = None
    """The last so many."""
    every: Positive | None = None
    """Those whose step is a multiple."""


class Checkpoints(_Mapping):
    """Where the trainer keeps its checkpoints, and what one is."""

    path: TargetPath
    """The folder where the trainer saves, on the target."""
    pattern: Annotated[str, AfterValidator(_entry)] | None = None
    """Which entries are checkpoints, as a shell pattern; default: each."""
    step_from: (
        Annotated[
            Annotated[str, AfterValidator(_step_pattern), Tag("text")]
            | Annotated[JsonPlace, Tag("mapping")],
            Discriminator(lambda value: "mapping" if isinstance(value, dict) else "text"),
        ]
        | None
    ) = None
    """A regular expression with one group, the step; or a JSON field in the checkpoint."""
    complete_when: CompleteWhen | None = None
    """What makes a checkpoint a complete one; default: each is taken to be complete."""
    archive_to: TargetPath | None = None
    """The folder for archives, on the target."""
    trash: Trash | None = None
    """What may be purged of that which was cleared; default: nothing."""
    keep: Keep | None = None
    """What `checkpoints prune` keeps."""


class Metrics(_Mapping):
    """Where the metrics are found."""

    from_: Annotated[Literal["output"], Field(alias="from")] = "output"
    """output: what the run prints is read."""
    pattern: Annotated[str, AfterValidator(_pattern)] | None = None
    """A regular expression whose groups are named after metrics."""
    jsonl: TargetPath | None = None
    """A file on the target to which the trainer writes a JSON object a line."""


class Notify(_Mapping):
    """Somebody to tell, in one of these ways."""

    webhook: Url | None = None
    """An address that gets a JSON object by POST."""
    slack: Url | None = None
    """An incoming webhook of Slack or of what understands its messages."""
    ntfy: Url | None = None
    """A topic of an ntfy server."""
    webhook_from: Variable | None = None
    """The variable of the operator's environment with such an address, which is secret."""
    slack_from: Variable | None = None
    """The same for Slack."""
    ntfy_from: Variable | None = None
    """The same for ntfy."""
    email: Text | None = None
    """A mail address; the target's sendmail takes the mail."""
    command: Command | None = None
    """A program on the target that gets the JSON object on its standard input."""


class Watch(_Mapping):
    """How a run is watched on its target."""

    not_yet = ("restart",)
    every: Seconds = 60.0
    """Between two looks."""
    notify: list[Notify] = []
    """Who is told what speaks against the run, and how it ended."""
    textfile: TargetPath | None = None
    """A file for node_exporter's textfile collector, written with each look."""


class Dataset(_Mapping):
    """Where the lengths are."""

    path: TargetPath
    """A file, a folder or a pattern on the target: lengths, or the data to take them from."""
    column: Text | None = None
    """The column or field with the lengths; default: found by its name."""
    format: Literal[
        "auto", "npy", "npz", "txt", "csv", "tsv", "jsonl", "parquet", "arrow", "idx"
    ] = "auto"
    """How it is stored; auto: by its name."""
    python: Annotated[str, AfterValidator(_program)] | None = None
    """An interpreter on the target that can read it (numpy, pyarrow)."""


class Batching(_Mapping):
    """How training makes its batches."""

    count: Annotated[int, AfterValidator(_buckets), _number(1, MOST_BUCKETS)] = 6
    """How many buckets, at most 16."""
    token_budget: Positive | None = None
    """The most tokens in a batch, padding included."""
    max_batch_size: Positive | None = None
    """The most samples in a batch."""
    max_length: Positive | None = None
    """The last boundary, above every length; default: just above the longest."""
    align: Positive = 1
    """Inner boundaries are multiples of this."""
    window: NotNegative = 0
    """Sort windows of so many samples inside a bucket; 0: none."""
    order: Literal["random", "stratified"] = "stratified"
    """How the batches of several buckets follow each other."""
    ranks: Positive | None = None
    """Processes that share the batches; default: the inventory's gpus, else 1."""
    accumulation: Positive = 1
    """Batches of each process in one step of the optimizer."""
    seed: NotNegative = 0
    """The seed of every shuffle."""


class Count(_Mapping):
    """How many there are."""

    at_least: NotNegative | None = None
    """So many or more."""
    at_most: NotNegative | None = None
    """So many or fewer."""


class When(_Mapping):
    """What must be so, when the target is looked at, for a step to be done."""

    state: list[
        Literal[
            "NONE", "STARTING", "RUNNING", "STALLED", "ADOPTED", "STOPPED", "FINISHED", "FAILED",
            "ORPHANED", "INTERRUPTED",
        ]
    ] = []  # fmt: skip
    """The job is in one of these states."""
    gpus_free: Annotated[int, AfterValidator(_count)] | None = None
    """So many GPUs at least are held by nobody else."""
    checkpoints: Count | None = None
    """How many checkpoints there are."""
    files_changed: bool | None = None
    """Whether the files there differ from those here."""
    missing: list[Annotated[str, AfterValidator(_program)]] = []
    """One of these is not there: absolute paths, names of programs."""


class _Step(_Mapping):
    when: When = When()
    """What must be so for the step to be done; else it is left out."""
    on_failure: Literal["stop", "continue"] = "stop"
    """stop: the rest is not done; continue: it is."""


class PlainStep(_Step):
    """A step that needs to be told nothing more."""

    do: Literal["push", "stop", "clear_checkpoints", "prune_checkpoints", "start",
                "optimize_buckets"]  # fmt: skip
    """What is done."""


class RunStep(_Step):
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


class ArchiveStep(_Step):
    """Complete checkpoints into an archive; without a name it is named for the moment."""

    do: Literal["archive_checkpoints"]
    """Complete checkpoints into an archive."""
    name: Annotated[str, AfterValidator(_archive)] | None = None
    """The archive's name; default: made of the moment."""


class RestoreStep(_Step):
    """An archive's checkpoints back to where they were."""

    do: Literal["restore_checkpoints"]
    """An archive's checkpoints back to where they were."""
    name: Annotated[str, AfterValidator(_archive)]
    """The archive's name."""


class WaitStep(_Step):
    """Until the run that was started has proved itself."""

    do: Literal["wait_ready"]
    """Wait until the run that was started has proved itself."""
    alive_for: Seconds | None = None
    """How long it must live; default: ready.alive_for."""


Step = Annotated[
    PlainStep | RunStep | ArchiveStep | RestoreStep | WaitStep, Field(discriminator="do")
]


class PlaybookFile(_Mapping):
    """The whole file."""

    not_yet = ("distributed",)
    version: Literal[1]
    """The version of this format."""
    name: Annotated[str, AfterValidator(_name), _form(_NAME)]
    """The job's identity on a target: small letters, digits and dashes."""
    session: Annotated[str, AfterValidator(_session)] | None = None
    """Its tmux session; default: the name."""
    files: list[File] = []
    """What goes to the target."""
    run: Run | None = None
    """How the trainer is started."""
    stop: Stop = Stop()
    """How the trainer is stopped."""
    ready: Ready = Ready()
    """When a new run counts as started."""
    preflight: Preflight = Preflight()
    """What must hold before anything is stopped."""
    checkpoints: Checkpoints | None = None
    """Where the trainer keeps its checkpoints."""
    metrics: Metrics = Metrics()
    """Where the metrics are found."""
    watch: Watch | None = None
    """How a run is watched on its target; default: it is not."""
    buckets: Text | None = None
    """The file of bucket boundaries, relative to this file; pushed, and named in DFLASH_BUCKETS."""
    dataset: Dataset | None = None
    """Where the lengths of the samples are."""
    batching: Batching | None = None
    """How training makes its batches."""
    steps: list[Step] = []
    """How training makes its batches."""


def check(values: Mapping[str | int, Any]) -> tuple[PlaybookFile | None, list[Any]]:
    """The file as checked values, or None and pydantic's list of what is wrong."""
    try:
        return PlaybookFile.model_validate(values), []
    except ValidationError as error:
        return None, error.errors(include_url=False)
