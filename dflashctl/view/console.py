"""Where words go: the answer to standard output, everything else to standard error."""

from __future__ import annotations

import contextlib
import logging
import re
import sys
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from dflashctl.errors import CannotWrite
from dflashctl.view.again import Again
from dflashctl.view.sanitize import clean, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.live import Live
    from rich.segment import Segment
    from rich.text import Text

ACCENT = "cyan"
NARROWEST = 20
STDOUT = Path("standard output")


class ReaderGone(Exception):
    """Who read our standard output has closed it, as ``head`` does."""


class Screen:
    """The two streams of one command.

    Args:
        color: ``auto``, ``always`` or ``never``. ``auto`` colours a terminal, unless it is
            a dumb one or NO_COLOR is set; and a pipe, too, where FORCE_COLOR is.
        environ: where NO_COLOR, FORCE_COLOR, TERM and COLUMNS are read.
        again: what was typed that a command shown to be typed next must repeat.
    """

    def __init__(
        self, color: str, environ: Mapping[str, str], again: Callable[[], Again] = Again
    ) -> None:
        self.again = again
        self._color = color
        self._environ = environ
        self._live: Live | None = None
        for stream in (sys.stdout, sys.stderr):
            # A terminal without UTF-8 shows "?" for what it cannot show.
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="replace")

    @cached_property
    def out(self) -> Console:
        """Standard output, for the answer."""
        return self._console(sys.stdout)

    @cached_property
    def err(self) -> Console:
        """Standard error, for everything else."""
        return self._console(sys.stderr)

    @property
    def animates(self) -> bool:
        """Whether standard error is a terminal that can redraw a line."""
        # Asked of the stream itself: Rich takes its time to load.
        return sys.stderr.isatty() and self._environ.get("TERM") not in (None, "", "dumb")

    @property
    def redraws(self) -> bool:
        """Whether standard output is a terminal that can be drawn over."""
        return self.out.file.isatty() and self._environ.get("TERM") not in (None, "", "dumb")

    def write(self, text: str) -> None:
        """Text to standard output as it is; the caller has cleaned it.

        Raises:
            ReaderGone: nobody reads it any more.
            CannotWrite: it goes to a file, and the disk is full.
        """
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except BrokenPipeError as error:
            raise ReaderGone from error
        except OSError as error:
            raise no_output(error) from error

    def show(self, renderable: RenderableType) -> None:
        """A table or a text as the answer, without the blanks that fill its cells."""
        self.write(self._drawn(self.out, renderable))

    def heading(self, text: str, *, first: bool) -> None:
        """What the lines after it are about, a blank line before all but the first."""
        from rich.text import Text

        if not first:
            self.write("\n")
        self.show(Text(one_line(text), style=f"bold {ACCENT}"))

    def has_room_for(self, renderable: RenderableType) -> bool:
        """Whether it fits into the width of standard output without being folded."""
        from rich.measure import Measurement

        unbounded = self.out.options.update(max_width=1000)
        return Measurement.get(self.out, unbounded, renderable).maximum <= self.out.width

    def note(self, renderable: RenderableType) -> None:
        """The same on standard error, where it goes with the answer."""
        with contextlib.suppress(OSError, CannotWrite):
            sys.stderr.write(self._drawn(self.err, renderable))

    @staticmethod
    def _drawn(console: Console, renderable: RenderableType) -> str:
        try:
            with console.capture() as drawn:
                console.print(renderable)
        except OSError as error:  # what was printed before goes out first
            raise no_output(error) from error
        return re.sub(r" +$", "", drawn.get(), flags=re.MULTILINE)

    def say(self, text: str, *, lead: str = "", style: str = "") -> None:
        """A paragraph on standard error; ``text`` is cleaned here."""
        from rich.text import Text

        self.flow(self.err, Text(lead), Text(one_line(text), style=style))

    def flow(self, console: Console, lead: Text, body: Text) -> None:
        """A paragraph, wrapped under its lead; on a pipe one line, for grep."""
        from rich.text import Text

        if not (console.file.isatty() or "COLUMNS" in self._environ):
            console.print(Text.assemble(lead, body), soft_wrap=True)
            return
        lines = []
        for line in wrapped(body, max(NARROWEST, console.width - len(lead))):
            line.rstrip()
            lines.append(Text.assemble(lead, line))
            lead = Text(" " * len(lead))
        console.print(Text("\n").join(lines), soft_wrap=True)

    @contextmanager
    def waiting(self, text: str) -> Iterator[None]:
        """A turning sign beside ``text`` while something is awaited, on a terminal only."""
        if not self.animates:
            yield
            return
        from rich.live import Live
        from rich.spinner import Spinner
        from rich.text import Text

        sign = Spinner("line", text=Text(one_line(text), style="dim"), style=ACCENT)
        with self.moving(Live(sign, console=self.err, transient=True)):
            yield

    @contextmanager
    def moving(self, live: Live) -> Iterator[None]:
        """Let something move at the end of standard error, one at a time."""
        self._live = live
        try:
            with live:
                yield
        finally:
            self._live = None

    @contextmanager
    def still(self) -> Iterator[None]:
        """Nothing moves meanwhile, so that a question can be asked."""
        live = self._live
        if live is not None:
            live.stop()
        try:
            yield
        finally:
            if live is not None:
                live.start()

    def ask(self, question: str) -> bool:
        """Whether the person at the terminal answers ``yes``; a mere ``y`` is asked again."""
        with self.still():
            while True:
                self.err.print(question, end="", soft_wrap=True)
                match self._answer().strip().lower():
                    case "yes":
                        return True
                    case "no" | "n" | "":
                        return False
                question = "Please type yes or no: "

    def _answer(self) -> str:
        """A line that was typed; where it was cut short, what follows begins on a new one."""
        line = ""
        try:
            line = sys.stdin.readline()
        finally:
            if not line.endswith("\n"):
                self.err.print()
        return line

    def debug_log(self) -> None:
        """From here on, show on standard error what the parts log."""
        logging.getLogger().addHandler(_CleanHandler())
        logging.getLogger().setLevel(logging.DEBUG)

    def _console(self, stream: TextIO) -> Console:
        from rich.console import Console
        from rich.segment import Segment

        screen = self

        class Pipe(Console):
            def render(
                self, renderable: Any, options: ConsoleOptions | None = None
            ) -> Iterator[Segment]:
                """All that is drawn comes by here, whoever wrote it: nothing of it is raw."""
                for segment in super().render(renderable, options):
                    if segment.control or segment.text.isprintable():
                        yield segment
                    else:
                        yield Segment(clean(segment.text), segment.style)

            def print(self, *objects: Any, **how: Any) -> None:
                """A full disk under stdout is told; under stderr it must not end a deploy."""
                try:
                    super().print(*objects, **how)
                except OSError as error:
                    self.quiet = True
                    if self is screen.__dict__.get("out"):
                        raise no_output(error) from error

            def on_broken_pipe(self) -> None:
                """Rich would end the program; a lost stderr must not end a deploy."""
                self.quiet = True
                if self is screen.__dict__.get("out"):
                    raise ReaderGone

        console = Pipe(
            file=stream,
            color_system=self._color_system(stream),
            no_color=False,
            markup=False,
            emoji=False,
            highlight=False,
            _environ=self._environ,
        )
        if console.width < NARROWEST:  # noqa: PLR1730 - setting it stops following the terminal
            console.width = NARROWEST
        return console

    def _color_system(self, stream: TextIO) -> Any:
        plain = (
            not stream.isatty()
            or self._environ.get("NO_COLOR")
            or self._environ.get("TERM") in (None, "", "dumb")
        )
        forced = self._environ.get("FORCE_COLOR") and not self._environ.get("NO_COLOR")
        if self._color == "always" or (self._color == "auto" and forced):
            return "standard"
        return None if self._color == "never" or plain else "auto"


