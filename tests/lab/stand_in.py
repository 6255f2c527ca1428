"""Puts stand-ins for programs where tests want them, and tells them how to behave."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.lab.machine import Machine

_FOLDER = Path(__file__).resolve().parent.parent / "stand_ins"
Behaviour = dict[str, Any]


def program(name: str, python: str) -> bytes:
    """A stand-in as an executable file for that interpreter, which need not be on PATH."""
    _, _, body = (_FOLDER / name).read_text().partition("\n")
    return f"#!{python} -IS\n{body}".encode()


def put_nvidia_smi(
    machine: Machine, folder: str, behaviour: Behaviour, python: str = "/usr/bin/python3"
) -> None:
    """Put ``nvidia-smi`` into a folder of that machine, or change how it behaves."""
    machine.put(f"{folder}/nvidia-smi.json", json.dumps(behaviour).encode())
    machine.put(f"{folder}/nvidia-smi", program("nvidia-smi", python), 0o755)


def answering(count: int, *, delay_s: float = 0.0, **fields: str) -> Behaviour:
    """That many GPUs, with plausible figures; ``fields`` replaces some, dots as ``_``."""
    changed = {name.replace("_", "."): value for name, value in fields.items()}
    gpus = [
        {
            "index": str(index),
            "name": "NVIDIA H100 80GB HBM3",
            "uuid": f"GPU-00000000-0000-0000-0000-{index:012}",
            "utilization.gpu": str(90 + index % 8),
            "utilization.memory": "41",
            "memory.used": str(61_440 + index),
            "memory.free": str(81_559 - 61_440 - index),
            "memory.total": "81559",
            "temperature.gpu": str(55 + index),
            "power.draw": f"{612.5 + index:.2f}",
            **changed,
        }
        for index in range(count)
    ]
    return {"do": "answer", "gpus": gpus, "delay_s": delay_s}


def failing(
    message: str = "Failed to initialize NVML: Unknown Error", exit_code: int = 255
) -> Behaviour:
    """It says why it cannot, and fails."""
    return {"do": "fail", "message": message, "exit_code": exit_code}


def hanging() -> Behaviour:
    """It never answers, and ends for no signal but KILL."""
    return {"do": "hang"}
