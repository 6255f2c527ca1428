"""init: the files of a first day, written where there are none."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dflashctl.cli.call import begin
from dflashctl.cli.host import IdentityOption, KnownHostsOption, host_named
from dflashctl.cli.options import JsonOption

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dflashctl.inventory.found import Found


def init(  # noqa: PLR0913, PLR0917 - each is an option of the command line
    ctx: typer.Context,
    folder: Annotated[
        str,
        typer.Argument(
            metavar="DIR", help="Where to write them; default: here.", show_default=False
        ),
    ] = ".",
    host: Annotated[
        str | None,
        typer.Option("--host", metavar="HOST", help="A machine to ask: [user@]host[:port]."),
    ] = None,
    script: Annotated[
        str | None,
        typer.Option("--script", metavar="PATH", help="What to run, instead of an example."),
    ] = None,
    identity_file: IdentityOption = None,
    known_hosts_file: KnownHostsOption = None,
    as_json: JsonOption = False,
) -> int:
    """Write an inventory and a playbook to begin with.

    And an example trainer, if you have no --script. With --host the machine is asked what
    it has. Nothing that is there is overwritten.
    """
    from dflashctl.cli.discover import ask
    from dflashctl.view import json
    from dflashctl.view.beginning import file_object, show_beginning
    from dflashctl.view.discovery import found_objects, say_found

    call = begin(ctx, "init", as_json)
    place = call.cwd / Path(folder).expanduser()
    own = None if script is None else _script(call.cwd / Path(script).expanduser())
    found: Found | None = None
    options: tuple[str, ...] = ()
    if host is not None:
        named = host_named(call, host, identity_file, known_hosts_file)
        found, options = ask(call, named, None), named.options
        say_found(call.screen, found)
    written = [(path, _write(path, text)) for path, text in _files(place, own, found)]
    if as_json:
        targets = {} if found is None else found_objects(found)
        shapes = [file_object(*one) for one in written]
        call.screen.write(json.envelope("init", 0, targets, files=shapes))
    else:
        show_beginning(call.screen, call.cwd, place, written, found, options)
    return 0


def _script(path: Path) -> Path:
    """Raises SourceUnreadable: it is no file that can be pushed."""
    from dflashctl.errors import SourceUnreadable

    try:
        with path.open("rb"):
            return path
    except OSError as error:
        raise SourceUnreadable(path=path, reason=error.strerror or str(error)) from error


def _files(place: Path, own: Path | None, found: Found | None) -> Iterator[tuple[Path, str]]:
    """What to write, each with its text."""
    from dflashctl.inventory import begin as examples

    yield _inventory(place / examples.INVENTORY), examples.inventory_of(found)
    playbook = place / examples.PLAYBOOK
    yield playbook, examples.playbook_of(own, playbook.parent, found)
    if own is None:
        for name in examples.PAYLOAD:
            yield place / name, examples.example(name)
    for name in (examples.BUCKETS, *examples.SCHEMAS):
        yield place / name, examples.example(name)


def _inventory(usual: Path) -> Path:
    """Where the inventory is: one of another name is not to be put in the shade."""
    if not usual.exists() and usual.parent.is_dir():
        others = sorted(path for path in usual.parent.iterdir() if path.suffix in (".yml", ".yaml"))
        return others[0] if others else usual
    return usual


def _write(path: Path, text: str) -> bool:
    """Write a new file; False: there is one, and it is left alone. Raises CannotWrite."""
    from dflashctl.errors import CannotWrite

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
        if text.startswith("#!"):
            path.chmod(0o755)
    except FileExistsError as error:
        if path.parent.is_dir():
            return False
        raise CannotWrite(path=path, reason="its folder is a file") from error
    except OSError as error:
        raise CannotWrite(path=path, reason=error.strerror or str(error)) from error
    return True
