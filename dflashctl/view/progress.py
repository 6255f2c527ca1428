"""Transactions as they happen: live on a terminal, one line a step elsewhere."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from dflashctl.agent.protocol import StepBegun, StepDone, StepNote, StepPassed, StepProgress
from dflashctl.view import figures
from dflashctl.view.console import ACCENT
from dflashctl.view.failures import passed_words
from dflashctl.view.sanitize import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Self

    from rich.console import RenderableType
    from rich.live import Live
    from rich.progress import Progress
    from rich.spinner import Spinner
    from rich.text import Text

    from dflashctl.agent.protocol import Event
    from dflashctl.plan.model import Step
    from dflashctl.view.console import Screen

SHOW_AFTER_S = 1.0
# How often a pipe is told how far a long step has come.
TELL_EVERY_S = 30.0


class Board:
    """The steps of a verb on its targets, on standard error. A context manager, thread-safe.

    Of one target every step leaves a line. Of several on a terminal each has a row with its
    present step, and how they ended is told afterwards; elsewhere each line names its target.
    """

    def __init__(self, screen: Screen, plans: Mapping[str, tuple[Step, ...]]) -> None:
        """``plans``: the steps, by the targets' names."""
        self._screen = screen
        self._live: Live | None = None
        self._stack = ExitStack()
        alone = len(plans) == 1
        quiet = screen.animates and not alone
        self._rows = {
            name: Row(self, "" if alone else name, steps, quiet=quiet)
            for name, steps in plans.items()
        }

    def __enter__(self) -> Self:
        if self._screen.animates:
            from rich.live import Live

            self._live = Live(get_renderable=self._drawn, console=self._screen.err, transient=True)
            self._stack.enter_context(self._screen.moving(self._live))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def of(self, target: str) -> Row:
        """The target's own row."""
        return self._rows[target]

    def remark(self, text: str) -> None:
        """Something to tell between the steps."""
        self._screen.say(text, style="yellow")

    @property
    def moves(self) -> bool:
        """Whether the steps at work are to be seen without lines of their own."""
        return self._live is not None

    def line(self, lead: Text, body: Text) -> None:
        """A line that stays."""
        self._screen.flow(self._screen.err, lead, body)

    def redraw(self) -> None:
        """Now, so that no line of a step that is over stands beside the next one."""
        if self._live is not None:
            self._live.refresh()

    def _drawn(self) -> RenderableType:
        from rich.table import Table
        from rich.text import Text

        rows = list(self._rows.values())
        if len(rows) == 1:
            return rows[0].moving
        # Those at work come first where there is no room for all.
        room = max(1, self._screen.err.height - 2)
        left_out = max(0, len(rows) - room)
        over = [row for row in rows if row.over]
        hidden = {id(row) for row in [*over, *reversed(rows)][:left_out]}
        table = Table.grid(padding=(0, 2, 0, 0))
        # Of a long step the end may go, of a name nothing.
        table.add_column(no_wrap=True, min_width=max(len(one_line(row.name)) for row in rows))
        table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        for row in rows:
            if id(row) not in hidden:
                table.add_row(Text(one_line(row.name)), row.moving)
        if left_out:
            done = sum(row.over for row in rows)
            table.add_row("", Text(f"{done} of {len(rows)} are through", style="dim"))
        return table


