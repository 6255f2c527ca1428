"""What a further command must repeat."""

from collections.abc import Iterator
from typing import Any

import typer

from dflashctl.cli.main import app
from dflashctl.view.again import Again


def test_a_further_command_keeps_the_options_that_were_given() -> None:
    assert Again(targets=("kpro6/dflash",)).typed("status") == "dflashctl status -t kpro6/dflash"
    asked = Again(targets=("here",), inventory="a b.yml", playbook="eval.yml")
    assert asked.typed("logs", "-f") == "dflashctl -i 'a b.yml' logs -f -t here -p eval.yml"


def test_a_command_in_a_text_gets_what_it_takes_and_lacks() -> None:
    again = Again(targets=("kpro6/dflash",), inventory="a b.yml", playbook="eval.yml")
    whole = "-t kpro6/dflash -p eval.yml"
    for text, shown in (
        ("Run: dflashctl stop.", f"Run: dflashctl -i 'a b.yml' stop {whole}."),
        ("dflashctl logs -t x", "dflashctl -i 'a b.yml' logs -p eval.yml -t x"),
        ("dflashctl inventory show", "dflashctl -i 'a b.yml' inventory show"),
        ("dflashctl inventory trust x", "dflashctl -i 'a b.yml' inventory trust x"),
        ("dflashctl exec -- ls -t .", "dflashctl -i 'a b.yml' exec -t kpro6/dflash -- ls -t ."),
        ("dflashctl runs show 3", f"dflashctl -i 'a b.yml' runs show {whole} 3"),
        (
            "dflashctl shell; dflashctl stop -t y. Or dflashctl init",
            (
                "dflashctl -i 'a b.yml' shell -t kpro6/dflash; "
                "dflashctl -i 'a b.yml' stop -p eval.yml -t y. Or dflashctl init"
            ),
        ),
        ("dflashctl ends only what it started", "dflashctl ends only what it started"),
    ):
        assert again.repeated_in(text) == shown
        assert Again().repeated_in(text) == text


def test_what_is_repeated_is_what_each_verb_takes() -> None:
    again = Again(targets=("T",), inventory="I", playbook="P")
    for words, command in _verbs(typer.main.get_command(app)):
        options = {option for parameter in command.params for option in parameter.opts}
        at, with_ = " -t T" * ("-t" in options), " -p P" * ("-p" in options)
        before = "" if words in {"init", "completion"} else "-i I "
        shown = f"dflashctl {before}{words}{at}{with_}"
        assert again.repeated_in(f"dflashctl {words}") == shown


def _verbs(command: Any, words: str = "") -> Iterator[tuple[str, Any]]:
    below = getattr(command, "commands", {})
    for name, inner in below.items():
        yield from _verbs(inner, f"{words} {name}".strip())
    if not below:
        yield words, command
