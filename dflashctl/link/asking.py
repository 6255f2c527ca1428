"""Questions to the person at the terminal, whose answers nobody may see."""

from __future__ import annotations

import contextlib
import getpass
import os
import termios
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def ask_on_terminal(prompt: str) -> str | None:
    """Ask for a secret on the controlling terminal; None: there is none.

    Ctrl-D answers as an empty line does.
    """
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    except OSError:
        return None
    try:
        return getpass.getpass(prompt)
    except EOFError:
        os.write(terminal, b"\n")
        return ""
    finally:
        os.close(terminal)


class Asker:
    """Asks one question at a time, and leaves the terminal as it was. Thread-safe."""

    def __init__(self, ask: Callable[[str], str | None] = ask_on_terminal) -> None:
        """``ask`` shows a prompt and returns what was typed, or None without a terminal."""
        self._ask = ask
        self._lock = threading.RLock()
        self._terminal: list[Any] | None = None
        self._asking = False
        self._passwords: dict[str, str] = {}

    def ask(self, prompt: str) -> str | None:
        """What was typed; None: there is no terminal."""
        with self._lock:
            with contextlib.suppress(OSError, termios.error):
                terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
                self._terminal = termios.tcgetattr(terminal)
                os.close(terminal)
            self._asking = True
            answer = self._ask(prompt)
            self._asking = False
            return answer

    def password(self, whose: str, wrong: str | None) -> str | None:
        """The password of ``user@host``, asked for once; and once more where it was ``wrong``.

        "" where none was given, None without a terminal.
        """
        with self._lock:
            known = self._passwords.get(whose)
            if known is not None and known != wrong:
                return known
            again = "" if wrong is None else "that was not it; "
            answer = self.ask(f"{again}sudo password of {whose}: ")
            if answer:
                self._passwords[whose] = answer
            return answer

    def close(self) -> None:
        """Give the terminal its echo and a new line, should a question have been cut off."""
        if self._terminal is not None:
            with contextlib.suppress(OSError, termios.error):
                terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
                termios.tcsetattr(terminal, termios.TCSANOW, self._terminal)
                if self._asking:
                    os.write(terminal, b"\n")
                os.close(terminal)
