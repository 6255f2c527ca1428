"""A long piece of work, as it goes on: a bar on a terminal, nothing elsewhere."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from dflashctl.view.console import ACCENT
from dflashctl.view.sanitize import one_line

if TYPE_CHECKING:
    from typing import Self

    from rich.progress import Progress

    from dflashctl.view.console import Screen

SHOW_AFTER_S = 1.0


class Working:
    """How far a long piece of work is, shown once it takes a while. A context manager.

    Call it with the stage that it is in, and how much of that is done, from 0 to 1.
    """

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._begun = time.monotonic()
        self._bar: Progress | None = None
        self._stage = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, stage: str, share: float) -> None:
        """So much of the stage is done."""
        if self._bar is None:
            if not self._screen.animates or time.monotonic() - self._begun < SHOW_AFTER_S:
                return
            self._bar = self._start()
        task = self._bar.task_ids[0]
        if stage != self._stage:
            self._stage = stage
            self._bar.reset(task, description=one_line(stage))  # of each stage its own time left
        self._bar.update(task, completed=share)

    def _start(self) -> Progress:
        from rich.progress import BarColumn, Progress, TextColumn
        from rich.progress import TimeRemainingColumn as Remaining

        bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None, complete_style=ACCENT),
            TextColumn("{task.percentage:>3.0f}%", markup=False),
            Remaining(compact=True),
            console=self._screen.err,
            transient=True,
        )
        bar.add_task("", total=1.0)
        bar.start()
        return bar
