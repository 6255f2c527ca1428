"""The shape of a playbook file. What its fields mean together is checked in ``load``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    model_validator,
)

from dflashctl.playbook.steps import Step
from dflashctl.playbook.values import (
    INTERFACE,
    MODE,
    MOST_BUCKETS,
    NAME,
    Bytes,
    Command,
    Dest,
    Inside,
    NotNegative,
    Part,
    Positive,
    Seconds,
    Signal,
    TargetPath,
    Text,
    Url,
    Variable,
    form,
    number,
    valid_buckets,
    valid_count,
    valid_entry,
    valid_exit_code,
    valid_interface,
    valid_metric,
    valid_mode,
    valid_module,
    valid_name,
    valid_pattern,
    valid_port,
    valid_processes,
    valid_program,
    valid_session,
    valid_step_pattern,
    valid_user,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


class File(Part):
    """Files to push: one, a directory's, or those that match a pattern."""

    source: Text
    """A file, a directory or a pattern (src/**/*.py) here, relative to this file."""
    dest: Dest
    """Where it goes on the target; a folder if it ends in / or the source is several files."""
    mode: Annotated[int, BeforeValidator(valid_mode), form(MODE)] | None = None
    """Its permissions, octal and in quotes: "0755"; default: its own."""


class Run(Part):
    """How the trainer is started."""

    command: Command
    """The words to run; no shell reads them."""
    resume: Command | None = None
    """The words that start from the newest checkpoint; default: the command."""
    resume_new_buckets: Command | None = None
    """The same, after the buckets have changed; default: resume."""
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
    user: Annotated[str, AfterValidator(valid_user)] | None = None
    """The user it runs as; default: the one we arrive as."""
    exit_codes: dict[
        Annotated[int, AfterValidator(valid_exit_code), form("[1-9][0-9]{0,2}")],
        Literal["finished", "interrupted", "refused", "failed"],
    ] = {}
    """What the trainer's own exit codes mean; 0 is finished, others are failed."""


class Stop(Part):
    """How the trainer is stopped."""

    signal: Signal = "INT"
    """The first signal."""
    grace: Seconds = 120.0
    """How long it may take before TERM, then KILL."""


class Ready(Part):
    """When a new run counts as started."""

    alive_for: Seconds = 10.0
    """A new run counts as started once it lived this long."""
    metric: Annotated[str, AfterValidator(valid_metric)] | None = None
    """A metric that it must have printed, too."""
    within: Seconds = 900.0
    """How long it may take to print that."""


class Preflight(Part):
    """What must hold before anything is stopped."""

    gpus: Annotated[int, AfterValidator(valid_count), number(0, 1024)] | None = None
    """How many GPUs must be there, held by nobody else; 0: the job uses none."""
    free_space: Bytes | None = None
    """How much room the checkpoints need."""
    python: Annotated[str, AfterValidator(valid_program)] | None = None
    """An interpreter on the target that must be there."""
    imports: list[Annotated[str, AfterValidator(valid_module)]] = []
    """Modules that this interpreter must be able to import."""


class JsonPlace(Part):
    """A field of a JSON file in a checkpoint's directory."""

    json_file: Annotated[Inside, Field(alias="json")]
    """The file, within the checkpoint's directory."""
    field: Text
    """The field; dots lead inwards."""


class CompleteWhen(Part):
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


class Trash(Part):
    """What was cleared is purged when it is neither among the last ``keep`` nor that young."""

    keep: NotNegative = 1
    """How many of the last clearings are never purged."""
    for_: Annotated[Seconds, Field(alias="for")] = 7 * 86400.0
    """How long a clearing is never purged."""


class Keep(Part):
    """What ``checkpoints prune`` keeps."""

    last: Positive | None = None
    """The last so many."""
    every: Positive | None = None
    """Those whose step is a multiple."""