class Row:
    """The steps of one target's transaction."""

    def __init__(self, board: Board, name: str, steps: tuple[Step, ...], *, quiet: bool) -> None:
        """``quiet``: it leaves no lines."""
        self.name = name
        self.over = False
        self._board, self._steps, self._quiet = board, steps, quiet
        self._at: int | None = None
        self._since = 0.0
        self._told = 0.0
        self._note = ""
        self._last = ("", "", "")
        self._spinner: Spinner | None = None

    def tell(self, event: Event) -> None:
        """Show one event of the agent's; heartbeats only prove that the line lives."""
        match event:
            case StepBegun():
                self._since, self._note = time.monotonic(), ""
                self._told, self._at = self._since, event.index
                self._board.redraw()
            case StepNote():
                self._note = one_line(event.text)
                if not self._board.moves:
                    self._aside(self._note)
            case StepProgress():
                self._note = self._moved(event)
                if not self._board.moves and time.monotonic() - self._told >= TELL_EVERY_S:
                    self._told = time.monotonic()
                    self._aside(self._note)
            case StepDone():
                result = f": {one_line(event.result)}" if event.result else ""
                took = f" ({figures.duration(event.seconds)})" if event.seconds >= 1 else ""
                self._end("done", "green", f"{self._what(event.index)}{result}{took}")
            case StepPassed():
                failure = passed_words(event.failure)
                self._end("failed", "yellow", f"{self._what(event.index)}: {failure}; goes on")
            case _:
                pass

    def failed(self, index: int) -> None:
        """Mark the step that a failure ended; the error itself is told afterwards."""
        self._end("failed", "red", self._what(index))

    def remark(self, text: str) -> None:
        """Something to tell of this target between its steps."""
        self._board.remark(f"{self.name}: {text}" if self.name else text)

    def ended(self) -> None:
        """Nothing more comes."""
        self.over = True
        self._board.redraw()

    @property
    def moving(self) -> RenderableType:
        """The step at work, with the seconds that it has taken so far."""
        from rich.spinner import Spinner
        from rich.text import Text

        if self._at is None:
            word, style, text = self._last
            return Text.assemble((f"{word:>6}  ", style), text) if self.name else Text()
        if self._spinner is None:
            self._spinner = Spinner("line", style=ACCENT)
        took = time.monotonic() - self._since
        seconds = f" ({figures.duration(int(took))})" if took >= 10 else ""
        note = f": {self._note}" if self._note else ""
        # As a Text: of plain words a spinner would read markup.
        self._spinner.update(text=Text(f"{self._what(self._at)}{note}{seconds}"))
        return self._spinner

    def _moved(self, event: StepProgress) -> str:
        """``12.3 of 41.2 GB, 1.1 GB/s, 26 s left``, from the step's own beginning on."""
        took = time.monotonic() - self._since
        text = f"{figures.size(event.done)} of {figures.size(event.total)}"
        if took < 1 or not event.done:
            return text
        rate = event.done / took
        left = max(0, event.total - event.done) / rate
        return f"{text}, {figures.size(rate)}/s, {figures.duration(max(10.0, left))} left"

    def _aside(self, text: str) -> None:
        from rich.text import Text

        self._board.line(Text(" " * 8), Text(self._named(text), style="dim"))

    def _end(self, word: str, style: str, text: str) -> None:
        from rich.text import Text

        self._last, self._at = (word, style, text), None
        self._board.redraw()
        if not self._quiet:
            self._board.line(Text(f"{word:>6}  ", style=style), Text(self._named(text)))

    def _named(self, text: str) -> str:
        return f"{one_line(self.name)}: {text}" if self.name else text

    def _what(self, index: int) -> str:
        known = 0 <= index < len(self._steps)
        return one_line(self._steps[index].what) if known else f"step {index + 1}"


class Upload:
    """What was sent of how much; shown once sending takes a while. A context manager.

    Call it with the bytes sent and the bytes in all; of several that are sent at once, call
    what ``part`` gives. Thread-safe.
    """

    def __init__(self, screen: Screen, words: tuple[str, str] = ("sending", "sent")) -> None:
        """``words``: what is being done, and what was done."""
        self._screen, self._words = screen, words
        self._begun = time.monotonic()
        self._parts: dict[str, tuple[int, int]] = {}
        self._drawing = threading.Lock()
        self._bar: Progress | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        took = time.monotonic() - self._begun
        if self._bar is not None:
            self._bar.stop()
        sent = self._whole()[0]
        if sent and took >= SHOW_AFTER_S:
            self._screen.say(
                f"{self._words[1]} {figures.size(sent)} in {figures.duration(took)}",
                style="dim",
            )

    def __call__(self, sent: int, total: int) -> None:
        """So much has been sent."""
        self._moved("", sent, total)

    def part(self, name: str) -> Callable[[int, int], None]:
        """For one of several: to be called as this itself would be."""
        return lambda sent, total: self._moved(name, sent, total)

    def _moved(self, name: str, sent: int, total: int) -> None:
        with self._drawing:
            self._parts[name] = (sent, total)
            if self._bar is None:
                if not self._screen.animates or time.monotonic() - self._begun < SHOW_AFTER_S:
                    return
                self._bar = self._start()
            completed, whole = self._whole()
            self._bar.update(self._bar.task_ids[0], completed=completed, total=whole)

    def _whole(self) -> tuple[int, int]:
        parts = self._parts.values()
        return sum(sent for sent, _ in parts), sum(total for _, total in parts)

    def _start(self) -> Progress:
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
        bar.add_task(self._words[0], total=None)
        bar.start()
        return bar
