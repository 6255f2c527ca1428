"""A transaction as it happens: a live line on a terminal, one line a step elsewhere."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from dflashctl.agent.protocol import StepBegun, StepDone, StepNote, StepPassed, StepProgress
from dflashctl.view import figures
from dflashctl.view.console import ACCENT
from dflashctl.view.failures import passed_words
from dflashctl.view.sanitize import one_line

if TYPE_CHECKING:
    from typing import Self

    from rich.live import Live
    from rich.progress import Progress
    from rich.spinner import Spinner

    from dflashctl.agent.protocol import Event
    from dflashctl.plan.model import Step
    from dflashctl.view.console import Screen

SHOW_AFTER_S = 1.0
# How often a pipe is told how far a long step has come.
TELL_EVERY_S = 30.0


class Steps:
    """The steps of one commit, on standard error. A context manager."""

    def __init__(self, screen: Screen, steps: tuple[Step, ...]) -> None:
        self._screen = screen
        self._steps = steps
        self._at: int | None = None
        self._since = 0.0
        self._told = 0.0
        self._note = ""
        self._spinner: Spinner | None = None
        self._live: Live | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        if self._screen.animates:
            from rich.live import Live
            from rich.spinner import Spinner

            self._spinner = Spinner("line", style=ACCENT)
            self._live = Live(get_renderable=self._moving, console=self._screen.err, transient=True)
            self._stack.enter_context(self._screen.moving(self._live))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def tell(self, event: Event) -> None:
        """Show one event of the agent's; heartbeats only prove that the line lives."""
        match event:
            case StepBegun():
                self._at, self._since, self._note = event.index, time.monotonic(), ""
                self._told = self._since
                self._redraw()
            case StepNote():
                self._note = one_line(event.text)
                if self._spinner is None:
                    self._screen.say(self._note, lead="        ", style="dim")
            case StepProgress():
                self._note = self._moved(event)
                if self._spinner is None and time.monotonic() - self._told >= TELL_EVERY_S:
                    self._told = time.monotonic()
                    self._screen.say(self._note, lead="        ", style="dim")
            case StepDone():
                result = f": {one_line(event.result)}" if event.result else ""
                took = f" ({figures.duration(event.seconds)})" if event.seconds >= 1 else ""
                self._end("done", "green", f"{self._what(event.index)}{result}{took}")
            case StepPassed():
                failure = passed_words(event.failure)
                self._end("failed", "yellow", f"{self._what(event.index)}: {failure}; goes on")
            case _:
                pass

    def _moved(self, event: StepProgress) -> str:
        """``12.3 of 41.2 GB, 1.1 GB/s, 26 s left``, from the step's own beginning on."""
        took = time.monotonic() - self._since
        text = f"{figures.size(event.done)} of {figures.size(event.total)}"
        if took < 1 or not event.done:
            return text
        rate = event.done / took
        left = max(0, event.total - event.done) / rate
        return f"{text}, {figures.size(rate)}/s, {figures.duration(max(10.0, left))} left"

    def failed(self, index: int) -> None:
        """Mark the step that a failure ended; the error itself is told afterwards."""
        self._end("failed", "red", self._what(index))

    def remark(self, text: str) -> None:
        """Something to tell between the steps."""
        self._screen.say(text, style="yellow")

    def _end(self, word: str, style: str, text: str) -> None:
        from rich.text import Text

        self._at = None
        self._redraw()
        self._screen.flow(self._screen.err, Text(f"{word:>6}  ", style=style), Text(text))

    def _redraw(self) -> None:
        """Now, so that no line of a step that is over stands beside the next one."""
        if self._live is not None:
            self._live.refresh()

    def _what(self, index: int) -> str:
        known = 0 <= index < len(self._steps)
        return one_line(self._steps[index].what) if known else f"step {index + 1}"

    def _moving(self) -> Spinner | str:
        """The step at work, with the seconds that it has taken so far."""
        from rich.text import Text

        if self._at is None or self._spinner is None:
            return ""
        took = time.monotonic() - self._since
        seconds = f" ({figures.duration(int(took))})" if took >= 10 else ""
        note = f": {self._note}" if self._note else ""
        # As a Text: of plain words a spinner would read markup.
        self._spinner.update(text=Text(f"{self._what(self._at)}{note}{seconds}"))
        return self._spinner


class Upload:
    """What was sent of how much; shown once sending takes a while. A context manager.

    Call it with the bytes sent and the bytes in all.
    """

    def __init__(self, screen: Screen, words: tuple[str, str] = ("sending", "sent")) -> None:
        """``words``: what is being done, and what was done."""
        self._screen, self._words = screen, words
        self._begun = time.monotonic()
        self._sent = 0
        self._bar: Progress | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        took = time.monotonic() - self._begun
        if self._bar is not None:
            self._bar.stop()
        if self._sent and took >= SHOW_AFTER_S:
            self._screen.say(
                f"{self._words[1]} {figures.size(self._sent)} in {figures.duration(took)}",
                style="dim",
            )

    def __call__(self, sent: int, total: int) -> None:
        """So much has been sent."""
        self._sent = sent
        if self._bar is None:
            if not self._screen.animates or time.monotonic() - self._begun < SHOW_AFTER_S:
                return
            self._bar = self._start(total)
        self._bar.update(self._bar.task_ids[0], completed=sent, total=total)

    def _start(self, total: int) -> Progress:
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn
        from rich.progress import TimeRemainingColumn as Remaining

        bar = Progress(
            TextColumn(self._words[0]),
            BarColumn(bar_width=None, complete_style=ACCENT),
            DownloadColumn(),
            Remaining(compact=True),
            console=self._screen.err,
            transient=True,
        )
        bar.add_task(self._words[0], total=total)
        bar.start()
        return bar
