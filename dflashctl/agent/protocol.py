"""The one vocabulary of both sides: what is asked of the agent, and what it answers.

Over one agent process, lines of JSON (see ``wire``) travel in both directions::

    loader  -> "dflashctl-agent 1 ready" or "... send" (then the bundle follows on its stdin)
    client  -> Look | Stage | Chunk* | Commit | Ask | Logs | ListRuns | RecallRun | ReadBlobs |
               Optimize | Detach | Fetch | Cancel | RunCommand | Listen | Connect | LayMark |
               TakeMark
    agent   -> Event*, then one reply:  Observed | Staging | Outcome | LogEnd | RunsListed |
               RunRecord | Texts | Optimized | Detached | Cancelled | CommandEnd | Heard |
               Connected | Marks | Failure

While a program runs, Input, Interrupt and Taken follow its RunCommand.

Times are seconds since the epoch, durations seconds, sizes bytes unless a name says
otherwise. An unknown value is None. Modes are permission bits.
"""

from __future__ import annotations

from typing import Any, Literal

from dflashctl.agent.fabric import Connected, Heard, Listening, Marks, Together
from dflashctl.agent.keeping import CheckpointAction, Pull, Pulled, PullEvent, StoreSpec
from dflashctl.agent.lean import dataclass, field
from dflashctl.agent.optimizing import (
    Cancel,
    Cancelled,
    Detach,
    Detached,
    Fetch,
    Optimize,
    Optimized,
    Working,
)
from dflashctl.agent.recorded import (
    About,
    ListRuns,
    ReadBlobs,
    RecallRun,
    RunRecord,
    RunsListed,
    Texts,
)
from dflashctl.agent.seen import Ending, Observed, State
from dflashctl.agent.watching import Notified, Notify, Watch

VERSION = 1
GREETING = "dflashctl-agent"
HEARTBEAT_S = 5.0
# So many bytes of a program's streams may be on their way in each direction.
WINDOW = 1 << 20


