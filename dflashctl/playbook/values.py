"""Single values of a playbook: how each is written, and what an editor is told of it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    WithJsonSchema,
)

from dflashctl.agent.metrics import METRICS, unknown_groups
from dflashctl.document.judge import named
from dflashctl.document.paths import absolute

if TYPE_CHECKING:
    pass

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_LONGEST_S = 366 * 86400
_BYTES: dict[str, int] = {"B": 1} | {
    prefix + suffix: base**power
    for suffix, base in (("B", 1000), ("iB", 1024))
    for power, prefix in enumerate("KMGT", start=1)
}

_DURATION = r"([0-9]{1,9}(?:\.[0-9]{1,3})?)([smhd])"
_SIZE = r"([0-9]{1,9})(?:\.([0-9]{1,3}))? ?([A-Za-z]+)"
NAME = r"[a-z0-9][a-z0-9-]{0,63}"
MODE = r"0?[0-7]{3}"
INTERFACE = r"[^\s/:]{1,15}"
_VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"


def form(pattern: str) -> WithJsonSchema:
    """What an editor is told of a text that is checked here."""
    return WithJsonSchema({"type": "string", "pattern": f"^{pattern}$"})


def number(lowest: int, highest: int) -> WithJsonSchema:
    """What an editor is told of a number between two others."""
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


def valid_name(text: str) -> str:
    """A job's name. Raises ValueError, as all of these do, with what it must be."""
    if not re.fullmatch(NAME, text):
        raise ValueError(
            "must be small letters, digits and dashes, at most 64, a letter or digit first,"
            f" not {named(text)}"
        )
    return text


def valid_session(text: str) -> str:
    """A name that tmux takes as it is."""
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


def valid_mode(value: object) -> int:
    """Permission bits, written as octal text."""
    if not isinstance(value, str) or not re.fullmatch(MODE, value):
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


def valid_user(text: str) -> str:
    """A user's name."""
    if not re.fullmatch(r"[^\s:/-][^\s:/]*", text):
        raise ValueError(f"must be the name of a user, not {named(text)}")
    return text


def valid_program(text: str) -> str:
    """A program's name, or an absolute path."""
    if not re.fullmatch(r"[^\s/-][^\s/]*", text):
        return absolute(text)
    return text


def valid_module(text: str) -> str:
    """A module's name, as in an import."""
    if not all(part.isidentifier() for part in text.split(".")):
        raise ValueError(f"must be a module's name, as in an import, not {named(text)}")
    return text


def valid_pattern(text: str) -> str:
    """A regular expression whose groups are named after metrics."""
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise ValueError(f"must be a regular expression: {error}") from error
    wrong = unknown_groups(pattern)
    if not pattern.groupindex or wrong:
        what = f"not {wrong[0]}" if wrong else "as in (?P<step>[0-9]+)"
        raise ValueError(f"its groups are named after metrics ({', '.join(METRICS)}), {what}")
    return text


def valid_archive(text: str) -> str:
    """An archive's name."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", text):
        raise ValueError(
            f"must be letters, digits, `.`, `_` and `-`, a letter or digit first, not {named(text)}"
        )
    return text


def valid_step_pattern(text: str) -> str:
    """A regular expression with one group, the step."""
    try:
        groups = re.compile(text).groups
    except re.error as error:
        raise ValueError(f"must be a regular expression: {error}") from error
    if groups != 1:
        raise ValueError(f"must have one group, the step, as in 'step-([0-9]+)', not {groups}")
    return text


def valid_entry(text: str) -> str:
    """A shell pattern for names in a folder."""
    if not text or "/" in text:
        raise ValueError(f"must be a pattern for names, without a slash, not {named(text)}")
    return text


def _inside(text: str) -> str:
    if not text or any(part in ("", ".", "..") for part in text.split("/")):
        raise ValueError(f"must be a file's path within the folder, not {named(text)}")
    return text


def valid_metric(text: str) -> str:
    """The name of a metric."""
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


def valid_count(value: int) -> int:
    """A number of GPUs."""
    if not 0 <= value <= 1024:
        raise ValueError(f"must be from 0 to 1024, not {value}")
    return value


def valid_processes(value: int) -> int:
    """A number of processes on a target."""
    if not 1 <= value <= 1024:
        raise ValueError(f"must be from 1 to 1024, not {value}")
    return value


def valid_port(value: int) -> int:
    """A TCP port."""
    if not 1 <= value <= 65535:
        raise ValueError(f"must be a port from 1 to 65535, not {value}")
    return value


def valid_interface(text: str) -> str:
    """A network interface's name, as the kernel takes it."""
    if not re.fullmatch(INTERFACE, text):
        raise ValueError(f"must be an interface's name (eth0) or auto, not {named(text)}")
    return text


def _at_least(least: int) -> AfterValidator:
    def check(value: int) -> int:
        if not least <= value <= 1 << 40:
            raise ValueError(f"must be at least {least}, not {value}")
        return value

    return AfterValidator(check)


def valid_buckets(value: int) -> int:
    """A number of buckets."""
    if not 1 <= value <= MOST_BUCKETS:
        raise ValueError(f"must be from 1 to {MOST_BUCKETS}, not {value}")
    return value


def valid_exit_code(code: int) -> int:
    """An exit code of the trainer's own."""
    if not 1 <= code <= 255:
        raise ValueError(f"must be an exit code from 1 to 255, not {code}")
    return code


MOST_BUCKETS = 16
Positive = Annotated[int, _at_least(1), WithJsonSchema({"type": "integer", "minimum": 1})]
NotNegative = Annotated[int, _at_least(0), WithJsonSchema({"type": "integer", "minimum": 0})]
Inside = Annotated[str, AfterValidator(_inside)]
Dest = Annotated[str, AfterValidator(absolute), form("/.*")]
TargetPath = Annotated[str, AfterValidator(absolute), form("/.*")]
Command = Annotated[list[str], AfterValidator(_command), BeforeValidator(_words)]
Variable = Annotated[str, AfterValidator(_variable), form(_VARIABLE)]
Url = Annotated[str, AfterValidator(_url)]
Seconds = Annotated[float, BeforeValidator(duration), form(_DURATION)]
Bytes = Annotated[int, BeforeValidator(size), form(_SIZE)]
Signal = Annotated[
    Literal["INT", "TERM", "HUP", "USR1", "USR2", "QUIT"],
    BeforeValidator(_signal),
    form("(SIG)?(INT|TERM|HUP|USR1|USR2|QUIT)"),
]
Text = Annotated[str, AfterValidator(_not_empty)]


class Part(BaseModel):
    """A mapping of the file: what it does not know, it refuses."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
