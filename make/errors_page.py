"""`make docs`: docs/errors.md, every error as the program tells it.

The messages come from the program itself, for examples that are filled in here. A new error
needs nothing where the values of its fields read well as they are.
"""

from __future__ import annotations

import ast
import contextlib
import io
import re
from collections.abc import Iterator
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, get_type_hints

from dflashctl import errors as e
from dflashctl.agent import protocol
from dflashctl.view.console import Screen
from dflashctl.view.failures import failure_words
from dflashctl.view.outcome import show_error

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "errors.md"
COLUMNS = 80

# By a field's name; what is not here is shown as <its name>.
VALUES: dict[str, Any] = {
    "target": "kpro6/dflash",
    "host": "192.0.2.6",
    "port": 22,
    "address": "192.0.2.6",
    "user": "root",
    "verb": "attach",
    "name": "dflsh",
    "kind": "inventory",
    "session": "dflash",
    "job": "dflash",
    "state": "STOPPED",
    "run_id": None,
    "vmid": 200,
    "line": 7,
    "key_type": "ssh-ed25519",
    "fingerprint": "SHA256:Jq3uTnC7cnHk4C7LmYV9iHVYRg9WbWkmCwjvGzYvHnE",
    "expected": "SHA256:1aXmHk9d0mK5pO2iQW7yTPXyOeBrHSJ3FhCqTyR2v0s",
    "known": ("kpro6", "kpro6/dflash"),
    "close": ("dflash",),
    "candidates": ("kpro6/dflash", "kpro7/dflash"),
    "named": ("kpro6/dflash", "kpro6/eval"),
    "against": ("kpro6/eval",),
    "ready": ("kpro6/dflash",),
    "looked_in": ("/home/ada/work/inventory", "/home/ada/.config/dflashctl/inventory"),
    "path": Path("playbooks/deploy.yml"),
    "holder": "ada@desk",
    "since": "2026-11-29T17:03:12Z",
    "changed": ("run", "files"),
    "detail": "",
    "python": "/root/venv/bin/python",
    "known_hosts": "/home/ada/.ssh/known_hosts",
    "program": "nvidia-smi",
    "reason": "No such file or directory",
    "tried": ("agent: ada@desk ED25519",),
    "refusals": (
        e.Refusal(
            code="gpu_held",
            message="GPU 3 is held by python3 (pid 4711)",
            remedy="end it, or wait for its end",
        ),
    ),
    "faults": (
        e.Fault(
            path=Path("inventory/hosts.yml"),
            line=6,
            where="hosts.kpro6.adress",
            message="unknown field; did you mean address? (allowed: address, port, ...)",
        ),
    ),
    "failure": "died_early",
}
# Where the general values read badly, or one example does not show it.
SPECIAL: dict[type[e.DflashError], tuple[dict[str, Any], ...]] = {
    e.Internal: (
        {"what": "the agent on kpro6/dflash answered nonsense", "detail": "expected Observed"},
    ),
    e.InventoryProgram: (
        {
            "path": Path("inventory/cloud.py"),
            "words": ("--list",),
            "reason": "ended with exit code 1",
            "said": ("KeyError: 'CLOUD_TOKEN'",),
        },
    ),
    e.AmbiguousTarget: ({"name": "dflash"}, {"name": ""}),
    e.MissingSetting: ({"verb": "deploy", "setting": "run"},),
    e.BadDataset: (
        {"path": "/workspace/data", "problem": "no_column", "text": "it has no column `length`."},
    ),
    e.BadBuckets: ({"path": Path("playbooks/buckets.json"), "reason": "it is no JSON"},),
    e.UnknownRun: (
        {"word": "2027", "known": ("2026-11-29T1703Z-dflash-wctc",), "fitting": ()},
        {
            "word": "2026",
            "fitting": ("2026-11-29T1703Z-dflash-wctc", "2026-11-28T0901Z-dflash-b2x7"),
        },
    ),
    e.BadAddress: ({"text": "me@"},),
    e.CannotWrite: ({"path": Path("inventory/hosts.yml"), "reason": "Permission denied"},),
    e.NeedsYes: ({"what": "record this key"},),
    e.OptimizerKilled: ({},),
    e.OptimizerAtWork: ({"session": "dflash-optimizer"},),
    e.OtherFingerprint: ({"wanted": "SHA256:1aXmHk9d0mK5pO2iQW7yTPXyOeBrHSJ3FhCqTyR2v0s"},),
    e.NotRoot: ({"user": "ada"},),
    e.SudoRefused: (
        {"user": "ada", "reason": "it wants a password, and there is no terminal to ask on"},
    ),
    e.PctFailed: ({"target": "kpro6", "reason": "ipcc_send_rec failed: Connection refused"},),
    e.MissingModule: ({"module": "pyarrow", "needed": "parquet"},),
    e.SourceUnreadable: ({"path": Path("playbooks/dflash/train.py")},),
    e.NothingRuns: ({}, {"state": "NONE"}, {"run_id": "2026-11-29T1703Z-dflash-wctc"}),
    e.Unverified: (
        {
            "step": "check that it lives for 10 s",
            "detail": {"exit_code": 1, "after_s": 2.1},
            "state": "FAILED",
            "run_id": "2026-11-29T1703Z-dflash-wctc",
            "log_tail": ("ModuleNotFoundError: No module named 'torch'",),
        },
    ),
    e.Unreachable: ({"reason": "Connection refused"},),
    e.LinkLost: (
        {"reason": "silent for 30 s"},
        {"reason": "silent for 30 s", "transaction": "t-2026-11-29T1703Z-dflash-5spb"},
    ),
    e.HostKeyUnknown: ({"known_hosts": ("/home/ada/.ssh/known_hosts",)},),
    e.NotLetIn: ({"reason": ""},),
    e.ContainerStopped: ({"host": "kpro6"},),
    e.NoSuchContainer: ({"host": "kpro6"},),
    e.MissingTool: (
        {"tool": "python3", "detail": "python3 is 3.9.2; 3.10 or newer is needed"},
        {"tool": "tmux"},
    ),
    e.Interrupted: ({}, {"target": "kpro6/dflash", "committed": True}),
}
# What the agent reports with each failure of a step.
DETAILS: dict[str, dict[str, object]] = {
    "still_alive": {"pids": [4711, 4712]},
    "gpu_held": {"holders": [{"pid": 4711, "name": "python3"}]},
    "start_failed": {"reason": "the supervisor did not come up within 15 s"},
    "died_early": {"exit_code": 1, "after_s": 2.1},
    "not_ready": {"metric": "step", "within_s": 900},
    "env_mismatch": {"names": ["CUDA_VISIBLE_DEVICES"]},
    "disk_full": {"path": "/root", "free": 1_000_000, "needed": 5_000_000},
    "unwritable": {"path": "/root/train.py", "reason": "Read-only file system"},
    "cannot_rename": {"path": "/workspace/checkpoints", "reason": "Invalid cross-device link"},
    "guarded": {"path": "/workspace/checkpoints", "problem": "mount_point"},
    "system": {"path": "/root", "reason": "Input/output error"},
    "no_user": {"user": "trainer"},
    "cut_off": {"step": "start the run"},
    "stale": {"changed": ["run", "files"]},
    "bad_upload": {"reason": "the hashes differ"},
    "no_run": {"run_id": "2026-11-29T1703Z-dflash-wctc"},
    "lock_held": {"who": "ada@desk", "since": 1_796_000_000},
}
# Not told as `unverified`: they are errors of their own.
ELSEWHERE = ("lock_held", "stale", "not_begun", "cut_off", "no_run")


