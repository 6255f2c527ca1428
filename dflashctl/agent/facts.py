"""What a target is like when a run starts there. Nothing here may delay or prevent a start."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress

from dflashctl.agent import driver
from dflashctl.agent.recorded import Facts

ANSWER_S = 3.0
# torch is not imported, which takes seconds: what is installed says its version.
_CODE = """
import json, platform
try:
    from importlib.metadata import version
    torch = version("torch")
except Exception:
    torch = None
print(json.dumps([platform.python_version(), torch]))
"""


class Question:
    """Asks an interpreter for its version and torch's, while the run is being started."""

    def __init__(self, python: str, env: Mapping[str, str]) -> None:
        self._deadline = time.monotonic() + ANSWER_S
        self._process: subprocess.Popen[bytes] | None = None
        with suppress(OSError, ValueError):
            self._process = subprocess.Popen(
                (python, "-c", _CODE),
                env=dict(env),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )

    def answer(self, gpus: tuple[str, ...]) -> Facts:
        """What it said, if it did in time, with what is known besides."""
        python, torch = None, None
        if self._process is not None:
            try:
                said, _ = self._process.communicate(timeout=self._left())
                python, torch = json.loads(said)
            except (subprocess.TimeoutExpired, ValueError):
                self._process.kill()
                self._process.communicate()
        return Facts(driver=driver.module(), gpus=gpus, python=_text(python), torch=_text(torch))

    def _left(self) -> float:
        return max(0.0, self._deadline - time.monotonic())


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