class Checkpoints(Part):
    """Where the trainer keeps its checkpoints, and what one is."""

    path: TargetPath
    """The folder where the trainer saves, on the target."""
    pattern: Annotated[str, AfterValidator(valid_entry)] | None = None
    """Which entries are checkpoints, as a shell pattern; default: each."""
    step_from: (
        Annotated[
            Annotated[str, AfterValidator(valid_step_pattern), Tag("text")]
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


class Metrics(Part):
    """Where the metrics are found."""

    from_: Annotated[Literal["output"], Field(alias="from")] = "output"
    """output: what the run prints is read."""
    pattern: Annotated[str, AfterValidator(valid_pattern)] | None = None
    """A regular expression whose groups are named after metrics."""
    jsonl: TargetPath | None = None
    """A file on the target to which the trainer writes a JSON object a line."""


class Notify(Part):
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


class Watch(Part):
    """How a run is watched on its target."""

    every: Seconds = 60.0
    """Between two looks."""
    notify: list[Notify] = []
    """Who is told what speaks against the run, and how it ended."""
    textfile: TargetPath | None = None
    """A file for node_exporter's textfile collector, written with each look."""
    restart: Literal["never", "on-failure"] = "never"
    """on-failure: a run that fails is started again from its newest complete checkpoint."""
    restart_limit: Positive = 3
    """How often at most, counted from the start by a person."""
    restart_after: Seconds = 30.0
    """How long after the first failure; after each further one twice as long."""


class Dataset(Part):
    """Where the lengths are."""

    path: TargetPath
    """A file, a folder or a pattern on the target: lengths, or the data to take them from."""
    column: Text | None = None
    """The column or field with the lengths; default: found by its name."""
    format: Literal[
        "auto", "npy", "npz", "txt", "csv", "tsv", "jsonl", "parquet", "arrow", "idx"
    ] = "auto"
    """How it is stored; auto: by its name."""
    python: Annotated[str, AfterValidator(valid_program)] | None = None
    """An interpreter on the target that can read it (numpy, pyarrow)."""


class Batching(Part):
    """How training makes its batches."""

    count: Annotated[int, AfterValidator(valid_buckets), number(1, MOST_BUCKETS)] = 6
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


class Distributed(Part):
    """One run over the targets of a command, by torchrun on each of them."""

    launcher: Literal["torchrun"]
    """torchrun: torch's own elastic launcher, of the run's interpreter."""
    nproc_per_node: Annotated[int, AfterValidator(valid_processes), number(1, 1024)]
    """How many processes on each target, as a rule one a GPU."""
    port: Annotated[int, AfterValidator(valid_port), number(1, 65535)] = 29400
    """Where the first target listens for the others."""
    rendezvous: Literal["static", "c10d"] = "static"
    """static: all targets, from begin to end; c10d: from min_nodes on, as they come and go."""
    min_nodes: Positive | None = None
    """With c10d: how few targets may go on; default: all."""
    max_restarts: NotNegative = 0
    """How often torchrun starts its processes again when some of them fail."""
    interface: Annotated[str, AfterValidator(valid_interface), form(INTERFACE)] = "auto"
    """The network interface between the targets; auto: on the network that all of them share."""


class PlaybookFile(Part):
    """The whole file."""

    version: Literal[1]
    """The version of this format."""
    name: Annotated[str, AfterValidator(valid_name), form(NAME)]
    """The job's identity on a target: small letters, digits and dashes."""
    session: Annotated[str, AfterValidator(valid_session)] | None = None
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
    distributed: Distributed | None = None
    """One run over several targets; default: a run of its own on each."""
    steps: list[Step] = []
    """What `dflashctl play` does, in order."""
    on_partial: Literal["keep", "stop", "rollback"] | None = None
    """What becomes of the new runs when one of several targets fails; default: keep."""


def check(values: Mapping[str | int, Any]) -> tuple[PlaybookFile | None, list[Any]]:
    """The file as checked values, or None and pydantic's list of what is wrong."""
    try:
        return PlaybookFile.model_validate(values), []
    except ValidationError as error:
        return None, error.errors(include_url=False)
