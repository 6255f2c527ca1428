"""`make audit`: what is known against the packages of constraints.txt, as pip-audit finds it.

pip-audit ends well when it could look nothing up. Here that is told as what it is, and fails
unless ``--allow-unaudited`` is given.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
LONGEST_S = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What could be said of the packages.

    Attributes:
        known: each package with a known hole: its name, version and the advisories.
        clean: how many were looked up and have none.
        unaudited: those that could not be looked up.
        failed: why pip-audit gave no answer at all; "": it did.
    """

    known: tuple[str, ...] = ()
    clean: int = 0
    unaudited: tuple[str, ...] = ()
    failed: str = ""


def judge(answer: str, said: str) -> Verdict:
    """Read what ``pip-audit --format json`` printed on its two streams."""
    try:
        packages = json.loads(answer)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return Verdict(failed=(said.strip().splitlines() or ["it said nothing"])[-1])
    looked_up = [one for one in packages if "skip_reason" not in one]
    known = tuple(
        f"{one['name']} {one['version']}: {', '.join(hole['id'] for hole in one['vulns'])}"
        for one in looked_up
        if one["vulns"]
    )
    return Verdict(
        known=known,
        clean=len(looked_up) - len(known),
        unaudited=tuple(one["name"] for one in packages if "skip_reason" in one),
    )


def told(verdict: Verdict) -> list[str]:
    """The verdict in lines. "clean" is said of nothing that was not looked up."""
    if verdict.failed:
        return [f"not audited: {verdict.failed}"]
    lines = [f"known hole in {one}" for one in verdict.known]
    if verdict.unaudited:
        names = ", ".join(verdict.unaudited[:5])
        more = f" and {len(verdict.unaudited) - 5} more" if len(verdict.unaudited) > 5 else ""
        lines.append(
            f"not audited: {len(verdict.unaudited)} packages, no advisories were to be had "
            f"({names}{more})"
        )
    if verdict.clean:
        lines.append(f"clean: {verdict.clean} packages, as far as is known")
    return lines or ["not audited: there are no packages"]


def code(verdict: Verdict, *, allow_unaudited: bool) -> int:
    """The exit code: 1 for a known hole, 2 where something was not looked up, else 0."""
    if verdict.known:
        return 1
    whole = verdict.clean > 0 and not verdict.unaudited and not verdict.failed
    return 0 if whole or allow_unaudited else 2


def main(arguments: Sequence[str]) -> int:
    """Run pip-audit and say what came of it."""
    words = ("-m", "pip_audit", "--format", "json", "--progress-spinner", "off")
    where = ("--disable-pip", "--require-hashes", "-r", str(ROOT / "constraints.txt"))
    try:
        done = subprocess.run(
            (sys.executable, *words, *where),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=LONGEST_S,
        )
        verdict = judge(done.stdout, done.stderr)
    except subprocess.TimeoutExpired:
        verdict = Verdict(failed=f"no answer within {LONGEST_S} s")
    print("\n".join(told(verdict)))
    return code(verdict, allow_unaudited="--allow-unaudited" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