def kinds(root: type[e.DflashError] = e.DflashError) -> Iterator[type[e.DflashError]]:
    """The errors that are raised, in the tree's order."""
    if "__dataclass_fields__" in vars(root):
        yield root
    for below in root.__subclasses__():
        yield from kinds(below)


def examples(kind: type[e.DflashError]) -> list[e.DflashError]:
    """One of the kind, or several where they differ in words."""
    hints = get_type_hints(kind, vars(e) | {"Path": Path})
    values: dict[str, Any] = {}
    for field in fields(kind):  # type: ignore[arg-type] # `kinds` gives dataclasses only
        if field.name in VALUES and (field.default is MISSING or field.name == "close"):
            values[field.name] = VALUES[field.name]
        elif field.default is MISSING and field.default_factory is MISSING:
            values[field.name] = (
                (f"<{field.name}>",) if "tuple" in str(hints[field.name]) else f"<{field.name}>"
            )
    return [kind(**(values | special)) for special in SPECIAL.get(kind, ({},))]


def told(error: e.DflashError) -> str:
    """What the program prints on a terminal of 80 columns."""
    with contextlib.redirect_stderr(io.StringIO()) as err:
        show_error(Screen("never", {"COLUMNS": str(COLUMNS)}), error)
    return err.getvalue()


