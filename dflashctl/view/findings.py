"""Checks and what came of them: one line each, evidence and remedy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dflashctl.plan.findings import Finding
from dflashctl.plan.words import counted
from dflashctl.view import figures
from dflashctl.view.console import ACCENT
from dflashctl.view.sanitize import one_line
from dflashctl.view.words import words_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.text import Text

    from dflashctl.agent.seen import Observed
    from dflashctl.errors import DflashError
    from dflashctl.inventory.model import Target
    from dflashctl.view.console import Screen

_MARKS = {
    "ok": ("ok", "green"),
    "warning": ("warning", "yellow"),
    "problem": ("problem", "bold red"),
    "unchecked": ("not checked", "dim"),
}
_MARK_WIDTH = 13


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """One target: what was seen there with what it is worth, or why nothing was."""

    target: Target
    seen: Observed | None = None
    skew_s: float | None = None
    findings: tuple[Finding, ...] = ()
    error: DflashError | None = None


def error_finding(check: str, error: DflashError) -> Finding:
    """An error as the result of a check."""
    words = words_for(error)
    evidence = "; ".join((words.message.rstrip("."), *(line.strip() for line in words.details)))
    return Finding(check=check, grade="problem", evidence=evidence, remedy=words.next)


def show_findings(
    screen: Screen, title: str, findings: Iterable[Finding], *, target: str = ""
) -> None:
    """A heading, and a line for each check, with its remedy under it.

    ``target``: whose they are, where commands that are shown must name it.
    """
    from rich.text import Text

    found = tuple(findings)
    again = (
        replace(screen.again(), targets=(target,), everything=False) if target else screen.again()
    )
    width = max((len(finding.check) for finding in found), default=0) + 2
    screen.out.print(Text(one_line(title), style=f"bold {ACCENT}"), soft_wrap=True)
    for finding in found:
        mark, style = _MARKS[finding.grade]
        lead = Text.assemble(
            "  ", (f"{mark:{_MARK_WIDTH}}", style), f"{one_line(finding.check):{width}}"
        )
        screen.flow(screen.out, lead, Text(one_line(finding.evidence)))
        if finding.remedy:
            under = Text(" " * len(lead))
            remedy = again.repeated_in(one_line(finding.remedy))
            screen.flow(screen.out, under, Text(remedy, style=ACCENT))


def show_tally(screen: Screen, findings: Sequence[Finding]) -> None:
    """How many problems and warnings there are, on standard error."""
    grades = [finding.grade for finding in findings]
    problems, warnings = grades.count("problem"), grades.count("warning")
    if not problems and not warnings:
        screen.say("All is well.", style="green")
        return
    parts = [counted(problems, "problem")] if problems else []
    parts += [counted(warnings, "warning")] if warnings else []
    screen.say(f"{' and '.join(parts)}; what to do stands under each.", style="dim")


def show_checked(screen: Screen, checked: Sequence[Checked]) -> None:
    """A table of what every target has, and under it all that is not as it should be."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("TARGET", overflow="fold")
    for heading in ("GPUS", "UVM", "DRIVER", "PYTHON", "TMUX", "CLOCK"):
        table.add_column(heading, no_wrap=True)
    table.add_column("VERDICT", overflow="fold")
    for one in checked:
        name = Text(one_line(one.target.name), style=f"bold {ACCENT}")
        table.add_row(name, *_cells(one), _verdict(one))
    if not screen.has_room_for(table):
        _show_each(screen, checked)
        return
    screen.show(table)
    told: dict[str, str] = {}
    for one in checked:
        wrong = [finding for finding in one.findings if finding.grade in ("warning", "problem")]
        if one.error is not None:
            first = told.setdefault(_same_for_all(one.error), one.target.name)
            wrong = [error_finding("way", one.error)]
            if first != one.target.name:
                wrong = [Finding(check="way", grade="problem", evidence=f"the same as {first}")]
        if wrong:
            screen.write("\n")
            show_findings(screen, one.target.name, wrong, target=one.target.name)


def _same_for_all(error: DflashError) -> str:
    """What an error says, whichever of a host's targets it says it of."""
    facts = {name: value for name, value in vars(error).items() if name != "target"}
    return f"{error.code} {facts}"


def _show_each(screen: Screen, checked: Sequence[Checked]) -> None:
    """For a window too narrow for the table: every check of every target."""
    for number, one in enumerate(checked):
        if number:
            screen.write("\n")
        found = one.findings if one.error is None else [error_finding("way", one.error)]
        show_findings(screen, one.target.name, found, target=one.target.name)


def _cells(one: Checked) -> list[str]:
    seen = one.seen
    if seen is None:
        declared = "-" if one.target.gpus is None else f"? of {one.target.gpus}"
        return [declared, "-", "-", "-", "-", "-"]
    gpus, driver = seen.gpus, seen.driver
    found = str(len(gpus.gpus)) if gpus is not None and gpus.status in ("ok", "absent") else "?"
    return [
        found if one.target.gpus is None else f"{found} of {one.target.gpus}",
        "-" if gpus is None or gpus.status == "absent" else "yes" if gpus.uvm else "no",
        (driver.library or driver.module or "-") if driver is not None else "-",
        one_line(seen.python),
        one_line(seen.tmux or "none"),
        "-" if one.skew_s is None else _off(one.skew_s),
    ]


def _off(seconds: float) -> str:
    if abs(seconds) < 1:
        return "ok"
    return f"{'+' if seconds > 0 else '-'}{figures.duration(abs(seconds))}"


def _verdict(one: Checked) -> Text:
    from rich.text import Text

    if one.error is not None:
        return Text(one.error.code.replace("_", " "), style="bold red")
    grades = [finding.grade for finding in one.findings]
    for grade in ("problem", "warning"):
        if grade in grades:
            return Text(counted(grades.count(grade), grade), style=_MARKS[grade][1])
    return Text("ok", style="green")


def finding_objects(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """Checks as JSON."""
    return [
        {
            "check": finding.check,
            "verdict": finding.grade,
            "evidence": finding.evidence,
            "remedy": finding.remedy or None,
        }
        for finding in findings
    ]


def checked_object(one: Checked) -> dict[str, Any]:
    """One target of ``inventory check --json``."""
    from dflashctl.view.json import error_object

    seen = one.seen
    gpus, driver = (seen.gpus, seen.driver) if seen is not None else (None, None)
    return {
        "declared_gpus": one.target.gpus,
        "gpus": None if gpus is None else len(gpus.gpus),
        "gpu_status": None if gpus is None else gpus.status,
        "uvm": None if gpus is None else gpus.uvm,
        "driver_module": None if driver is None else driver.module,
        "driver_library": None if driver is None else driver.library,
        "python": None if seen is None else seen.python,
        "tmux": None if seen is None else seen.tmux,
        "clock_skew_s": None if one.skew_s is None else round(one.skew_s, 1),
        "findings": finding_objects(one.findings),
        "error": None if one.error is None else error_object(one.error),
    }
