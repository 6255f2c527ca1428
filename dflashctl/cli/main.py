"""The command line: options before the verb, the verbs, and how a command ends."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from dflashctl.cli import (
    attach,
    check,
    checkpoints,
    completion,
    deploy,
    discover,
    doctor,
    execute,
    init,
    inventory,
    logs,
    metrics,
    notify,
    optimize_buckets,
    play,
    rollback,
    runs,
    start,
    status,
    stop,
    trust,
)
from dflashctl.cli.call import Call, Color

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dflashctl.errors import DflashError

# They say how to reach the target and how to talk, whatever the verb.
_BEFORE_THE_VERB = ("-i", "--inventory", "--debug", "--color", "--version")
_VALUES = {"-i": " PATH", "--inventory": " PATH", "--color": " WHEN"}


class _Root(TyperGroup):
    """Ends every verb in an exit code, whatever happens in it."""

    def invoke(self, ctx: Any) -> Any:
        return _guarded(ctx.find_object(Call), lambda: super(_Root, self).invoke(ctx))


app = typer.Typer(
    cls=_Root,
    help="Deploys, watches and stops training runs on your own GPU machines.",
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
_inventory = typer.Typer(help="What the inventory says.", rich_markup_mode=None)
_inventory.command("show")(inventory.show)
_inventory.command("check", short_help="Compare what is declared with what is there.")(check.check)
_inventory.command("discover", short_help="Ask a Proxmox host for its containers.")(
    discover.discover
)
_inventory.command("trust", short_help="Record an unknown host's key, after asking.")(trust.trust)

app.command("init", short_help="Write an inventory, a playbook and an example trainer.")(init.init)
app.command("deploy", cls=deploy.Deploy)(deploy.deploy)
app.command("doctor", short_help="Check all that a deploy needs; nothing is changed.")(
    doctor.doctor
)
app.command("status", short_help="Show how the job stands: run, progress, GPUs, disk.")(
    status.status
)
app.command("attach", short_help="Open the run's session in this terminal.")(attach.attach)
app.command("logs")(logs.logs)
app.command("metrics", short_help="Show a run's metrics, or draw them.")(metrics.metrics)
app.command("compare", short_help="Set two runs' curves side by side.")(metrics.compare)
app.command("notify", short_help="Try the ways by which people are told.")(notify.notify)
app.command("stop", short_help="Stop the running job gracefully, proved.")(stop.stop)
app.command("start", short_help="Start the job from the files that are there.")(start.start)
app.command("optimize-buckets", short_help="Find the bucket boundaries with the least padding.")(
    optimize_buckets.optimize_buckets
)
app.command("rollback", short_help="Restart exactly what an earlier run was.")(rollback.rollback)
app.command("play", short_help="Do a playbook's steps as one transaction.")(play.play)
# What follows the program's name is the program's.
app.command(
    "exec",
    short_help="Run a program on the target, its words untouched.",
    context_settings={"allow_interspersed_args": False},
)(execute.execute)
app.command("shell", short_help="Open a login shell on the target.")(execute.shell)
app.add_typer(_inventory, name="inventory")
_runs = typer.Typer(rich_markup_mode=None)
_runs.callback(invoke_without_command=True)(runs.runs)
_runs.command("list")(runs.show_list)
_runs.command("show")(runs.show)
_runs.command("diff", short_help="Show how a second run differs from a first one.")(runs.compare)
app.add_typer(_runs, name="runs")
_checkpoints = typer.Typer(
    help="List, archive, restore, prune or pull checkpoints.", rich_markup_mode=None
)
_checkpoints.command("list")(checkpoints.show_list)
_checkpoints.command("clear", short_help="Move all checkpoints aside.")(checkpoints.clear)
_checkpoints.command("archive", short_help="Bring the complete ones into an archive.")(
    checkpoints.archive
)
_checkpoints.command("restore", short_help="Bring back an archive's, or what was cleared.")(
    checkpoints.restore
)
_checkpoints.command("prune")(checkpoints.prune)
_checkpoints.command("verify", short_help="Compare an archive with its SHA-256.")(
    checkpoints.verify
)
_checkpoints.command("pull", short_help="Bring one to this machine.")(checkpoints.pull)
app.add_typer(_checkpoints, name="checkpoints")
app.command("completion", short_help="Print what completes dflashctl in your shell.")(
    completion.shell_script
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from dflashctl import __version__

        typer.echo(f"dflashctl {__version__}")
        raise typer.Exit


@app.callback()
def _before_the_verb(
    ctx: typer.Context,
    inventory: Annotated[
        str | None,
        typer.Option("-i", "--inventory", metavar="PATH", help="The inventory to use."),
    ] = None,
    color: Annotated[Color, typer.Option("--color", help="When to use colours.")] = "auto",
    debug: Annotated[
        bool, typer.Option("--debug", help="Show tracebacks and the connection's log.")
    ] = False,
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    call = ctx.find_object(Call)
    assert call is not None, "main() puts it there"
    call.inventory_path, call.color, call.debug = inventory, color, debug
    if debug:
        call.screen.debug_log()
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())
        raise typer.Exit(2)


def main(arguments: Sequence[str] | None = None, call: Call | None = None) -> int:
    """Run one command; its exit code.

    ``call``: the world to run in, if it is not that of this process.
    """
    if call is None:
        _have_streams()
    if call is None and completion.ASKED in os.environ:
        command = typer.main.get_command(app)
        return completion.answer(command, sys.argv[1:], os.environ, _here())
    import gc
    import logging

    # What no one asked to see is not shown: without a handler Python prints warnings.
    logging.getLogger().addHandler(logging.NullHandler())
    if call is None:
        # Loading makes hardly any garbage, and was searched for it 140 times.
        gc.set_threshold(20_000)
        _leave_in_order()
        call = Call(environ=os.environ, cwd=_here())
    try:
        code = app(arguments, prog_name="dflashctl", standalone_mode=False, obj=call)
    except typer.TyperException as error:
        return _usage(call, error)
    except (typer.Abort, KeyboardInterrupt):
        from dflashctl.errors import Interrupted

        return _report(call, Interrupted())
    except OSError as error:
        # A page of help is the one thing that is printed past the verbs.
        from dflashctl.view.console import no_output

        _forget_output()
        return _report(call, no_output(error))
    return code if isinstance(code, int) else 0


def _have_streams() -> None:
    """A stream that whoever started us closed goes nowhere; its number is nobody else's."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            handle = os.open(os.devnull, os.O_RDWR)
            if handle != number:
                os.dup2(handle, number)
                os.close(handle)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8"))


