"""What may come next on the command line, for the shell that asks.

The scripts that ``dflashctl completion`` prints call the program with the words so far, the
unfinished one last, and ``_DFLASHCTL_COMPLETE`` set. It answers a line for each word that
fits, with a tab and a few words about it, and exits with 1 where file names fit, too.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from dflashctl.cli import memory

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

ASKED = "_DFLASHCTL_COMPLETE"
FILES_TOO = 1
_SAFE = re.compile(r"[\w./@%+,=:-]+")


class Word(NamedTuple):
    """A word that fits, and a few words about it."""

    text: str
    about: str = ""


class Asked(NamedTuple):
    """The command line so far: what was given for each option by its long name."""

    given: Mapping[str, list[str]]
    environ: Mapping[str, str]
    cwd: Path


Completer = Callable[[Asked], Iterator[Word]]


def shell_script(
    shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(help="Your shell.")],
) -> int:
    """Print what teaches your shell to complete dflashctl's words.

    \b
    Put it where your shell looks for such things:
      bash  ~/.local/share/bash-completion/completions/dflashctl
      zsh   _dflashctl in a folder of your fpath, before compinit
      fish  ~/.config/fish/completions/dflashctl.fish
    Or try it out: source <(dflashctl completion bash)

    Names of runs, checkpoints and archives are those that earlier commands have met; no
    machine is asked.
    """  # noqa: D301 - typer wants the sign itself
    from dflashctl.cli.completion_scripts import SCRIPTS

    typer.echo(SCRIPTS[shell], nl=False)
    return 0


def answer(root: Any, words: Sequence[str], environ: Mapping[str, str], cwd: Path) -> int:
    """Print what fits; the exit code. ``root``: the whole command, ``words`` without its name."""
    *before, unfinished = words or ("",)
    command, parameter, given = _walk(root, before)
    asked = Asked(given, environ, cwd)
    if unfinished == "=":  # bash takes --option=value apart
        unfinished = ""
    code = 0
    if parameter is None and unfinished.startswith("-"):
        found: Iterable[Word] = _options(command)
    elif parameter is None:
        commands = getattr(command, "commands", {})
        found = [
            Word(name, one.get_short_help_str(60))
            for name, one in commands.items()
            if not one.hidden
        ]
    else:
        found, code = _values(parameter, asked)
    lines = [f"{word.text}\t{word.about}\n" for word in found if _fits(word.text, unfinished)]
    sys.stdout.write("".join(lines))
    return code


def _fits(text: str, unfinished: str) -> bool:
    # A container answers to its own name as well as to its full one.
    return bool(_SAFE.fullmatch(text)) and text.startswith(unfinished)


def _walk(root: Any, words: Sequence[str]) -> tuple[Any, Any, dict[str, list[str]]]:
    """The command that the words lead to, and the parameter whose value comes next."""
    command, awaited, place = root, None, 0
    given: dict[str, list[str]] = {}
    options = _by_name(command)
    for word in words:
        if awaited is not None:
            if word != "=":
                given.setdefault(_long(awaited), []).append(word)
                awaited = None
            continue
        name, equals, value = word.partition("=")
        if name in options:
            if equals:
                given.setdefault(_long(options[name]), []).append(value)
            elif not _is_flag(options[name]):
                awaited = options[name]
        elif word in getattr(command, "commands", {}):
            command, place = command.commands[word], 0
            options = _by_name(command)
        elif not word.startswith("-"):
            place += 1
    if awaited is None and not getattr(command, "commands", None):
        awaited = _argument(command, place)
    return command, awaited, given


def _by_name(command: Any) -> dict[str, Any]:
    return {name: one for one in command.params if name_of(one) for name in one.opts}


def name_of(parameter: Any) -> str:
    """An option's long name; nothing for an argument."""
    return _long(parameter) if parameter.param_type_name == "option" else ""


def _long(parameter: Any) -> str:
    return str(max(parameter.opts, key=len))


def _is_flag(parameter: Any) -> bool:
    return bool(getattr(parameter, "is_flag", False)) or "--help" in parameter.opts


def _argument(command: Any, place: int) -> Any:
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    if not arguments:
        return None
    return arguments[min(place, len(arguments) - 1)]


def _options(command: Any) -> Iterator[Word]:
    yield from (Word(_long(one), one.help or "") for one in command.params if name_of(one))
    yield Word("--help", "How it is used.")


def _values(parameter: Any, asked: Asked) -> tuple[Iterable[Word], int]:
    """The words for a value, and whether file names fit, too."""
    key = name_of(parameter) or (parameter.metavar or "").strip("[].")
    if key in COMPLETERS:
        return COMPLETERS[key](asked), FILES_TOO if COMPLETERS[key] is playbooks else 0
    choices = parameter.type_descriptor.choices or ()
    return [Word(str(one)) for one in choices], 0 if choices else FILES_TOO