def failures() -> list[str]:
    """The codes of what can go wrong in a transaction, as the protocol lists them."""
    listed = (protocol.Failure.__doc__ or "").partition("holds:")[2]
    return [code for code in re.findall(r"``([a-z_]+)``", listed) if code not in ELSEWHERE]


def failure_row(code: str) -> tuple[str, str]:
    """What happened, and what to do."""
    detail = DETAILS.get(code, {})
    error = e.Unverified(
        target="kpro6/dflash", step="", failure=code, detail=detail, state="STOPPED"
    )
    return failure_words(error)


def refusals() -> dict[str, tuple[str, str]]:
    """Message and remedy of each refusal, by its code, as the source has them."""
    found: dict[str, tuple[str, str]] = {}
    for path in sorted((ROOT / "dflashctl").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for part in ast.walk(tree):
            if isinstance(part, ast.FunctionDef):
                for code, message, remedy in _refusals_in(part):
                    found.setdefault(code, (message, remedy))
    return dict(sorted(found.items()))


def _refusals_in(function: ast.FunctionDef) -> Iterator[tuple[str, str, str]]:
    for call in ast.walk(function):
        if not (isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Refusal"):
            continue
        said = {word.arg: word.value for word in call.keywords}
        if isinstance(said["code"], ast.Name):
            yield from _cases(function, said["code"].id)
        else:
            code = re.sub("<.*?>", "*", _text(said["code"]))
            yield code, _text(said["message"]), _text(said["remedy"])


def _cases(function: ast.FunctionDef, subject: str) -> Iterator[tuple[str, str, str]]:
    """The cases of ``match subject`` that each set ``message`` and ``remedy``."""
    for part in ast.walk(function):
        if not (isinstance(part, ast.Match) and getattr(part.subject, "id", "") == subject):
            continue
        for case in part.cases:
            if isinstance(case.pattern, ast.MatchValue):
                sets = {
                    getattr(one.targets[0], "id", ""): one.value
                    for one in case.body
                    if isinstance(one, ast.Assign)
                }
                yield _text(case.pattern.value), _text(sets["message"]), _text(sets["remedy"])


def _text(part: ast.expr) -> str:
    """A text of the source; what is filled in stands in angle brackets."""
    match part:
        case ast.Constant():
            return str(part.value)
        case ast.JoinedStr():
            return "".join(map(_text, part.values))
        case ast.FormattedValue():
            return f"<{_name(part.value)}>"
        case _:
            return f"<{_name(part)}>"


def _name(part: ast.expr) -> str:
    match part:
        case ast.Name():
            return part.id
        case ast.Attribute():
            return part.attr
        case ast.Call(args=[first, *_]):
            return _name(first)
        case ast.IfExp() | ast.BoolOp() | ast.Subscript() | ast.Call():
            inner = [one.attr for one in ast.walk(part) if isinstance(one, ast.Attribute)]
            return inner[0] if inner else "..."
        case _:
            return "..."


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def page() -> str:
    """The whole page."""
    parts = [_HEAD, "| code | exit | what it means |", "|---|---|---|"]
    for kind in kinds():
        meaning = re.split(r"(?<=[.)]) |\n", (kind.__doc__ or "").strip())[0].replace("``", "`")
        parts.append(f"| [`{kind.code}`](#{kind.code}) | {kind.exit_code} | {_cell(meaning)} |")
    parts.append(_FAILURES)
    parts += [
        f"| `{code}` | {_cell(what)} | {_cell(remedy)} |"
        for code in failures()
        for what, remedy in [failure_row(code)]
    ]
    parts.append(_REFUSALS)
    parts += [
        f"| `{code}` | {_cell(message)} | {_cell(remedy)} |"
        for code, (message, remedy) in refusals().items()
    ]
    parts.append("\n## As they are told")
    for kind in kinds():
        parts.append(f"\n### {kind.code}")
        parts += [f"```\n{told(error)}```" for error in examples(kind)]
    return "\n".join(parts) + "\n"


_HEAD = """\
# Errors

Made by `make docs` from the program itself. With `--json` the code is `error.code`, beside
`message`, `next` and `detail` ([json.md](json.md)); every exit code is in
[exit-codes.md](exit-codes.md). Without `--json` an error is told on standard error, as shown
below: what happened, particulars, and what to do next.
"""
_FAILURES = """
## What can go wrong in a transaction
`unverified`, with this code in `detail.failure`.

| code | what happened | what to do |
|---|---|---|"""
_REFUSALS = """
## Why preflight refuses
`refused`, with these in `detail.refusals`: nothing was touched.

| code | what is amiss | what to do |
|---|---|---|"""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
