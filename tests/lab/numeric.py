"""A Python with numpy and pyarrow in the container: the packages of this interpreter."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from tests.lab.need import do_without

if TYPE_CHECKING:
    from tests.lab.container import Container

_PACKAGES = ("numpy", "pyarrow")
_FOLDER = "/opt/numeric"
SITE = f"{_FOLDER}/site"
TORCH_SITE = "/opt/torch"
_TORCH_VENV = Path(__file__).parents[2] / ".venv-torch"
_PYTHON = f"""\
#!/bin/sh
exec env PYTHONPATH="$PYTHONPATH:{SITE}" python3 "$@"
"""


def numeric_python(container: Container) -> str:
    """The path of the interpreter there.

    The packages are compiled for this interpreter's version: the test does without where the
    container has another.
    """
    shown = {folder.name for folder in installed()}
    if lacking := [package for package in _PACKAGES if package not in shown]:
        do_without(f"there is no {' and no '.join(lacking)} here")
    python = f"{_FOLDER}/python"
    container.put(python, _PYTHON.encode(), 0o755)
    tried = container.run((python, "-c", "import numpy, pyarrow"), timeout_s=120)
    if tried.returncode != 0:
        do_without(f"numpy and pyarrow of this Python do not run there: {tried.stderr[-500:]}")
    return python


def torch_path(container: Container) -> str:
    """The PYTHONPATH with which the container's python3 has torch: `make torch-venv`'s."""
    if not torch_site():
        do_without("there is no torch here: make torch-venv")
    words = ("env", f"PYTHONPATH={TORCH_SITE}", "python3", "-c", "import torch")
    tried = container.run(words, timeout_s=120)
    if tried.returncode != 0:
        do_without(f"torch of .venv-torch does not run there: {tried.stderr[-500:]}")
    return TORCH_SITE


def torch_site() -> Path | None:
    """The folder of packages that a container shows in `TORCH_SITE`, once it is whole."""
    if not (_TORCH_VENV / "ready").exists():
        return None
    return next(_TORCH_VENV.glob("lib/python3*/site-packages"), None)


def installed() -> list[Path]:
    """The folders of the packages that are there, and of the libraries that their wheels bring.

    A container shows them in `SITE`: copied, they would be most of what is in it.
    """
    found = []
    for package in _PACKAGES:
        spec = importlib.util.find_spec(package)
        if spec is not None and spec.origin is not None:
            folder = Path(spec.origin).parent
            found += [folder, folder.with_name(f"{package}.libs")]
    return [folder for folder in found if folder.is_dir()]