def targets(asked: Asked) -> Iterator[Word]:
    """The inventory's targets and groups."""
    names, groups = _inventory(asked)
    short = [name.partition("/")[2] for name in names]
    for name, inner in zip(names, short, strict=True):
        yield Word(name, "container" if inner else "host")
        if inner and short.count(inner) == 1 and inner not in names:
            yield Word(inner, f"container on {name.partition('/')[0]}")
    yield from (Word(name, about) for name, about in groups.items())


def hosts(asked: Asked) -> Iterator[Word]:
    """The inventory's targets, and the names that ~/.ssh/config gives to hosts."""
    yield from (word for word in targets(asked) if not word.about.startswith("group"))
    config = Path(asked.environ.get("HOME", "/"), ".ssh", "config")
    try:
        text = config.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    for names in re.findall(r"(?im)^[ \t]*host[ \t=]+(.+)$", text):
        # A pattern is no host.
        plain = (name for name in names.split() if not set("*?!") & set(name))
        yield from (Word(name, "of ~/.ssh/config") for name in plain)


def playbooks(asked: Asked) -> Iterator[Word]:
    """The YAML files where playbooks are looked for."""
    from dflashctl.document.paths import places

    for folder in places(
        "playbook", "playbooks", None, {**asked.environ, "DFLASHCTL_PLAYBOOK": ""}, asked.cwd
    ):
        for path in sorted((*folder.glob("*.yml"), *folder.glob("*.yaml"))):
            near = path.is_relative_to(asked.cwd)
            yield Word(str(path.relative_to(asked.cwd) if near else path), "playbook")


def _remembered(
    kind: memory.Kind, words: tuple[Word, ...] = ()
) -> Callable[[Asked], Iterator[Word]]:
    """Names that earlier commands met on the target that is meant."""

    def complete(asked: Asked) -> Iterator[Word]:
        yield from words
        named = asked.given.get("--target", [])
        names, _ = _inventory(asked)
        meant = [one for one in names if {one, one.partition("/")[2]} & set(named)]
        for name in memory.recall(asked.environ, kind, meant):
            yield Word(name, kind.removesuffix("s"))

    return complete


def _inventory(asked: Asked) -> tuple[list[str], dict[str, str]]:
    """The targets, and of each group what it is, as far as the file can be read.

    A mistake in it is for the commands to tell. Of one of Ansible's there is what an earlier
    command met: no program is run for this.
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        path = _inventory_file(asked)
    except (OSError, LookupError, StopIteration):
        return [], {}
    try:
        values = yaml.load(path.read_bytes(), Loader=loader)  # noqa: S506 - a safe one, if in C  # nosec B506
        names = []
        for host, about in values["hosts"].items():
            names += [
                str(host),
                *(f"{host}/{one}" for one in (about or {}).get("containers") or {}),
            ]
        groups = values.get("groups") or {}
        return names, {str(name): f"group of {len(of)}" for name, of in groups.items()}
    except (OSError, ValueError, yaml.YAMLError, LookupError, *_ODD_SHAPE):
        known = (str(path.absolute()),)
        groups = memory.recall(asked.environ, "groups", known)
        return memory.recall(asked.environ, "targets", known), dict.fromkeys(groups, "group")


def _inventory_file(asked: Asked) -> Path:
    """Where `find_inventory` finds it, without what that needs to tell mistakes.

    Raises:
        OSError, StopIteration: there is none.
    """
    said = asked.given.get("--inventory", [""])[-1] or asked.environ.get("DFLASHCTL_INVENTORY")
    home = asked.environ.get("HOME", "/")
    config = asked.environ.get("XDG_CONFIG_HOME") or Path(home, ".config")
    usual = (asked.cwd / "inventory", Path(config, "dflashctl", "inventory"))
    named = re.sub(r"^~(?=/|$)", home, said) if said else None
    places = (asked.cwd / named,) if named else usual
    found = next(place for place in places if place.exists())
    if not found.is_dir():
        return found
    files = sorted(path for path in found.iterdir() if path.suffix in (".yml", ".yaml"))
    return next((path for path in files if path.name == "hosts.yml"), files[0])


_ODD_SHAPE = (TypeError, AttributeError)
_RUN_WORDS = (Word("last", "the newest run"), Word("previous", "the one before it"))
# By an option's long name, or by what stands for an argument in its help.
COMPLETERS: dict[str, Completer] = {
    "--target": targets,
    "--host": hosts,
    "HOST": hosts,
    "--playbook": playbooks,
    "FILE": playbooks,
    "--run": _remembered("runs"),
    "RUN": _remembered("runs", _RUN_WORDS),
    "CHECKPOINT": _remembered("checkpoints"),
    "ARCHIVE": _remembered("archives"),
}