def _here() -> Path:
    """The folder that we are in, by the name that it had if it is gone."""
    try:
        return Path.cwd()
    except OSError:
        return Path(os.environ.get("PWD") or "/")


def _leave_in_order() -> None:
    """A hang-up or a TERM unwinds as an error does, so that temporary files go."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, lambda number, _: sys.exit(128 + number))


def _guarded(call: Call, work: Callable[[], Any]) -> Any:
    """Do the work of a verb; every error becomes words and an exit code."""
    from dflashctl.errors import DflashError, Internal, Interrupted
    from dflashctl.view.console import ReaderGone

    try:
        return work()
    except DflashError as error:
        return _report(call, error)
    except KeyboardInterrupt:
        return _report(call, Interrupted())
    except ReaderGone:
        _forget_output()
        return 0
    except (typer.TyperException, typer.Exit, typer.Abort):
        raise
    except Exception as error:
        fault = Internal(what=f"{type(error).__name__}: {error}")
        fault.__cause__ = error
        return _report(call, fault)


def _report(call: Call, error: DflashError) -> int:
    """Tell the error: words on standard error, and the JSON object where one is due."""
    from dflashctl.errors import CannotWrite
    from dflashctl.view import json
    from dflashctl.view.console import STDOUT, ReaderGone
    from dflashctl.view.outcome import show_error, show_traceback

    if call.debug:
        show_traceback(call.screen, error)
    show_error(call.screen, error)
    if isinstance(error, CannotWrite) and error.path == STDOUT:
        _forget_output()
    elif call.json:
        try:
            call.screen.write(json.failed(call.command, error, call.screen.again()))
        except (ReaderGone, CannotWrite):
            _forget_output()
    return error.exit_code


def _usage(call: Call, error: typer.TyperException) -> int:
    """A mistake in the command line, and where to read how it is meant."""
    from dflashctl.view.outcome import show_usage

    ctx = getattr(error, "ctx", None)
    option = getattr(error, "option_name", None)
    path = ctx.command_path if ctx is not None else "dflashctl"
    if option in _BEFORE_THE_VERB and ctx is not None and ctx.parent is not None:
        meant = f"dflashctl {option}{_VALUES.get(option, '')} {path.partition(' ')[2]}"
        show_usage(call.screen, f"{option} goes before the verb: {meant}", "dflashctl -h")
    else:
        message = error.format_message().replace("Value error, ", "")
        options = ctx.command.params if ctx is not None else ()
        if "extra argument" in message and any("-t" in one.opts for one in options):
            message += ". A target is named with -t."
        show_usage(call.screen, message, f"{path} -h")
    return 2


def _forget_output() -> None:
    """What is still buffered goes nowhere, so that Python's own end stays quiet."""
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
