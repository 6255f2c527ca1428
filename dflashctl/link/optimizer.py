"""What goes wrong in the bucket optimiser, there or here, as our errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dflashctl.errors import (
    BadDataset,
    DflashError,
    Internal,
    MissingModule,
    MissingTool,
    NoOptimizer,
    OptimizerAtWork,
    OptimizerKilled,
)

if TYPE_CHECKING:
    from dflashctl.agent.protocol import Failure


def of_the_optimizer(target: str, failure: Failure) -> DflashError | None:
    """What the bucket optimiser, or the agent on its behalf, complains of."""

    def text(key: str) -> str:
        return str(failure.detail.get(key, ""))

    match failure.code:
        case "bad_dataset":
            return BadDataset(
                target=target, path=text("path"), problem=text("problem"), text=text("text")
            )
        case "missing_module":
            return MissingModule(
                target=target, python=text("python"), module=text("module"), needed=text("needed")
            )
        case "no_python":
            return MissingTool(target=target, tool=text("python"), detail="not found there")
        case "optimizing":
            return OptimizerAtWork(target=target, session=text("session"))
        case "no_job":
            return NoOptimizer(target=target, job=text("job"))
        case "job_killed":
            return OptimizerKilled(target=target)
        case "job_died":
            code = failure.detail.get("exit_code")
            how = "" if code is None else f" (exit code {code})"
            what = f"the optimiser on {target} ended without an answer{how}"
            return Internal(what=what, detail=text("said"))
        case _:
            return None