# --- what is asked -------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class FileWanted:
    """A file that the playbook wants on the target.

    ``dest`` is absolute, or below the folder for what training imports (dflashctl.agent.library).
    """

    dest: str
    sha256: str
    size: int
    mode: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """Preflight: can this interpreter import these modules? Costs an interpreter start.

    ``env``: what the run declares, in which PYTHONPATH may lead to them.
    """

    python: str
    imports: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One look at a target for one job. Takes no lock and changes nothing.

    Attributes:
        job: the playbook's name.
        session: its tmux session.
        tmux_socket: a socket name, or a path when it holds a slash; None: the default.
        checkpoints: the playbook's checkpoints.
        whole_store: whether every checkpoint, archive and clearing is listed.
        metric: what the checkpoints are compared by, where they are listed.
        files: what the playbook wants in place, to compare with what is there.
        cwd: the run's working directory, to be checked.
        user: the user the run is to run as, to be checked.
        exit_codes: what the trainer's own exit codes mean.
        probe: an interpreter to try; None: none.
        gpus: whether to ask nvidia-smi (its answer may take seconds).
        term: the operator's terminal type, to be looked up in the target's terminfo.
        dataset: data whose fingerprint is wanted.
        driver: whether to compare the versions of the NVIDIA driver's halves.
        texts: up to how many bytes a changed file's present text is wanted; 0: not at all.
        paths: what may be there or not: absolute paths, and names of programs.
        network: whether the addresses at which others could reach the target are wanted.
    """

    job: str
    session: str
    tmux_socket: str | None = None
    checkpoints: StoreSpec | None = None
    whole_store: bool = False
    metric: str | None = None
    files: tuple[FileWanted, ...] = ()
    cwd: str | None = None
    user: str | None = None
    exit_codes: dict[str, Ending] | None = None
    probe: Probe | None = None
    gpus: bool = True
    term: str | None = None
    dataset: str | None = None
    driver: bool = False
    texts: int = 0
    paths: tuple[str, ...] = ()
    network: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Make a staging folder for a transaction.

    ``over`` says how the archive will come: "file" is by SCP or a copy, into the folder
    that the reply names; "channel" as `Chunk` lines on this very channel.
    """

    transaction: str
    bytes_needed: int
    over: Literal["file", "channel"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A piece of the archive in base64; an empty one ends it."""

    data: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Who:
    """Who does it: the operator's user and machine, and the tool's version."""

    user: str
    host: str
    version: str


# The actions: a closed union. A plan is a list of these, each with a reason beside it.


@dataclass(frozen=True, slots=True, kw_only=True)
class Receive:
    """Check the staged archive against these hashes and keep its files as blobs."""

    files: tuple[FileWanted, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRun:
    """Stop what runs under the session: our run, or a hand-started (adopted) one.

    ``signal`` goes to the foreground group; after ``grace_s`` TERM and then KILL go to
    the whole tree. Done when every process of it is gone.
    """

    session: str
    run_id: str | None
    signal: str
    grace_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceFiles:
    """Put blobs in place, each by an atomic rename within its own directory."""

    files: tuple[FileWanted, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRun:
    """Start the trainer under a supervisor in a new tmux session, and record the run.

    Attributes:
        run_id: chosen by the control side; the identity of the run.
        session: the tmux session to create.
        command: the trainer's words; they never meet a shell.
        launcher: words before them, of what starts the trainer's processes.
        cwd: None: the user's home.
        user: whom to run as; None: the user the agent runs as.
        env_base: "login": start from the user's login environment; or "minimal".
        env: declared variables, verified afterwards in the live process.
        secrets: further variables; only their names are ever recorded.
        release: the files that the run is started with.
        signal, grace_s: how to stop the run, for the supervisor's own use.
        exit_codes: the meaning of the trainer's own exit codes.
        free_gpus: no process at all may hold a GPU when it starts.
        about: what else is recorded of it.
        watch: how it is watched there, if at all.
    """

    run_id: str
    session: str
    command: tuple[str, ...]
    cwd: str | None
    user: str | None
    env_base: Literal["login", "minimal"]
    env: dict[str, str]
    secrets: dict[str, str] = field(repr=False)
    release: tuple[FileWanted, ...]
    signal: str
    grace_s: float
    exit_codes: dict[str, Ending]
    free_gpus: bool
    about: About = field(default_factory=About)
    watch: Watch | None = None
    launcher: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyRun:
    """Prove that the run lives: for ``alive_for_s`` seconds, with its environment.

    ``metric``: and that it prints this one, within ``within_s`` seconds.
    """

    run_id: str
    alive_for_s: float
    metric: str | None = None
    within_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetRuns:
    """Remove the records of runs, and the contents of files that no other run has."""

    run_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecuteCommand:
    """Run a command to its end, as the agent's user; what it prints last is kept.

    ``env_base`` and ``env`` as those of a run; ``cwd`` None: the user's home. What still
    runs after ``timeout_s`` is ended.
    """

    command: tuple[str, ...]
    cwd: str | None
    env_base: Literal["login", "minimal"]
    env: dict[str, str]
    timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRestart:
    """The watchdog shall not start anew what it waits to start after this run's failure."""

    run_id: str


Action = (
    Receive
    | StopRun
    | CheckpointAction
    | PlaceFiles
    | StartRun
    | VerifyRun
    | ForgetRuns
    | ExecuteCommand
    | CancelRestart
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """Perform a plan under the lock, if the target still looks as it did.

    ``look`` and ``fingerprint`` are those of the observation that the plan was made
    from. From here on the agent needs no network: it goes on to the end. ``may_fail``:
    the numbers of the actions whose failure does not end it.
    """

    transaction: str
    look: Look
    fingerprint: dict[str, str]
    actions: tuple[Action, ...]
    who: Who
    may_fail: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What came of a transaction whose end was not heard, because the connection broke?

    Waits while it is at work. The answer is the same `StepDone` events and `Outcome` that
    the commit would have given; ``not_begun`` when it never came to that.
    """

    transaction: str
    look: Look


@dataclass(frozen=True, slots=True, kw_only=True)
class Logs:
    """The last ``lines`` lines of a run's output, and on with it if ``follow``.

    Attributes:
        lines: None: all.
        what: the output, or the metrics, one JSON object a line.
        since_s: of the output, no more than came in the last so many seconds; of the
            metrics all lines come, and have their times.
        grep: only lines in which this regular expression is found.
        errors: instead of lines, tracebacks and other errors, each once.
    """

    job: str
    run_id: str | None
    lines: int | None
    follow: bool
    what: Literal["output", "metrics"] = "output"
    since_s: float | None = None
    grep: str | None = None
    errors: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCommand:
    """Run any program in the user's login environment; ``path`` is searched first."""

    words: tuple[str, ...]
    path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """A piece of the program's standard input in base64; an empty one ends it."""

    data: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupt:
    """Ctrl-C, for the program that runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """So many bytes were taken: the program's input there, or its output here."""

    bytes: int


Request = (
    Look
    | Stage
    | Chunk
    | Commit
    | Ask
    | Logs
    | Notify
    | ListRuns
    | RecallRun
    | ReadBlobs
    | Optimize
    | Detach
    | Fetch
    | Cancel
    | Pull
    | RunCommand
    | Input
    | Interrupt
    | Taken
    | Together
)


# --- what is answered ----------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Alive:
    """A heartbeat, at least every `HEARTBEAT_S`, so that a dead link is noticed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBegun:
    """Action number ``index`` of the commit begins."""

    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepNote:
    """Something worth telling while a step is at work."""

    index: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepProgress:
    """How far a step that moves many bytes has come."""

    index: int
    done: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDone:
    """The action is done; ``result`` in one phrase, ``facts`` for programs."""

    index: int
    seconds: float
    result: str
    facts: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPassed:
    """The action failed, and that does not end the transaction: on to the next one."""

    index: int
    seconds: float
    failure: Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class LogText:
    """A piece of a run's output, decoded as UTF-8 with replacement."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A piece of what a program printed, in base64."""

    stream: Literal["out", "err"]
    data: str


Event = (
    Alive
    | StepBegun
    | StepNote
    | StepProgress
    | StepDone
    | StepPassed
    | LogText
    | Working
    | Output
    | Taken
    | PullEvent
    | Listening
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Staging:
    """Where the archive goes: ``<folder>/files.tar``."""

    folder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What went wrong, as a code with its data. Codes, and what ``detail`` holds:

    ``lock_held`` (who, since) · ``stale`` (changed) · ``not_begun`` · ``cut_off`` (step) ·
    ``disk_full`` (path, free, needed) · ``bad_upload`` (sha256, reason) ·
    ``unwritable`` (path, reason) ·
    ``still_alive`` (pids) · ``gpu_held`` (holders, memory) · ``cannot_rename`` (path,
    reason) · ``guarded`` (path, problem) · ``start_failed`` (reason) · ``died_early``
    (exit_code, signal, after_s, log) · ``not_ready`` (metric, within_s, log) ·
    ``env_mismatch`` (names) · ``no_run`` (run_id) ·
    ``no_user`` (user) · ``archive_exists``, ``no_such_archive`` (path, name) ·
    ``no_such_clearing`` (path, id) · ``odd_file``, ``changed``, ``not_empty``, ``newest``,
    ``no_zstd``, ``no_archive_to`` (path) · ``damaged`` (path, reason) · ``stream_failed``
    (path, codes) · ``in_use`` (pids) ·
    ``command_failed`` (command, exit_code, signal, after_s, reason,
    log) · ``system`` (call, path, errno, reason) · ``internal`` (traceback).

    The optimiser has codes of its own: no_python (python), optimizing (session), no_job
    (job), job_died (exit_code, said), job_killed, unheard, and what it complains of itself
    (dflashctl.buckets.job).
    Of `RunCommand` alone: "cannot_run" (program, reason). Of `Listen`: "port_taken" (port, pid,
    name); of `Connect`: "no_way" (address, port, reason). Of all others, before anything is
    done: "unsafe_state" (path, place, reason).
    """

    code: str
    detail: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The end of a commit: all steps done, or stopped at ``failed_at`` with a reason.

    ``observed``: a fresh look, so that the report says what state things are in.
    """

    run_id: str | None
    failed_at: int | None
    failure: Failure | None
    observed: Observed


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnd:
    """No more output will come: the run is over, or following was not asked for."""

    run_id: str
    state: State


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandEnd:
    """The program has ended; ``exit_code`` is 128 and the signal's number if one did it."""

    exit_code: int


Reply = (
    Observed
    | Staging
    | Outcome
    | LogEnd
    | RunsListed
    | RunRecord
    | Texts
    | Optimized
    | Detached
    | Cancelled
    | CommandEnd
    | Notified
    | Pulled
    | Heard
    | Connected
    | Marks
    | Failure
)
