"""Checkpoints that are whole or are not there.

``step-00000120/`` holds ``drafter.safetensors`` and ``config.json`` (what inference loads),
``training.pt`` (the optimizer, and which samples the epoch has seen), ``state.json`` (where the
run is, and what it batches by) and ``COMPLETE``: size and sha256 of each. It is written under
another name and onto the disk, ``COMPLETE`` last; then one rename. ``latest`` points at it.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from dflash_data import sha256

MARK, PARTIAL = "COMPLETE", ".partial-"
_NAME = re.compile(r"step-(\d{8,})")


class Damaged(Exception):
    """A checkpoint's file is not what ``COMPLETE`` says."""


class Content(NamedTuple):
    """What is in a checkpoint.

    weights: the drafter's, in full precision. config: what inference needs to know.
    training: what only goes on with training. state: JSON.
    """

    weights: dict[str, Tensor]
    config: dict[str, Any]
    training: dict[str, Any]
    state: dict[str, Any]


def save(out: Path, step: int, content: Content) -> Path:
    """Write a checkpoint.

    Raises:
        OSError: it could not be written (ENOSPC before anything is, if there is no room).
            Nothing is left of it then.
    """
    name = f"step-{step:08d}"
    partial, final = out / f"{PARTIAL}{name}", out / name
    tensors = [*content.weights.values(), *_tensors(content.training)]
    needed = sum(tensor.numel() * tensor.element_size() for tensor in tensors) * 21 // 20 + (
        1 << 20
    )
    if (free := shutil.disk_usage(out).free) < needed:
        raise OSError(errno.ENOSPC, f"{needed:,} bytes are needed, {free:,} are free", str(out))
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        save_file(content.weights, partial / "drafter.safetensors")
        torch.save(content.training, partial / "training.pt")
        for file, value in (("config.json", content.config), ("state.json", content.state)):
            (partial / file).write_text(json.dumps(value, indent=1) + "\n")
        files = sorted(partial.iterdir())
        mark = {f.name: {"size": f.stat().st_size, "sha256": sha256(f)} for f in files}
        for file_path in files:
            to_disk(file_path)
        (partial / MARK).write_text(json.dumps(mark, indent=1) + "\n")
        to_disk(partial / MARK)
        to_disk(partial)
        if final.exists():  # of an earlier attempt at the same step
            old = out / f"{PARTIAL}old-{name}"
            shutil.rmtree(old, ignore_errors=True)
            final.rename(old)
        partial.rename(final)
        to_disk(out)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    shutil.rmtree(out / f"{PARTIAL}old-{name}", ignore_errors=True)
    link = out / f"{PARTIAL}latest"
    link.unlink(missing_ok=True)
    link.symlink_to(name)
    link.replace(out / "latest")
    return final


def _tensors(value: object) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    inner = value.values() if isinstance(value, dict) else ()
    return [tensor for one in inner for tensor in _tensors(one)]


def to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def newest(out: Path) -> Path | None:
    """The complete checkpoint with the highest step."""
    marks = [
        mark.parent for mark in out.glob(f"step-*/{MARK}") if _NAME.fullmatch(mark.parent.name)
    ]
    return max(marks, key=lambda folder: int(folder.name[5:]), default=None)


def load(folder: Path) -> Content:
    """Everything of a checkpoint, checked.

    Raises:
        Damaged: see there.
    """
    try:
        for name, expected in json.loads((folder / MARK).read_text()).items():
            file = folder / name
            if file.stat().st_size != expected["size"] or sha256(file) != expected["sha256"]:
                raise Damaged(f"{file} is not what was saved")
    except (OSError, ValueError, KeyError) as error:
        raise Damaged(f"{folder}: {error!r}") from error
    return Content(
        weights=load_file(folder / "drafter.safetensors"),
        config=json.loads((folder / "config.json").read_text()),
        training=torch.load(folder / "training.pt", map_location="cpu", weights_only=True),
        state=json.loads((folder / "state.json").read_text()),
    )


def take_folder(out: Path) -> int | None:
    """Make it ours until this process ends, and sweep what was cut; None: another one's."""
    out.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(out / ".lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    for rest in out.glob(f"{PARTIAL}step-*"):
        shutil.rmtree(rest, ignore_errors=True)
    for old in out.glob(f"{PARTIAL}old-step-*"):
        back = out / old.name.removeprefix(f"{PARTIAL}old-")
        if back.exists():
            shutil.rmtree(old, ignore_errors=True)
        else:  # killed between two renames
            old.rename(back)
    return descriptor
