"""What a target needs of us, named by its hash; and the words that start it there."""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dflashctl.link.transport import Words

# Parts of libtmux that only its users' test suites need.
_NOT_SHIPPED = ("libtmux/test/", "libtmux/pytest_plugin.py")
# Without a quote, as it passes through the login shell of whoever we arrive as.
_BECOME = """\
import os, pwd, sys
sys.path.insert(0, os.path.join(pwd.getpwuid(os.getuid()).pw_dir, sys.argv[1]))
from dflashctl.agent.interactive import become
become(sys.argv[2], sys.argv[3], sys.argv[4:])"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """The agent, buckets and libtmux as text, by path. ``sha256`` is over sorted (path, text)."""

    sha256: str
    files: dict[str, str]

    def packed(self) -> bytes:
        """What the loader reads: the length, a newline, and the files as zlib'd JSON."""
        data = zlib.compress(json.dumps(self.files).encode("ascii"), 6)
        return b"%d\n%s" % (len(data), data)


def read_bundle() -> Bundle:
    """Read what is installed here. Takes a few milliseconds."""
    import dflashctl

    ours = Path(str(dflashctl.__file__)).parent
    files = {"dflashctl/__init__.py": _text(ours / "__init__.py")}
    files |= _package(ours / "agent", "dflashctl/agent")
    files |= _package(ours / "buckets", "dflashctl/buckets")
    spec = find_spec("libtmux")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("libtmux")
    files |= _package(Path(spec.origin).parent, "libtmux")
    digest = hashlib.sha256(json.dumps(sorted(files.items())).encode("ascii")).hexdigest()
    return Bundle(sha256=digest, files=files)


def loader_text() -> str:
    """The loader's program without comments and annotations, and with narrow indentation."""
    text = Path(__file__).with_name("loader.py").read_text(encoding="utf-8")
    code = text[text.index("\nimport ") :]
    code = re.sub(r"^ *#.*\n", "", code, flags=re.MULTILINE)
    code = re.sub(r"^def .*", _without_annotations, code, flags=re.MULTILINE)
    code = re.sub(r"\n\n+", "\n", code).strip()
    return re.sub(r"^ +", lambda found: " " * (len(found[0]) // 4), code, flags=re.MULTILINE)


def _without_annotations(found: re.Match[str]) -> str:
    return re.sub(r': (?:"[^"]*"|\w+)(?=[,)]| =)| -> \w+', "", found[0])


def agent_words(
    python: str, path: str, sha256: str, state_dir: str | None, first: str = ""
) -> Words:
    """The words that start the agent: the same environment everywhere, ours and no other.

    ``first``: a request that it answers as soon as it is there, from ``wire.in_a_word``.
    """
    return (
        *("env", "-i", f"PATH={path}", "LC_ALL=C.UTF-8"),
        *(python, "-I", "-S", "-X", "utf8", "-c", loader_text(), sha256, state_dir or "", first),
    )


def interactive_words(
    environment: Words, python: str, sha256: str, term: str, path: Words, command: Words
) -> Words:
    """The words that become a login shell or ``command``, where the agent was before.

    ``environment``: assignments for the interpreter.
    """
    return (
        *("env", "-i", *environment),
        *(python, "-I", "-S", "-X", "utf8", "-c", _BECOME, f".cache/dflashctl/{sha256}"),
        *(term, ":".join(path), *command),
    )


def _package(folder: Path, name: str) -> dict[str, str]:
    found = {f"{name}/{path.relative_to(folder).as_posix()}": path for path in folder.rglob("*.py")}
    return {
        shipped: _text(path)
        for shipped, path in found.items()
        if not shipped.startswith(_NOT_SHIPPED)
    }


def _text(path: Path) -> str:
    with path.open(encoding="utf-8", newline="") as text:
        return text.read()
