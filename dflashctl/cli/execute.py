"""exec: any program on the target. shell: a login shell there."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Annotated

import typer

from dflashctl.cli.call import begin
from dflashctl.cli.options import TargetOption

if TYPE_CHECKING:
    from dflashctl.cli.call import Call
    from dflashctl.inventory.model import Target

# So long a program may take to end after a Ctrl-C before a word is said.
ENDING_S = 2.0


def execute(
    ctx: typer.Context,
    command: Annotated[
        list[str], typer.Argument(metavar="COMMAND", help="The program and its arguments.")
    ],
    target: TargetOption = None,
    tty: Annotated[
        bool, typer.Option("--tty", help="Give it this terminal, for what is interactive.")
    ] = False,
) -> int:
    """Run a program on the target: dflashctl exec -- nvidia-smi -L

    Its words arrive as they are, no shell reads them. It has the user's login
    environment and home. Input, output, errors and the exit code (128 + n after signal
    n) are passed on. Ctrl-C is passed on, too; a second one ends whatever is left.
    """
    from dflashctl.cli import terminal

    call = begin(ctx, "exec", as_json=False)
    chosen = call.target(target)
    if tty:
        terminal.require("exec --tty")
        return _on_terminal(call, chosen, tuple(command))
    return _in_foreground(call, chosen, tuple(command))


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


def _on_terminal(call: Call, target: Target, words: tuple[str, ...]) -> int:
    from dflashctl.cli import terminal

    # An agent first: it says what stands between us and the target, and is what is run.
    with call.at(target):
        pass
    with call.reach() as reach:
        term = call.environ.get("TERM") or "vt100"
        return terminal.hand_over(reach.login_words(target, term, words))
