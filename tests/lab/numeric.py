"""A Python with numpy and pyarrow in the container: this interpreter's own packages, copied."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from tests.lab.need import do_without

if TYPE_CHECKING:
    from tests.lab.container import Container

# More than half of the files, and of no use to who only imports.
_SPARE = shutil.ignore_patterns("__pycache__", "tests", "include", "*.pyi", "*.pyx", "*.pxd")
_FOLDER = "/opt/numeric"
_PYTHON = f"""\
#!/bin/sh
exec env PYTHONPATH="$PYTHONPATH:{_FOLDER}/site" python3 "$@"
"""


def numeric_python(container: Container) -> str:
    """The path of the interpreter there; made when first asked for.

    The packages are compiled for this interpreter's version: the test does without where the
    container has another.
    """
    python = f"{_FOLDER}/python"
    if container.run(("test", "-x", python)).returncode != 0:
        site = container.rootfs / _FOLDER.removeprefix("/") / "site"
        site.mkdir(parents=True)
        for source in (*_installed("numpy"), *_installed("pyarrow")):
            shutil.copytree(source, site / source.name, ignore=_SPARE)
        container.put(python, _PYTHON.encode(), 0o755)
    tried = container.run((python, "-c", "import numpy, pyarrow"), timeout_s=120)
    if tried.returncode != 0:
        do_without(f"numpy and pyarrow of this Python do not run there: {tried.stderr[-500:]}")
    return python


def _installed(package: str) -> list[Path]:
    """A package's folder, and that of the libraries that its wheel brings along."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        do_without(f"there is no {package} here")
    folder = Path(spec.origin).parent
    libraries = folder.with_name(f"{package}.libs")
    return [folder, libraries] if libraries.is_dir() else [folder]
