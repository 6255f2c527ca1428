"""exec: any program on the target. shell: a login shell there."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Annotated

import typer

from dflashctl.cli.call import begin
from dflashctl.cli.options import AllOption, TargetOption, TargetsOption

if TYPE_CHECKING:
    from dflashctl.cli.call import Call
    from dflashctl.inventory.model import Target
    from dflashctl.link.foreground import Foreground

# So long a program may take to end after a Ctrl-C before a word is said.
ENDING_S = 2.0


def execute(
    ctx: typer.Context,
    command: Annotated[
        list[str], typer.Argument(metavar="COMMAND", help="The program and its arguments.")
    ],
    target: TargetsOption = None,
    everything: AllOption = False,
    tty: Annotated[
        bool, typer.Option("--tty", help="Give it this terminal, for what is interactive.")
    ] = False,
) -> int:
    """Run a program on the target: dflashctl exec -- nvidia-smi -L

    Its words arrive as they are, no shell reads them. It has the user's login
    environment and home. Input, output, errors and the exit code (128 + n after signal
    n) are passed on. Ctrl-C is passed on, too; a second one ends whatever is left.
    On several targets it gets no input, and each line of output names its target.
    """
    from dflashctl.cli import terminal

    call = begin(ctx, "exec", as_json=False)
    if tty:
        chosen = call.target(target)
        terminal.require("exec --tty")
        return _on_terminal(call, chosen, tuple(command))
    targets = call.targets(target, everything=everything)
    if len(targets) > 1:
        return _on_many(call, targets, tuple(command))
    return _in_foreground(call, targets[0], tuple(command))


def shell(ctx: typer.Context, target: TargetOption = None) -> int:
    """Open the user's login shell on the target, in this terminal."""
    from dflashctl.cli import terminal

    call = begin(ctx, "shell", as_json=False)
    chosen = call.target(target)
    terminal.require("shell")
    return _on_terminal(call, chosen, ())


def _in_foreground(call: Call, target: Target, words: tuple[str, ...]) -> int:
    from dflashctl.agent.protocol import RunCommand
    from dflashctl.cli.ctrl_c import patient
    from dflashctl.view.streams import OwnStreams

    with call.at(target) as agent:
        program, over = agent.foreground(OwnStreams()), threading.Event()

        def pass_on() -> None:
            program.interrupt()
            if not over.wait(ENDING_S):
                call.screen.say(f"{words[0]} goes on after Ctrl-C; another one ends it.")

        try:
            with patient(pass_on):
                try:
                    return program.run(RunCommand(words=words, path=target.path))
                finally:
                    over.set()
        except KeyboardInterrupt:
            call.screen.say(f"{words[0]} is ended over there, by TERM, then KILL.")
            return 130


def _on_many(call: Call, targets: tuple[Target, ...], words: tuple[str, ...]) -> int:
    """At once; the greatest of the programs' codes, or the gravest of what kept them away."""
    from dflashctl.agent.protocol import RunCommand
    from dflashctl.cli.ctrl_c import patient
    from dflashctl.cli.reach import Agents
    from dflashctl.errors import CannotRun, DflashError, worst
    from dflashctl.link.fanout import each
    from dflashctl.view.outcome import show_error
    from dflashctl.view.streams import NamedLines

    programs: list[Foreground] = []
    width = max(len(one.name) for one in targets)
    with call.reach() as reach, Agents(reach) as agents:

        def run(target: Target) -> int:
            lines = NamedLines(call.screen, f"{target.name:<{width}}")
            program = agents.at(target).foreground(lines)
            programs.append(program)
            try:
                return program.run(RunCommand(words=words, path=target.path))
            finally:
                lines.end()

        def pass_on() -> None:
            for program in programs:
                program.interrupt()

        try:
            with patient(pass_on):
                ended = each(targets, run, at_once=len(targets))
        except KeyboardInterrupt:
            call.screen.say(f"{words[0]} is ended over there, by TERM, then KILL.")
            return 130
    errors = []
    for target, code in zip(targets, ended, strict=True):
        if isinstance(code, DflashError):
            errors.append(code)
            show_error(call.screen, code, again=call.same_again(target.name))
        elif code:
            call.screen.say(f"{target.name}: {words[0]} ended with exit code {code}")
    kept_away = [error.exit_code for error in errors if not isinstance(error, CannotRun)]
    codes = [code.exit_code if isinstance(code, DflashError) else code for code in ended]
    return worst(kept_away) if kept_away else max(codes)


def _on_terminal(call: Call, target: Target, words: tuple[str, ...]) -> int:
    from dflashctl.cli import terminal

    # An agent first: it says what stands between us and the target, and is what is run.
    with call.at(target):
        pass
    with call.reach() as reach:
        term = call.environ.get("TERM") or "vt100"
        return terminal.hand_over(reach.login_words(target, term, words))