def no_output(error: OSError) -> CannotWrite:
    """Standard output takes nothing, for want of room or otherwise."""
    return CannotWrite(path=STDOUT, reason=error.strerror or str(error))


def wrapped(body: Text, width: int) -> Iterable[Text]:
    """Lines of at most ``width`` cells.

    A longer word stays whole, and so does a command that a line can hold: both are there
    to be copied.
    """
    from rich.cells import cell_len

    commands = [found.span() for found in _COMMAND.finditer(body.plain)]
    whole = {begin: end for begin, end in commands if cell_len(body.plain[begin:end]) <= width}
    breaks, used, kept = [], 0, 0
    for word in _WORD.finditer(body.plain):
        if not word[0] or word.start() < kept:
            continue  # it went with the command's first word
        kept = whole.get(word.start(), 0)
        rest = _WORD.match(body.plain, kept or word.start())
        part = body.plain[word.start() : rest.end()] if rest else word[0]
        if used and used + cell_len(part.rstrip()) > width:
            breaks.append(word.start())
            used = 0
        used += cell_len(part)
    return body.divide(breaks)


_WORD = re.compile(r"\S*\s*")
# What a message names as the thing to type, after a colon and up to the sentence's end.
_COMMAND = re.compile(
    r"(?<=: )(?:dflashctl|ssh|ssh-keygen|systemctl|nvidia-modprobe) .+?"
    r"(?=[.,;)]*(?: [A-Z]| or | and |$))"
)


class _CleanHandler(logging.Handler):
    """Log lines on standard error, cleaned: they may quote what a target sent."""

    def emit(self, record: logging.LogRecord) -> None:
        text = f"{record.relativeCreated / 1000:8.3f} {record.name}: {record.getMessage()}"
        if record.exc_info:
            text += "\n" + logging.Formatter().formatException(record.exc_info)
        print(clean(text), file=sys.stderr)
